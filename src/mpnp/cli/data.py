"""`mpnp data`: prepare a data set on this machine."""

import argparse
from typing import Any

from mpnp.cli.fields import file_path
from mpnp.datasets.prepared import OWN, OWN_CHANNELS, OWN_SIZE, SHAPES, store_of
from mpnp.errors import InputError, unknown_name

__all__ = ["add_arguments", "run"]

SIMULATED = "lotka-volterra"
NAMES = (*SHAPES, SIMULATED)

EPILOG = """\
examples:
  mpnp data mnist --from downloads/mnist        the official files, gzipped or not
  mpnp data mnist --download                    download them
  mpnp data images/cats --from photos --size 32 your own images; then: mpnp train --task images/cats

Images are decoded once and kept in the folder named by MPNP_DATA, or else in the user's cache."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The name of a data set, and where its files are."""
    parser.epilog = EPILOG
    parser.add_argument("name", metavar="NAME", help=f"{', '.join(NAMES)}, or {OWN}NAME for your own images")
    parser.add_argument(
        "--from", dest="folder", type=file_path, metavar="PATH", help="folder of the official files, or of your own images"
    )
    parser.add_argument("--download", action="store_true", help="download the official files and verify them")
    parser.add_argument("--size", type=int, metavar="N", help=f"height and width of your own images (default {OWN_SIZE})")
    parser.add_argument(
        "--channels", type=int, choices=(1, 3), help=f"of your own images: 1 for grey, 3 for colour (default {OWN_CHANNELS})"
    )


def run(args: argparse.Namespace) -> None:
    """Prepare one data set."""
    shape = {field: value for field in ("size", "channels") if (value := getattr(args, field)) is not None}
    if args.name == SIMULATED:
        _simulate(args, shape)
        return
    about = _prepare_own(args, shape) if args.name.startswith(OWN) else _prepare(args, shape)
    counts = ", ".join(f"{count:,} {part}" for part, count in about["images"].items())
    subset = " (not the official files: scores on them are scores on a subset)" if about["subset"] else ""
    print(f"{args.name}: {counts} images of {' x '.join(map(str, about['shape']))}{subset}")
    print(f"kept in {store_of(args.name)}; train on them with: mpnp train --task {args.name}")


def _simulate(args: argparse.Namespace, shape: dict[str, int]) -> None:
    from mpnp.io.compile_cache import keep_compiled_programs
    from mpnp.tasks.predator_prey.problems import prepare_trajectories

    if args.folder or args.download or shape:
        raise InputError(f"{SIMULATED} is simulated and reads no files: run 'mpnp data {SIMULATED}' without options")
    keep_compiled_programs()
    prepare_trajectories(quiet=False)
    print(f"done: train on them with: mpnp train --task {SIMULATED}")


def _prepare(args: argparse.Namespace, shape: dict[str, int]) -> dict[str, Any]:
    from mpnp.datasets.registry import IMAGE_SETS, download, prepare

    if args.name not in IMAGE_SETS:
        listing = f"Choose one of: {', '.join(NAMES)}, or {OWN}NAME for your own images."
        raise unknown_name("data set", args.name, NAMES, listing)
    _require_source(args)
    if shape:
        raise InputError(f"--size and --channels are for your own images; {args.name} has a fixed size")
    return prepare(args.name, download(args.name) if args.download else args.folder)


def _prepare_own(args: argparse.Namespace, shape: dict[str, int]) -> dict[str, Any]:
    from mpnp.datasets.registry import prepare_own

    _require_source(args)
    if shape and str(args.folder).endswith(".npy"):
        raise InputError("--size and --channels are for folders of images; an array has a fixed size")
    if args.download:
        raise InputError(f"your own images are read from a folder or a .npy file: mpnp data {OWN}NAME --from PATH")
    return prepare_own(args.name, args.folder, **shape)


def _require_source(args: argparse.Namespace) -> None:
    if args.download == (args.folder is not None):
        raise InputError("say where the files are: pass --from FOLDER, or --download for a data set that can be downloaded")
