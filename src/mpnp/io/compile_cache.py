"""Persistent compilation cache, so that repeated commands do not compile again."""

import os
from pathlib import Path

import jax

from mpnp.io.store import cache_folder

__all__ = ["cache_directory", "keep_compiled_programs"]

VARIABLE, OFF = "MPNP_CACHE", "off"


def cache_directory() -> Path:
    """Folder of compiled programs: MPNP_CACHE, or a folder in the user's cache."""
    return cache_folder(VARIABLE, "mpnp")


def keep_compiled_programs() -> None:
    """Enable the persistent compilation cache. Without a writable folder, this has no effect.

    MPNP_CACHE=off disables it. A cache configured for JAX itself (JAX_COMPILATION_CACHE_DIR) takes precedence.
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
