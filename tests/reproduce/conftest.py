"""Experiments without the search for matching sizes, and a folder of official image files."""

import pytest

from helpers.image_files import folder as folder
from mpnp.reproduce import experiments


@pytest.fixture
def any_width(monkeypatch):
    """The width that matches takes seconds to find, and is tested by itself."""
    monkeypatch.setattr(experiments, "matched_width", lambda model, settings: 2 * settings.width)
