"""Exports trace models with symbolic sizes, which the checks of shapes do not know."""

import contextlib

from jaxtyping import config


@contextlib.contextmanager
def without_shape_checks():
    """They cannot tell whether a symbolic size broadcasts."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
