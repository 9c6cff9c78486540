"""A network that searches can ask."""

import pytest

from helpers.fitted_models import fitted


@pytest.fixture(scope="module")
def network():
    """A tiny network of random weights, whose functions differ from draw to draw."""
    return fitted("mpanp")
