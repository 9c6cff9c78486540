"""The card of a saved model: everything but its weights, as JSON."""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.errors import RunError, first_line
from mpnp.inference.reference import Reference
from mpnp.models.config import ModelSettings
from mpnp.nn.likelihoods.calibration import Calibration
from mpnp.tables.columns import Schema

__all__ = ["FORMAT", "VERSION", "ModelCard", "TrainingDomain"]

FORMAT = "mpnp-model"
VERSION = 3
"""The newest format. Version 1 has numeric columns only, version 2 no calibration; the oldest that suffices is written."""


@dataclasses.dataclass(frozen=True)
class TrainingDomain:
    """The extent of the training data. Beyond it, predictions are extrapolations."""

    num_tasks: int
    num_rows: int
    low: Float[np.ndarray, " input"]
    high: Float[np.ndarray, " input"]
    largest_context: int

    def union(self, other: "TrainingDomain") -> "TrainingDomain":
        """The extent of both data sets together."""
        return TrainingDomain(
            self.num_tasks + other.num_tasks,
            self.num_rows + other.num_rows,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            max(self.largest_context, other.largest_context),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain numbers; a missing bound is null."""
        content = {name: np.asarray(value).tolist() for name, value in vars(self).items()}
        bounds = {name: [value if math.isfinite(value) else None for value in content[name]] for name in ("low", "high")}
        return content | bounds

    @staticmethod
    def from_json(content: Any) -> "TrainingDomain":
        """From what `to_json` made."""
        low, high = (
            np.asarray([absent if value is None else value for value in content[name]], float)
            for name, absent in (("low", -math.inf), ("high", math.inf))
        )
        num_tasks, num_rows, largest_context = (int(content[name]) for name in ("num_tasks", "num_rows", "largest_context"))
        return TrainingDomain(num_tasks, num_rows, low, high, largest_context)


@dataclasses.dataclass(frozen=True)
class ModelCard:
    """How a model reads its columns, and where it can be trusted. `about` is for people: how it was made, its scores."""

    model: str
    settings: ModelSettings
    columns: Schema
    seen: TrainingDomain
    reference: Reference | None
    about: dict[str, Any]
    licence: str | None = None
    calibration: Calibration | None = None
    """How the network's standard deviations are corrected, in its units."""

    def __post_init__(self) -> None:
        """Check consistency, so that a damaged card cannot lead to wrong predictions."""
        if {self.seen.low.shape, self.seen.high.shape} != {(len(self.columns.inputs),)}:
            raise ValueError("the range seen in training does not have one bound per input")
        if (reference := self.reference) is not None:
            if not reference.sizes.shape == reference.scores.shape != ():
                raise ValueError("the reference does not have one score per size")
            if (reference.sizes < 0).any() or not np.isfinite(reference.scores).all():
                raise ValueError("the reference has negative sizes, or scores that are not finite")

    def to_json(self) -> dict[str, Any]:
        """As nested dictionaries."""
        return {
            "format": FORMAT,
            "version": self._version,
            "model": self.model,
            "settings": dataclasses.asdict(self.settings),
            "dims": list(self.columns.dims),
            **self.columns.to_json(),
            "seen": self.seen.to_json(),
            "reference": None if self.reference is None else self.reference.to_json(),
            "about": self.about,
            "licence": self.licence,
            **({} if self.calibration is None else {"calibration": self.calibration.to_json()}),
        }

    @property
    def _version(self) -> int:
        """The oldest format that says it all, so that older versions of mpnp read what they can."""
        if self.calibration is not None:
            return VERSION
        return 1 if self.columns.is_numeric else 2

    @staticmethod
    def from_json(content: Any, where: object) -> "ModelCard":
        """Read what `to_json` returned, in this version or an older one; `where` is for error messages."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise RunError(f"{where} was not written by mpnp; expected the card of a model")
        version = content.get("version")
        if not isinstance(version, int):
            raise RunError(f"{where} is damaged: its format version is {version!r}; restore it from a copy")
        if version > VERSION:
            raise RunError(f"{where} was written by a newer mpnp (format {version}); upgrade mpnp to read it")
        try:
            reference = content["reference"]
            return ModelCard(
                model=str(content["model"]),
                settings=ModelSettings(**content["settings"]),
                columns=_columns(content),
                seen=TrainingDomain.from_json(content["seen"]),
                reference=None if reference is None else Reference.from_json(reference),
                about=_with_new_names(dict(content["about"])),
                licence=None if content.get("licence") is None else str(content["licence"]),
                calibration=Calibration.from_json(content["calibration"]) if "calibration" in content else None,
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise RunError(f"{where} is damaged or incomplete ({first_line(error)}); restore it from a copy") from None


def _columns(content: Any) -> Schema:
    x_dim, y_dim = content["dims"]
    columns = Schema.from_json(content, int(y_dim))
    if columns.dims != (x_dim, y_dim):
        raise ValueError(f"its columns make points of {columns.dims} dimensions, but the network reads {(x_dim, y_dim)}")
    return columns


def _with_new_names(content: Any) -> Any:
    """Older cards call the coverage of the 90% band `inside_90`."""
    if not isinstance(content, dict):
        return content
    return {"coverage_90" if name == "inside_90" else name: _with_new_names(value) for name, value in content.items()}
