"""What nobody should pass, and damage to what was whole."""

from typing import Any

import numpy as np

__all__ = ["Corrupted", "damage", "junk", "junk_text", "odd_array", "replace_anywhere", "require"]


class Corrupted(Exception):
    """An answer is wrong: worse than any error."""


def require(law: Any, what: str) -> None:
    """Raise `Corrupted` unless a law holds."""
    if not law:
        raise Corrupted(what)


TEXTS = [
    "", " ", "x", "nan", "1e400", "-0", "1,5", "é", "\udcff", "a\nb", "n" * 300, "../..", "/", "\0", "9" * 400,
    "--help", "%s", "0x1F",
]  # fmt: skip


def junk_text(rng: np.random.Generator) -> str:
    """A text that a careless program stumbles over."""
    return TEXTS[rng.integers(len(TEXTS))]


def junk(rng: np.random.Generator) -> Any:
    """A value of any type, often a wrong one. Plain JSON can hold most of them."""
    values = [
        None, True, False, 0, 1, -1, 3, 2.5, -0.0, 1e300, -1e300, 1e-320, float("nan"), float("inf"), 10**9, 10**400, -(2**63),
        [], {}, [[]], [1, 2], [[1.0, 2.0], [3.0]], {"a": [1]}, [None], ["x"], junk_text(rng), list(range(30)),
    ]  # fmt: skip
    return values[rng.integers(len(values))]


def damage(rng: np.random.Generator, content: bytes) -> bytes:
    """Change, remove, insert or repeat some bytes, or cut the rest off."""
    damaged = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(len(damaged) + 1))
        length = int(rng.integers(1, 9))
        chosen = rng.integers(5)
        if chosen == 0:
            del damaged[place:]
        elif chosen == 1:
            del damaged[place : place + length]
        elif chosen == 2:
            damaged[place:place] = rng.bytes(length)
        elif chosen == 3:
            damaged[place:place] = damaged[place : place + length] * int(rng.integers(1, 50))
        else:
            damaged[place : place + length] = rng.bytes(length)
    return bytes(damaged)


def odd_array(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """An array with another length, shape, type or size of numbers."""
    odd = [array, array[1:], array[None], -array, array.astype(np.float32), array.astype(np.int64), np.full_like(array, 2**40)]
    return odd[rng.integers(len(odd))]


def replace_anywhere(rng: np.random.Generator, content: Any, value: Any) -> Any:
    """Nested JSON with the value at a random place."""
    if not isinstance(content, (dict, list)) or not content or rng.random() < 0.15:
        return value
    keys = list(content) if isinstance(content, dict) else range(len(content))
    key = keys[rng.integers(len(keys))]
    copy = content.copy()
    if isinstance(copy, dict) and rng.random() < 0.1:
        del copy[key]
    else:
        copy[key] = replace_anywhere(rng, content[key], value)
    return copy
