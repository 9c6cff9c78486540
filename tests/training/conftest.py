"""Runs, and programs compiled once for all runs of a file."""

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from helpers.training import CONFIG, trained
from mpnp.training.rundir import RunDirectory


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Runs of one configuration share their compiled programs, in this process and in its children."""
    options = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("programs")),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in options}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in options.items():
            jax.config.update(name, value)
            patch.setenv(name.upper(), str(value))
        yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture(scope="module")
def finished(programs, tmp_path_factory):
    """A run that nothing disturbed."""
    return trained(CONFIG, tmp_path_factory.mktemp("finished") / "run")


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "run")
