"""Files of unfinished searches, and checks of everything that is read from them."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.bayesopt.acquisition import find_acquisition
from mpnp.bayesopt.space import Box
from mpnp.errors import InputError, RunError, first_line, show
from mpnp.io.files import read_json
from mpnp.options import require_count, require_seed

__all__ = ["FORMAT", "VERSION", "SavedState", "read_output", "read_pairs"]

FORMAT, VERSION = "mpnp-bayesopt", 1

Point = Float[np.ndarray, " input"]


@dataclasses.dataclass(frozen=True)
class SavedState:
    """The content of a file written by `Optimizer.save`, all of it checked."""

    bounds: Any
    options: dict[str, Any]
    num_asked: int
    pending: list[Point]
    evaluations: list[tuple[Point, float]]
    strategy: Any
    """What described the model; None in files of earlier versions."""

    @staticmethod
    def read(path: Path) -> "SavedState":
        """Read a file. Whatever is wrong with it is a `RunError`."""
        content = read_json(path)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise RunError(f"{path} was not written by Optimizer.save; expected the state of an optimisation")
        if content.get("version") != VERSION:
            raise RunError(f"{path} has format version {show(content.get('version'))}, but this mpnp reads {VERSION}")
        try:
            return SavedState._check(content)
        except KeyError as error:
            raise RunError(f"{path} is damaged: it lacks {error}; restore it from a copy") from None
        except (TypeError, ValueError) as error:
            raise RunError(f"{path} is damaged ({first_line(error)}); restore it from a copy") from None

    @staticmethod
    def _check(content: dict[str, Any]) -> "SavedState":
        options = {name: content[name] for name in ("acquisition", "num_initial", "seed")}
        find_acquisition(options["acquisition"])
        require_count("num_initial", options["num_initial"])
        require_seed(options["seed"])
        box, num_asked = Box.read(content["bounds"]), content["num_asked"]
        pending = [box.point(x) for x in content["pending"]]
        evaluations = [(box.point(x), read_output(y)) for x, y in content["evaluations"]]
        require_count("num_asked", num_asked, least=len(pending))
        if num_asked > len(pending) + len(evaluations):  # every suggestion is pending or was observed
            raise ValueError(f"num_asked is {num_asked}, more than all pending points and evaluations")
        return SavedState(content["bounds"], options, num_asked, pending, evaluations, content.get("strategy"))


def read_output(y: Any) -> float:
    """A finite number, or NaN for a failed evaluation."""
    try:
        array = np.asarray(np.nan if y is None else y)
        if array.dtype.kind not in "iufb" or array.size != 1:
            raise TypeError
    except (TypeError, ValueError):
        raise InputError(f"an output must be one number, or None if the evaluation failed; got {show(y)}") from None
    value = float(array.reshape(()))
    return value if math.isfinite(value) else math.nan


def read_pairs(x: Any, y: Any) -> list[tuple[Any, Any]]:
    """Points and their outputs, as many of one as of the other."""
    try:
        points, outputs = list(x), list(y)
    except TypeError:
        raise InputError(f"several points need one output each; got {show(y)}") from None
    if len(points) != len(outputs):
        raise InputError(f"several points need one output each; got {len(points)} points and {len(outputs)} outputs")
    return list(zip(points, outputs, strict=True))
