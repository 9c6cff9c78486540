"""The error for a framework that is not installed."""

import contextlib
from collections.abc import Iterator

__all__ = ["needs_extra"]


@contextlib.contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Wrap imports: if a module is missing, the error names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"mpnp.integrations.{extra} needs {error.name}, which is not installed; "
            f"install it with: pip install 'mpnp[{extra}]'",
            name=error.name,
        ) from None
