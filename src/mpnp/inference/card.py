"""The card of a saved model: everything but its weights, as JSON."""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from mpnp.errors import RunError, first_line
from mpnp.inference.placement import Placement
from mpnp.models.config import ModelSettings
from mpnp.nn.likelihoods.calibration import Calibration
from mpnp.tables.columns import Schema
from mpnp.tables.curves import Curves

__all__ = ["FORMAT", "VERSION", "REFERENCE_DIGITS", "ModelCard", "Reference", "TrainingDomain"]

FORMAT = "mpnp-model"
VERSION = 4
"""The newest format. Version 1 has numeric columns only, version 2 no calibration, version 3 no scaling by the context; the
oldest that suffices is written."""

CONTEXT_SHARE = 0.5
"""Share of the training range that the inputs of a context take up, if they are scaled by it."""


REFERENCE_DIGITS = 4
"""Decimals of reference scores in a file."""

NEIGHBOURS = 200
"""Number of held-out contexts, nearest in size, that a context is compared with."""


@dataclasses.dataclass(frozen=True)
class TrainingDomain:
    """The extent of the training data. Beyond it, predictions are extrapolations."""

    num_tasks: int
    num_rows: int
    low: Float[np.ndarray, " input"]
    high: Float[np.ndarray, " input"]
    largest_context: int
    placement: Placement

    @staticmethod
    def learn(curves: Curves, largest_context: int) -> "TrainingDomain":
        """The extent of these curves."""
        low, high = curves.x.min(axis=0), curves.x.max(axis=0)
        return TrainingDomain(len(curves), len(curves.x), low, high, largest_context, Placement.learn(curves))

    def union(self, other: "TrainingDomain") -> "TrainingDomain":
        """The extent of both data sets together."""
        return TrainingDomain(
            self.num_tasks + other.num_tasks,
            self.num_rows + other.num_rows,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            max(self.largest_context, other.largest_context),
            self.placement.union(other.placement),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain numbers; a missing bound is null."""
        content = {name: np.asarray(value).tolist() for name, value in vars(self).items() if name != "placement"}
        bounds = {name: [value if math.isfinite(value) else None for value in content[name]] for name in ("low", "high")}
        return content | bounds | {"placement": self.placement.to_json()}

    @staticmethod
    def from_json(content: Any) -> "TrainingDomain":
        """From what `to_json` made."""
        low, high = (
            np.asarray([absent if value is None else value for value in content[name]], float)
            for name, absent in (("low", -math.inf), ("high", math.inf))
        )
        num_tasks, num_rows, largest_context = (int(content[name]) for name in ("num_tasks", "num_rows", "largest_context"))
        placement = Placement.from_json(content.get("placement"), len(low))
        return TrainingDomain(num_tasks, num_rows, low, high, largest_context, placement)


@dataclasses.dataclass(frozen=True)
class Reference:
    """Sizes in rows and test statistics (`mpnp.inference.ood`) of held-out contexts, with which new contexts are compared."""

    sizes: Int[np.ndarray, " context"]
    scores: Float[np.ndarray, " context"]

    def p_value(self, size: int, score: float) -> float:
        """The share of held-out contexts of similar size that score no better. Small values mean an implausible context."""
        distance = np.abs(np.log1p(self.sizes) - np.log1p(size))
        near = self.scores[np.argsort(distance, kind="stable")[:NEIGHBOURS]]
        return float((1 + np.sum(near <= score)) / (1 + len(near)))

    def to_json(self) -> dict[str, Any]:
        """As lists of numbers."""
        return {"sizes": self.sizes.tolist(), "scores": [round(float(score), REFERENCE_DIGITS) for score in self.scores]}

    @staticmethod
    def from_json(content: Any) -> "Reference":
        """From what `to_json` made."""
        return Reference(np.asarray(content["sizes"], int), np.asarray(content["scores"], float))


@dataclasses.dataclass(frozen=True)
class ModelCard:
    """How a model reads its columns, and where it can be trusted. `about` is for people: its training and its scores."""

    model: str
    settings: ModelSettings
    columns: Schema
    seen: TrainingDomain
    reference: Reference | None
    about: dict[str, Any]
    licence: str | None = None
    calibration: Calibration | None = None
    """How the network's standard deviations are corrected, in its units."""
    scaled_by_context: bool = False
    """Whether the network reads curves in units of their own context, whatever the user's units."""

    def __post_init__(self) -> None:
        """Check consistency, so that a damaged card cannot lead to wrong predictions."""
        if {self.seen.low.shape, self.seen.high.shape} != {(len(self.columns.inputs),)}:
            raise ValueError("the range seen in training does not have one bound per input")
        if (reference := self.reference) is not None:
            if not reference.sizes.shape == reference.scores.shape != ():
                raise ValueError("the reference does not have one score per size")
            if (reference.sizes < 0).any() or not np.isfinite(reference.scores).all():
                raise ValueError("the reference has negative sizes, or scores that are not finite")

    def scaled_to(self, x: Float[np.ndarray, "row input"], y: Float[np.ndarray, "row output"]) -> "ModelCard":
        """The card for curves with this context: the same one unless they are scaled by it.

        The middle half of the training range is that of the context's inputs, so there is room to forecast on either side.
        """
        if not self.scaled_by_context or not len(x):
            return self
        columns = self.columns.learn(x, y).with_wider_inputs(1 / CONTEXT_SHARE)
        before, after = self.columns.input_scale, columns.input_scale
        low, high = (
            after.shift + after.scale * (bound - before.shift) / before.scale for bound in (self.seen.low, self.seen.high)
        )
        return dataclasses.replace(self, columns=columns, seen=dataclasses.replace(self.seen, low=low, high=high))

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
            **({"scaled_by_context": True} if self.scaled_by_context else {}),
        }

    @property
    def _version(self) -> int:
        """The oldest format that can hold this card, so that older versions of mpnp can read it if possible."""
        if self.scaled_by_context:
            return VERSION
        if self.calibration is not None:
            return 3
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
                scaled_by_context=bool(content.get("scaled_by_context", False)),
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
