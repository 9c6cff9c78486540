"""Experiments without the search for matching sizes."""

import pytest

from mpnp.reproduce import experiments


@pytest.fixture
def any_width(monkeypatch):
    """The width that matches takes seconds to find, and is tested by itself."""
    monkeypatch.setattr(experiments, "matched_width", lambda model, settings: 2 * settings.width)
