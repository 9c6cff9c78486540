"""Draw the pictures of `docs/gallery.md` by the code that stands there.

python benchmarks/gallery.py
"""

import argparse
import contextlib
import re
import tempfile
import types
from collections.abc import Mapping
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from PIL import Image

from mpnp.plotting.style import STYLE

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "gallery"


def main() -> None:
    """Run the page and keep its pictures, with few colours, because they are drawings."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for picture in draw(Path(folder)):
            Image.open(picture).convert("RGB").quantize(128).save(OUT / picture.name, optimize=True)


def draw(folder: Path, instead: Mapping[str, str] = types.MappingProxyType({})) -> list[Path]:
    """Run all blocks of the page, with some texts replaced, in one namespace; returns the pictures in the folder."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "gallery.md").read_text(), flags=re.DOTALL))
    for text, other in instead.items():
        code = code.replace(text, other)
    (folder / "examples").symlink_to(ROOT / "examples")
    with matplotlib.rc_context({**STYLE, "savefig.dpi": 130}), contextlib.chdir(folder):
        matplotlib.use("agg")
        exec(code, {})
        plt.close("all")
    return sorted(folder.glob("*.png"))


if __name__ == "__main__":
    main()
