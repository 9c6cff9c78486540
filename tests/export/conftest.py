"""What the tests of exports share."""

import pytest
from jaxtyping import config as shape_checks


@pytest.fixture(autouse=True, scope="module")
def without_shape_checks():
    """They cannot tell whether a symbolic size broadcasts."""
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", False)
