"""Dataclasses on the command line: one flag per field, with the field's help text."""

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpnp.errors import InputError
from mpnp.io.paths import usable_path
from mpnp.options import option_type

__all__ = ["add_field", "add_fields", "as_flag", "file_path", "given", "require_agreement"]

METAVARS = {int: "N", float: "X", str: "NAME"}


def add_fields(group: Any, kind: type, *, defaults: Any = None) -> None:
    """Add a flag for every field of a dataclass. The help shows the values of `defaults`, an instance, if there is one."""
    for field in dataclasses.fields(kind):
        add_field(group, field, as_flag(field.name), default=getattr(defaults, field.name, None))


def add_field(group: Any, field: dataclasses.Field[Any], flag: str, *, default: Any) -> None:
    """Add a flag for one field. Its value is None unless the user sets it, and the help shows the default."""
    kind, shown = option_type(field), "" if default is None else f" (default {default})"
    group.add_argument(flag, dest=field.name, type=kind, metavar=METAVARS[kind], help=field.metadata["help"] + shown)


def as_flag(name: str) -> str:
    """The flag of a field."""
    return f"--{name.replace('_', '-')}"


def given(args: argparse.Namespace, kind: type) -> dict[str, Any]:
    """The fields of a dataclass that the user set on the command line."""
    values = {field.name: getattr(args, field.name, None) for field in dataclasses.fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def require_agreement(chosen: Mapping[str, Any], stored: Mapping[str, Any], directory: Path) -> None:
    """Raise an error that names all options which differ from those that a directory was started with."""
    changed = [name for name, value in chosen.items() if name in stored and stored[name] != value]
    if not changed:
        return
    differences = ", ".join(f"{_as_typed(name, stored[name])}, not {_plain(chosen[name])}" for name in changed)
    flags = " and ".join(map(as_flag, changed))
    raise InputError(
        f"{directory} was started with {differences}; leave out {flags} to resume it, or start anew with another --out"
    )


def _as_typed(name: str, value: Any) -> str:
    return f"no {as_flag(name)}" if value is None else f"{as_flag(name)} {_plain(value)}"


def _plain(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def file_path(text: str) -> Path:
    """The type of arguments that name a file or a directory."""
    try:
        return usable_path(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
