"""Compiled programs kept on disk, so that the second run of a command does not compile again."""

import os
from pathlib import Path

import jax

from mpnp.folders import cache_folder

__all__ = ["cache_directory", "keep_compiled_programs"]

VARIABLE, OFF = "MPNP_CACHE", "off"


def cache_directory() -> Path:
    """Where programs are kept: the folder that MPNP_CACHE names, or one in the user's cache."""
    return cache_folder(VARIABLE, "mpnp")


def keep_compiled_programs() -> None:
    """Keep every program compiled from now on, and look there first; without a writable folder, change nothing.

    MPNP_CACHE=off keeps nothing. A cache that the user chose for JAX itself (JAX_COMPILATION_CACHE_DIR) is left as it is.
    """
    if os.environ.get(VARIABLE) == OFF or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    directory = cache_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(directory, os.W_OK):
        return
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_compilation_cache_max_size", 2**30)
