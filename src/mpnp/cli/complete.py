"""`mpnp complete`: complete an image from some of its pixels."""

import argparse
import warnings
from pathlib import Path

from mpnp.cli.fields import file_path
from mpnp.cli.runs import add_model
from mpnp.datasets.prepared import OWN, SHAPES, image_shape
from mpnp.errors import InputError

__all__ = ["add_arguments", "run"]

EPILOG = """\
example:
  mpnp complete runs/mpanp-mnist photo.png --keep 10% --out completion.png"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A model, an image, and how much of it the model sees."""
    parser.epilog = EPILOG
    add_model(parser, "RUN", "a run on images")
    parser.add_argument(
        "picture",
        type=file_path,
        metavar="IMAGE",
        help="a PNG or JPEG file, cropped to its centre and scaled to fit the model",
    )
    parser.add_argument(
        "--keep", default="10%", metavar="SHARE", help="pixels shown to the model: a share or a number (default 10%%)"
    )
    parser.add_argument(
        "--out", type=file_path, default=Path("completion.png"), metavar="FILE", help="figure to write (default %(default)s)"
    )
    parser.add_argument("--num-samples", type=int, default=10, metavar="N", help="images to draw (default %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="selects the pixels that are shown (default %(default)s)"
    )


def run(args: argparse.Namespace) -> None:
    """Complete the image and save a figure of it."""
    from mpnp.datasets.crop import read_picture
    from mpnp.inference.completion import choose_pixels, complete, completion_figure, read_keep
    from mpnp.io.compile_cache import keep_compiled_programs
    from mpnp.plotting.style import picture_format, save_figure
    from mpnp.training.rundir import load_model

    keep_compiled_programs()
    picture_format(args.out)  # reject a bad file name before any work is done
    model, config, _ = load_model(args.directory)
    if config.task not in SHAPES and not config.task.startswith(OWN):
        raise InputError(f"{args.directory} was trained on {config.task}, not on images; train one on images, such as mnist")
    height, width, _ = shape = image_shape(config.task)
    image = read_picture(args.picture, shape)
    shown = choose_pixels(height, width, read_keep(args.keep, height * width), args.seed)
    completion = complete(model, image, shown, num_samples=args.num_samples)
    if completion.log_likelihood < 0:
        warnings.warn(
            "do not trust this completion: the model finds the shown pixels less likely than random colours. Either the image "
            f"is unlike those of {config.task} (are light and dark inverted, as in ink on paper?), or the model has not "
            "trained long enough",
            stacklevel=2,
        )
    save_figure(completion_figure({f"{config.model}, {args.keep}": completion}), args.out)
    print(f"wrote {args.out}: {int(shown.sum())} of {shown.size} pixels shown")
