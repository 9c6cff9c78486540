"""Where things are kept on a user's machine."""

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(variable: str, name: str) -> Path:
    """The folder that an environment variable names, or else one of that name in the user's cache."""
    named = os.environ.get(variable)
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / name
