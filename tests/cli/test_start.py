"""Commands that only look something up start without the heavy libraries."""

import json
import subprocess
import sys

import pytest

import mpnp
from helpers.documents import ROOT

HEAVY = {"jax", "equinox", "matplotlib", "pandas", "scipy", "sklearn"}

LIGHT = [
    ["--help"],
    ["--version"],
    ["models"],
    ["tasks"],
    ["info", "mpanp-rbf"],
    ["info", "mpanp-mnist", "--json"],
    ["info", str(ROOT / "tests" / "data" / "model-format-1")],
    ["train", "--help"],
    ["evaluate", "--help"],
]

REPORT = "import json, sys; print(); print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"

COMMAND = f"""
import sys
from mpnp.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as leave:
    code = leave.code
assert not code
{REPORT}
"""


def modules_after(code, *arguments):
    """Top-level modules that a fresh process has imported after running some code."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, timeout=200)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("arguments", LIGHT, ids=lambda arguments: " ".join(arguments).rpartition("/")[2])
def test_looking_something_up_imports_no_heavy_library(arguments):
    assert not modules_after(COMMAND, *arguments) & HEAVY


def test_importing_the_package_imports_no_heavy_library():
    assert not modules_after(f"import mpnp; mpnp.RECIPES, mpnp.MODELS, mpnp.TASKS, mpnp.RunConfig\n{REPORT}") & HEAVY


@pytest.mark.parametrize("name", mpnp.__all__)
def test_every_public_name_is_there_at_first_use_and_afterwards(name):
    value = getattr(mpnp, name)
    assert value is getattr(mpnp, name) and value is vars(mpnp)[name]
    assert name in dir(mpnp)


def test_a_name_that_the_package_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'mpnp' has no attribute 'nothing'"):
        mpnp.nothing  # noqa: B018 (the access is the test)
