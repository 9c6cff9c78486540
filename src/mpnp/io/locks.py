"""Locks that end with their process, even if it is killed."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from mpnp.errors import RunError

try:
    import fcntl
except ImportError:  # Windows has no such locks, so nothing is locked there
    fcntl = None

__all__ = ["exclusive", "lock"]


def lock(handle: int) -> None:
    """Lock an open file or directory until it is closed.

    Raises `BlockingIOError` if it is locked already, and another `OSError` where the file system has no locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Keep all other processes out of a directory, which is made if it is missing and removed if it stays empty.

    The lock is on the directory itself, so it leaves no file behind. Some network file systems have no locks; there, the
    directory is used without one.
    """
    handle = _claimed(directory)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            directory.rmdir()  # fails unless it is empty
        os.close(handle)


def _claimed(directory: Path) -> int:
    """A handle of the locked directory."""
    while True:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            handle = os.open(directory, os.O_RDONLY)
        except OSError as error:
            raise RunError(f"cannot write {directory}: {error.strerror}; choose a directory you may write to") from None
        _claim(handle, directory)
        if os.path.isdir(directory) and os.path.samestat(os.fstat(handle), os.stat(directory)):
            return handle
        os.close(handle)  # the process that held the lock removed the directory meanwhile


def _claim(handle: int, directory: Path) -> None:
    try:
        lock(handle)
    except BlockingIOError:
        os.close(handle)
        raise RunError(
            f"{directory} is in use by another process, which is training or writing there; wait for it or stop it, or choose "
            "another directory"
        ) from None
    except OSError:
        return
