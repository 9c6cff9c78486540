"""Options: dataclass fields with help texts, and checks that several dataclasses share."""

import dataclasses
import numbers
from typing import Any

from mpnp.errors import InputError, show

__all__ = ["MOST_SAMPLES", "NUM_SAMPLES", "option", "option_type", "require_count", "require_fields", "require_seed"]

LARGEST = 2**31 - 1
"""Largest count, as 32-bit integers hold it."""

NUM_SAMPLES, MOST_SAMPLES = 32, 100_000
"""Default and largest number of sampled functions that represent a posterior."""


def option(default: Any, text: str, *, most: int = LARGEST) -> Any:
    """A field with a default and the help text that the command line shows. `most` bounds a count from above."""
    return dataclasses.field(default=default, metadata={"help": text, "most": most})


def option_type(field: dataclasses.Field[Any]) -> type:
    """The type of an option's value where it is not None."""
    return int if field.type == int | None else type(field.default)


def require_fields(options: Any) -> None:
    """Require a value of the right type in every field made by `option`, and at least 1 in all that count something."""
    for field in dataclasses.fields(options):
        value, kind = getattr(options, field.name), option_type(field)
        if value is None and field.default is None:
            continue
        if kind is int and field.default != 0:  # a default of 0, as of a seed, marks no count
            require_count(field.name, value, most=field.metadata["most"])
        if kind is float and not _is_number(value):
            raise InputError(f"{field.name} must be a number, got {show(value)}")
        if kind is str and not isinstance(value, str):
            raise InputError(f"{field.name} must be a name, got {show(value)}")


def require_count(name: str, value: Any, *, least: int = 1, most: int = LARGEST) -> None:
    """Require a whole number within bounds."""
    if not _is_whole(value) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {show(value)}")
    if value > most:
        raise InputError(f"{name} must be at most {most}, got {show(value)}")


def require_seed(seed: Any) -> None:
    """Require a valid seed of a random key."""
    if not _is_whole(seed):
        raise InputError(f"seed must be a whole number, got {show(seed)}")
    if not 0 <= seed < 2**32:
        raise InputError(f"seed must lie between 0 and {2**32 - 1}, got {show(seed)}")


def _is_whole(value: Any) -> bool:
    """Whether this is an integer of Python or NumPy. Booleans do not count, although Python treats them as integers."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
