"""Paths that users name."""

import errno
import os
from pathlib import Path
from typing import Any

from mpnp.errors import InputError, shorten, show

__all__ = ["usable_path"]


def usable_path(path: Any) -> Path:
    """The path, whether it exists or not. Raises an error if no file can have this name."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"expected the path of a file or directory, got {show(path)}")
    try:
        os.lstat(path)
    except ValueError:  # a null character
        raise InputError(f"no file can be named {shorten(repr(str(path)))}; choose another name") from None
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.EINVAL):
            raise InputError(f"no file can be named '{shorten(str(path))}': {error.strerror}; choose another name") from None
    return Path(path)
