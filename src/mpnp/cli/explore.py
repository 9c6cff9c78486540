"""`mpnp explore`: a local page on which models answer to points that are moved with the mouse."""

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpnp.cli.fields import file_path
from mpnp.cli.runs import add_models, load_models
from mpnp.errors import InputError

if TYPE_CHECKING:
    from mpnp.explore.answers import Answers
    from mpnp.explore.pictures import Pictures
    from mpnp.inference.model import FittedModel

__all__ = ["add_arguments", "run"]

DEFAULT_MODELS = (
    "tnp-rbf-low",
    "mpanp-rbf-low",
    "canp-rbf-low",
    "mpanp-rbf",
    "cnp-rbf",
    "mpnp-rbf",
    "tnp-matern-low",
    "mpanp-matern",
    "mpanp-mnist",
)

EPILOG = """\
examples:
  mpnp explore                                       the models that come with mpnp
  mpnp explore model --data held-out.csv             your own, starting from real curves
  mpnp explore runs/a runs/b --port 8000             several side by side
  mpnp explore mpanp-mnist --data digit.png          complete your own pictures

Only this machine can reach the page, unless --host names another address; then the printed address holds a secret token."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Models, curves to start from, and where to serve."""
    parser.epilog = EPILOG
    add_models(parser, at_least="*")
    parser.add_argument(
        "--data", type=file_path, metavar="FILE", help="a table of curves to start from, with the model's columns; or a picture"
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address to serve at (default %(default)s)")
    parser.add_argument("--port", type=int, default=7337, metavar="N", help="port to serve at, 0 for any (default %(default)s)")
    parser.add_argument("--browser", action="store_true", help="open the page in the web browser")


def run(args: argparse.Namespace) -> None:
    """Load the models and serve the page until interrupted."""
    if not 0 <= args.port < 65536:
        raise InputError(f"--port must lie between 0 and 65535, got {args.port}")
    server = _import_server()
    from mpnp.io.compile_cache import keep_compiled_programs

    keep_compiled_programs()
    models = load_models(args.directories or [Path(name) for name in DEFAULT_MODELS])
    answers, pictures = _prepare(server, models, args.data)
    token = server.make_token(args.host)
    app = server.make_app(answers, pictures, token=token)
    listener = server.listen(args.host, args.port)
    address = server.address(listener, token)
    print(f"exploring {', '.join(models)}\nopen {address} in a browser; stop with Ctrl-C", flush=True)
    server.warm_up(answers, pictures)
    if args.browser:
        import webbrowser

        webbrowser.open(address)
    with contextlib.suppress(KeyboardInterrupt):  # how one stops it
        server.serve(app, listener)
    for part in (answers, pictures):
        if part is not None:
            part.close()


def _prepare(server: Any, models: "dict[str, FittedModel]", data: Path | None) -> "tuple[Answers | None, Pictures | None]":
    """What answers for models of curves, and for models of images."""
    from mpnp.explore.gallery import make_gallery
    from mpnp.explore.pictures import Pictures, is_model_of_images

    of_images = {name: model for name, model in models.items() if is_model_of_images(model)}
    of_curves = {name: model for name, model in models.items() if name not in of_images}
    # A file belongs to the models of curves if there are any; the default is models of both kinds.
    answers = server.Answers(make_gallery(of_curves, data)) if of_curves else None
    files = [data] if data is not None and not of_curves else []
    return answers, Pictures.of(of_images, files) if of_images else None


def _import_server():  # noqa: ANN202 - a module
    try:
        from mpnp.explore import server
    except ModuleNotFoundError as error:
        raise InputError(
            f"mpnp explore needs {error.name}, which is not installed; install it with: pip install 'mpnp[explore]'"
        ) from None
    return server
