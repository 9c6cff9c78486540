"""Options: dataclass fields that explain themselves, and the checks that several sets of options share."""

import dataclasses
from typing import Any

from mpnp.errors import InputError

__all__ = ["option", "option_type", "require_counts", "require_seed"]


def option(default: Any, text: str) -> Any:
    """A field with the text that the command line shows for it."""
    return dataclasses.field(default=default, metadata={"help": text})


def option_type(field: dataclasses.Field[Any]) -> type:
    """The type of an option's value, if it has one."""
    return int if field.type == int | None else type(field.default)


def require_counts(options: Any) -> None:
    """Refuse anything but whole numbers of at least 1 for the fields that count something."""
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        absent = value is None and field.default is None
        counts = option_type(field) is int and field.default != 0  # what may be 0, such as a seed, counts nothing
        if counts and not absent and (not isinstance(value, int) or value < 1):
            raise InputError(f"{field.name} must be a whole number of at least 1, got {value!r}")


def require_seed(seed: int) -> None:
    """Refuse what cannot seed a random key."""
    if not 0 <= seed < 2**32:
        raise InputError(f"seed must lie between 0 and {2**32 - 1}, got {seed}")
