"""Without an extra, its part says which one to install, and the rest of mpnp works."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
import mpnp, mpnp.bayesopt
try:
    import mpnp.integrations.{extra}
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(("extra", "missing"), [("botorch", ["torch", "botorch"]), ("optuna", ["optuna"])])
def test_a_missing_framework_is_named_with_its_remedy(extra, missing):
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(extra=extra, missing=missing)],
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    assert run.stdout.strip().endswith(f"install it with: pip install 'mpnp[{extra}]'")
