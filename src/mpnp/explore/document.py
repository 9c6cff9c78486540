"""Each page as one HTML document: its parts are files in `page/`, joined here."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["render", "render_pictures"]

PARTS = Path(__file__).parent / "page"

INTERPRETER = ("program.js", "predictor.js")
SCRIPTS = ("elements.js", "chart.js", "engines.js", "state.js", "page.js", "start.js")
PICTURE_SCRIPTS = ("elements.js", "engines.js", "pictures.js")

ALONE = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; worker-src blob:\">"
)
"""A file that runs by itself may not use the network."""


def render(data: dict[str, Any], *, alone: bool) -> str:
    """The page. `alone` adds the interpreter that runs models in the browser."""
    interpreter = "\n".join(_read(name) for name in INTERPRETER)
    parts = {
        "<!--policy-->": ALONE if alone else "",
        "/*chart.css*/": _read("chart.css"),
    }
    before = f'<script id="interpreter" type="text/plain">{interpreter}</script>' if alone else ""
    return _fill("page.html", parts | _common(data, SCRIPTS, before))


def render_pictures(data: dict[str, Any]) -> str:
    """The page of images."""
    return _fill("pictures.html", {"/*pictures.css*/": _read("pictures.css")} | _common(data, PICTURE_SCRIPTS))


def _common(data: dict[str, Any], scripts: Sequence[str], before: str = "") -> dict[str, str]:
    """What both pages have, by its place."""
    return {
        "/*page.css*/": _read("page.css"),
        '<script type="application/json" id="data">null</script>': _data(data),
        "<script>/*scripts*/</script>": "\n".join([before, *(f"<script>{_read(name)}</script>" for name in scripts)]),
    }


def _fill(page: str, parts: dict[str, str]) -> str:
    text = _read(page)
    for place, content in parts.items():
        before, found, after = text.partition(place)
        if not found:
            raise AssertionError(f"{page} lacks {place}")
        text = before + content + after
    return text


def _data(data: dict[str, Any]) -> str:
    # In a script, only this sign could end it early; JSON may write it in another way.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="data">{text}</script>'


def _read(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")
