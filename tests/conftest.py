"""Shapes are checked while tests run: every annotated array of the package is compared with its annotation."""

import gc
import os
from importlib.metadata import version

# Programs in tests run once or twice: compiling them without costly optimisation is what saves time.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    # Later versions refuse to start with a flag that they do not know.
    + (" --xla_cpu_use_fusion_emitters=false" if version("jaxlib").startswith("0.10.") else ""),
)

os.environ["MPNP_CACHE"] = "off"  # a program that an earlier run kept must not decide a test

import jax
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook("mpnp", "beartype.beartype").__enter__()

settings.register_profile("fixed", derandomize=True)  # the same examples in every run
settings.load_profile("fixed")

collect_ignore_glob = ["*conftest.py"]  # pytest loads them itself; the search for doctests would import them again

gc.set_threshold(200_000, 20, 50)  # compiled programs are millions of objects that live on: to search them often is slow


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_programs():
    """Each holds pieces of memory, of which a process may have some ten thousands only; no file needs those of another."""
    yield
    jax.clear_caches()
    gc.collect()
