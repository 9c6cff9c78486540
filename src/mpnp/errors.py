"""Errors a user can act on: what was expected, what was given, what to do."""

import difflib
from collections.abc import Iterable

__all__ = ["MpnpError", "InputError", "RunError", "DivergedError", "first_line", "printable", "shorten", "show", "unknown_name"]


class MpnpError(Exception):
    """Base of every error that mpnp raises on purpose; the command line prints it as one line."""


class InputError(MpnpError, ValueError):
    """The arguments or the data are not what the call expects."""


class RunError(MpnpError):
    """A run directory or checkpoint is missing, damaged, foreign or in the way."""


class DivergedError(MpnpError):
    """Numbers that are not finite, in training or in what a trained model predicts."""


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its type if the message is empty. Other libraries write pages.

    >>> first_line(KeyError("task"))
    "no 'task'"
    """
    line = str(error).partition("\n")[0] or type(error).__name__
    return f"no {line}" if isinstance(error, KeyError) else line  # its message is the key alone


def printable(text: str) -> str:
    """A text from a file as one line for the terminal, on which control characters could act and line breaks could mislead.

    >>> print(printable("red: \\x1b[31m"))
    red: \\x1b[31m
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def shorten(text: str, most: int = 80) -> str:
    """The beginning of a text that may be very long, for an error message.

    >>> shorten("0123456789", most=6)
    '012...'
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def show(value: object) -> str:
    """A value that a user passed, as text for an error message, shortened if it is long."""
    try:
        return shorten(repr(value))
    except Exception:  # objects of others, or integers of more digits than Python prints
        return f"something of type {type(value).__name__}"


def unknown_name(kind: str, name: str, known: Iterable[str], listing: str) -> InputError:
    """The error for a name that is in no registry, with the nearest name that is."""
    close = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.4)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return InputError(f"unknown {kind} '{shorten(name)}'.{hint} {listing}")
