"""`mpnp export`: models for places without JAX."""

import argparse
import pkgutil

from mpnp.cli.fields import file_path
from mpnp.cli.runs import add_models, load_models
from mpnp.errors import InputError

__all__ = ["FORMATS", "add_arguments", "run"]

FORMATS = {
    "numpy": ("mpnp.export.folders:write_numpy", "a folder that NumPy alone runs: weights and a module of one file"),
    "onnx": ("mpnp.export.onnx_graphs:write_onnx", "a folder of ONNX graphs, and a module that runs them with onnxruntime"),
    "html": ("mpnp.explore.html:write_html", "one HTML file: the page of 'mpnp explore', with the models inside"),
}
"""By name: a function that writes models to a path, as `package.module:function`, and what it writes."""

EPILOG = """\
formats:
{formats}

examples:
  mpnp export model --format numpy --out predictor     then: from predictor import Predictor; Predictor("predictor")
  mpnp export canp-rbf-low mpanp-rbf --format html --out models.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Models, a format, and where to write."""
    parser.epilog = EPILOG.format(formats="\n".join(f"  {name:<7} {text}" for name, (_, text) in FORMATS.items()))
    add_models(parser, at_least="+")
    parser.add_argument("--format", required=True, choices=FORMATS, help="what to write")
    parser.add_argument("--out", type=file_path, required=True, metavar="PATH", help="file or folder to write")


def run(args: argparse.Namespace) -> None:
    """Load the models and write them."""
    try:
        write = pkgutil.resolve_name(FORMATS[args.format][0])
    except ModuleNotFoundError as error:
        raise InputError(
            f"--format {args.format} needs {error.name}, which is not installed; install it with: pip install 'mpnp[export]'"
        ) from None
    for path in write(load_models(args.directories), args.out):
        print(f"wrote {path}: {path.stat().st_size / 1e6:.2f} MB")
