"""Records: results as JSON, each with what is needed to trust and repeat it."""

import contextlib
import functools
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import jax

from mpnp.errors import RunError

__all__ = ["environment", "read_json", "whole_or_not_at_all", "write_atomically", "write_json"]


@functools.cache
def environment() -> dict[str, Any]:
    """The code and the machine behind a number."""
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
    """Write a file so that a reader, or a crash, meets the old one or the new one and nothing between."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; choose a directory you may write to") from None
    with whole_or_not_at_all(path, lambda: os.unlink(temporary)):
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)


@contextlib.contextmanager
def whole_or_not_at_all(path: Path, undo: Callable[[], object]) -> Iterator[None]:
    """Undo what was begun, if anything stops it before the end; what the system refuses is said in our words."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            undo()
        if isinstance(error, OSError):
            raise RunError(f"cannot write {path}: {error.strerror}") from None
        raise


def write_json(path: Path, content: Any) -> None:
    """Write JSON that people can read, atomically."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def read_json(path: Path) -> Any:
    """Read a JSON file of ours."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise RunError(f"{path} does not exist") from None
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise RunError(f"{path} is not valid JSON ({error}); restore it from a copy or start a new run") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _commit() -> str | None:
    """The commit of a source checkout, marked if files differ from it; nothing for an installed package."""
    source = Path(__file__).resolve().parent

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
