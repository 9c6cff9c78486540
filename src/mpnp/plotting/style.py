"""Style of all figures, and how to save them."""

from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mpnp.errors import InputError
from mpnp.io.files import write_atomically

__all__ = ["BAND", "DRAW", "LOG_STYLE", "MEAN", "STYLE", "literal", "picture_format", "save_figure"]

STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "font.size": 9,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "text.parse_math": False,  # nor do names of tasks and files hold any
}
LOG_STYLE: Any = {**STYLE, "text.parse_math": True}
"""Of figures with logarithmic axes, whose powers of ten are mathematics."""

BAND, MEAN, DRAW = "#9ecae1", "#08519c", "#f16913"


def literal(text: str) -> str:
    """A text in which dollar signs are dollar signs, even on figures with mathematics."""
    return text.replace("$", r"\$")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically, in the format given by the file extension."""
    write_atomically(path, lambda file: figure.savefig(file, format=picture_format(path)))


def picture_format(path: Path) -> str:
    """The image format given by the file extension."""
    endings, ending = FigureCanvasAgg.filetypes, path.suffix.lstrip(".").lower()
    if ending not in endings:
        raise InputError(f"cannot write a figure to '{path}': its name must end in one of .{', .'.join(sorted(endings))}")
    return ending
