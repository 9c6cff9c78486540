"""Checks of what users pass: whole numbers, seeds and the fields of options."""

import dataclasses

import numpy as np
import pytest

from mpnp.errors import InputError
from mpnp.options import option, require_count, require_fields, require_seed

NO_COUNTS = [0, -1, 1.0, float("nan"), float("inf"), "3", None, [3], True, 2**31, 10**400, 10**5000, np.float64(2), np.ones(1)]


@pytest.mark.parametrize("value", NO_COUNTS, ids=lambda value: type(value).__name__)
def test_only_whole_numbers_within_range_count(value):
    with pytest.raises(InputError, match=r"^n must be (a whole number of at least 1|at most 2147483647), got ") as refusal:
        require_count("n", value)
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize("value", [1, 2**31 - 1, np.int64(3), np.uint8(3)])
def test_integers_of_python_and_numpy_count(value):
    require_count("n", value)
    require_seed(value)


@pytest.mark.parametrize(
    "seed", [-1, 2**32, 10**5000, 0.0, float("nan"), "0", None, [0], True], ids=lambda seed: type(seed).__name__
)
def test_only_whole_numbers_within_range_are_seeds(seed):
    with pytest.raises(InputError, match=r"^seed must"):
        require_seed(seed)


@dataclasses.dataclass(frozen=True)
class Options:
    steps: int = option(3, "a count")
    width: int | None = option(None, "a count that may be absent")
    seed: int = option(0, "no count")
    rate: float = option(0.1, "a number")
    name: str = option("adam", "a name")


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"steps": 2.5}, r"steps must be a whole number of at least 1, got 2\.5"),
        ({"steps": None}, "steps must be a whole number of at least 1, got None"),
        ({"width": True}, "width must be a whole number of at least 1, got True"),
        ({"rate": "fast"}, "rate must be a number, got 'fast'"),
        ({"rate": None}, "rate must be a number, got None"),
        ({"name": ["adam"]}, r"name must be a name, got \['adam'\]"),
    ],
)
def test_fields_of_wrong_types_are_refused(wrong, message):
    require_fields(Options())
    require_fields(Options(width=2, rate=1))
    with pytest.raises(InputError, match=message):
        require_fields(Options(**wrong))
