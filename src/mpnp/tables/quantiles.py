"""Levels of quantiles, and the columns that hold them in tables."""

from collections.abc import Sequence

from mpnp.errors import InputError

__all__ = ["DEFAULT_QUANTILES", "quantile_name", "require_levels"]

DEFAULT_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def require_levels(levels: Sequence[float]) -> list[float]:
    """Check that quantile levels lie strictly between 0 and 1, and return them as floats."""
    try:
        numbers = [float(level) for level in levels]
    except (TypeError, ValueError):
        raise InputError(f"quantiles must be a list of numbers between 0 and 1, got {levels!r}") from None
    if not numbers or not all(0 < level < 1 for level in numbers):
        raise InputError(f"quantiles must lie above 0 and below 1, got {numbers}")
    return numbers


def quantile_name(level: float) -> str:
    """The column name of a quantile.

    >>> quantile_name(0.05), quantile_name(0.5), quantile_name(0.975)
    ('q05', 'q50', 'q97.5')
    """
    percent = f"{100 * level:.6g}"
    return f"q{'0' if 100 * level < 10 else ''}{percent}"
