"""Fields of requests: read, checked, and named in errors."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError, show, unknown_name
from mpnp.options import require_count, require_seed

__all__ = ["choice", "grid", "known_name", "matrix", "number", "share", "whole"]

MOST_POINTS, MOST_TARGETS = 200, 512
"""What one request may hold, so that no page keeps the machine busy for long."""


def known_name(content: Mapping[str, Any], models: Iterable[str]) -> str:
    """The name of a model that the page has."""
    name, known = content.get("model"), list(models)
    if not isinstance(name, str) or name not in known:
        raise unknown_name("model", str(name), known, f"This page has: {', '.join(known)}.")
    return name


def whole(content: Mapping[str, Any], name: str, least: int, most: int) -> int:
    """A whole number between bounds."""
    value = content.get(name)
    if name == "seed":
        require_seed(value)
    require_count(name, value, least=least, most=most)
    return int(value)  # pyright: ignore[reportArgumentType] - it is a whole number


def choice(content: Mapping[str, Any], name: str, known: Iterable[str]) -> str:
    """One of some words."""
    value = content.get(name)
    if not isinstance(value, str) or value not in known:
        raise unknown_name(name, str(value), list(known), f"Choose one of: {', '.join(known)}.")
    return value


def share(content: Mapping[str, Any]) -> float:
    """The probability of a band."""
    value = content.get("band")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.01 <= value <= 0.999:
        raise InputError(f"band must be a number from 0.01 to 0.999, got {show(value)}")
    return float(value)


def grid(content: Mapping[str, Any]) -> Float[np.ndarray, "target 1"]:
    """Inputs at equal distances."""
    value = content.get("grid")
    if not isinstance(value, list) or len(value) != 3:
        raise InputError(f"grid must be a list of lowest input, highest input and number of inputs, got {show(value)}")
    low, high = (number("grid", bound) for bound in value[:2])
    require_count("the number of inputs of the grid", value[2], least=2, most=MOST_TARGETS)
    if not low < high:
        raise InputError(f"grid must ascend, got {show(value)}")
    return np.linspace(low, high, value[2])[:, None]


def matrix(content: Mapping[str, Any], name: str, width: int, *, missing: bool = False) -> Float[np.ndarray, "row column"]:
    """A list of numbers, or of rows of numbers, as a matrix; null is a missing output."""
    rows = content.get(name)
    if not isinstance(rows, list) or len(rows) > MOST_POINTS:
        size = f"{len(rows):,}" if isinstance(rows, list) else show(rows)
        raise InputError(f"{name} must be a list of at most {MOST_POINTS} points, got {size}")
    values = np.full((len(rows), width), np.nan)
    for place, row in enumerate(rows):
        cells = row if isinstance(row, list) else [row]
        if len(cells) != width:
            raise InputError(f"point {place} of {name} must have {width} numbers, got {show(row)}")
        values[place] = [math.nan if cell is None and missing else number(name, cell) for cell in cells]
    return values


def number(name: str, value: Any) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name} must hold numbers, got {show(value)}")
    try:
        finite = float(value)
    except OverflowError:
        finite = math.inf
    if not math.isfinite(finite):
        raise InputError(f"{name} must hold finite numbers, got {show(value)}")
    return finite
