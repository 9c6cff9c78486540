"""Files written atomically, JSON records, and the environment that produced them."""

import contextlib
import functools
import glob
import json
import os
import platform
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from mpnp.errors import RunError, first_line
from mpnp.io.locks import lock

__all__ = ["environment", "read_json", "whole_or_not_at_all", "write_atomically", "write_json"]

TEMPORARY = ".tmp"
"""Suffix of files that are being written."""

MOST_BYTES = 1 << 28
"""Largest JSON file that is read. Cards and records are a thousand times smaller."""


@functools.cache
def environment() -> dict[str, Any]:
    """The versions and the machine behind a result, for its record."""
    import jax  # here, because it takes half a second

    return {
        "commit": _commit(),
        "mpnp": version("mpnp"),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "backend": jax.default_backend(),
        "devices": jax.device_count(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
    }


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file so that readers see the old content or the new, even after a crash.

    Removes temporary files that killed processes left when they wrote the same file. Pipes and devices are not replaced.
    """
    if path.exists() and not path.is_file():
        raise RunError(f"cannot write {path}: it is not a file; choose another name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        handle, temporary = _open_temporary(path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; choose a directory you may write to") from None
    # In this order, because closing a file writes what is left in its buffer, and fails if the disk is full.
    with whole_or_not_at_all(path, lambda: os.unlink(temporary)), os.fdopen(handle, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)  # before the file is closed, which would unlock it


def _open_temporary(path: Path) -> tuple[int, str]:
    """A new file beside `path`, locked to show that its writer lives."""
    while True:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=TEMPORARY)
        with contextlib.suppress(OSError):
            lock(handle)
        if os.fstat(handle).st_nlink:
            return handle, temporary
        os.close(handle)  # another process took it for abandoned before it was locked


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary files for `path` that no living process holds."""
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*{TEMPORARY}"):
        with contextlib.suppress(OSError), temporary.open("r+b") as file:
            lock(file.fileno())
            temporary.unlink()


@contextlib.contextmanager
def whole_or_not_at_all(path: Path, undo: Callable[[], object]) -> Iterator[None]:
    """Run `undo` if anything interrupts the block. Errors of the operating system become a `RunError`."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            undo()
        if isinstance(error, OSError):
            raise RunError(f"cannot write {path}: {error.strerror}") from None
        raise


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON, atomically."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def read_json(path: Path) -> Any:
    """Read JSON. Raises a `RunError` if the file is missing or damaged, or if it might never end."""
    try:
        _require_ordinary(path)
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise RunError(f"{path} does not exist") from None
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # brackets nested too deeply are a RecursionError
        raise RunError(f"{path} is not valid JSON ({first_line(error)}); restore it from a copy or start a new run") from None


def _require_ordinary(path: Path) -> None:
    """Raise an error for pipes and devices, which may have no end, and for files too large to be cards or records."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise RunError(f"{path} is not a file")
    if about.st_size > MOST_BYTES:
        raise RunError(
            f"{path} has {about.st_size:,} bytes, more than the {MOST_BYTES:,} that are read; restore it from a copy"
        )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _commit() -> str | None:
    """The commit of a source checkout, marked if files have changed since; None for an installed package."""
    source = Path(__file__).resolve().parents[1]

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(source), *arguments], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        if git("ls-files", "--error-unmatch", __file__) == "":
            return None
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(source))
        return git("rev-parse", "HEAD") + ("-changed" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
