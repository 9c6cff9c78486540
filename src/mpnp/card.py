"""The card of a model that people exchange: everything about it but its weights, as JSON."""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from mpnp.data.curves import Columns
from mpnp.data.normaliser import Normaliser
from mpnp.errors import RunError, first_line
from mpnp.models.settings import ModelSettings
from mpnp.typicality import Reference

__all__ = ["FORMAT", "VERSION", "ModelCard", "Seen"]

FORMAT = "mpnp-model"
VERSION = 1


@dataclasses.dataclass(frozen=True)
class Seen:
    """What training showed the model: outside of it, its bands are guesses."""

    num_tasks: int
    num_rows: int
    low: Float[np.ndarray, " input"]
    high: Float[np.ndarray, " input"]
    largest_context: int

    def to_json(self) -> dict[str, Any]:
        """As plain numbers; where there is no bound, nothing."""
        content = {name: np.asarray(value).tolist() for name, value in vars(self).items()}
        bounds = {name: [value if math.isfinite(value) else None for value in content[name]] for name in ("low", "high")}
        return content | bounds

    @staticmethod
    def from_json(content: Any) -> "Seen":
        """From what `to_json` made."""
        low, high = (
            np.asarray([absent if value is None else value for value in content[name]], float)
            for name, absent in (("low", -math.inf), ("high", math.inf))
        )
        num_tasks, num_rows, largest_context = (int(content[name]) for name in ("num_tasks", "num_rows", "largest_context"))
        return Seen(num_tasks, num_rows, low, high, largest_context)


@dataclasses.dataclass(frozen=True)
class ModelCard:
    """What a loaded model needs to know, and what people want to know. `about` is for people: how it was made, its scores."""

    model: str
    settings: ModelSettings
    dims: tuple[int, int]
    columns: Columns
    normaliser: Normaliser
    seen: Seen
    reference: Reference | None
    about: dict[str, Any]
    licence: str | None = None

    def __post_init__(self) -> None:
        """A card that fits together: a damaged one must not become a wrong answer."""
        for columns, affine in ((self.columns.inputs, self.normaliser.x), (self.columns.outputs, self.normaliser.y)):
            if {affine.shift.shape, affine.scale.shape} != {(len(columns),)}:
                raise ValueError(f"the normaliser has not one scale for each of {', '.join(columns)}")
            if not (np.isfinite(affine.shift).all() and np.isfinite(affine.scale).all() and (affine.scale > 0).all()):
                raise ValueError("the normaliser's scales are not positive and finite")
        if {self.seen.low.shape, self.seen.high.shape} != {(len(self.columns.inputs),)}:
            raise ValueError("the range seen in training has not one bound for each input")
        if (reference := self.reference) is not None:
            if not reference.sizes.shape == reference.scores.shape != ():
                raise ValueError("the reference has not one score for each size")
            if (reference.sizes < 0).any() or not np.isfinite(reference.scores).all():
                raise ValueError("the reference has sizes below zero, or scores that are not finite")

    def to_json(self) -> dict[str, Any]:
        """As nested dictionaries."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "model": self.model,
            "settings": dataclasses.asdict(self.settings),
            "dims": list(self.dims),
            "columns": dataclasses.asdict(self.columns),
            "normaliser": self.normaliser.to_json(),
            "seen": self.seen.to_json(),
            "reference": None if self.reference is None else self.reference.to_json(),
            "about": self.about,
            "licence": self.licence,
        }

    @staticmethod
    def from_json(content: Any, where: object) -> "ModelCard":
        """From what `to_json` made, of this version or an older one."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise RunError(f"{where} was not written by mpnp; expected the card of a model")
        version = content.get("version")
        if not isinstance(version, int):
            raise RunError(f"{where} is damaged: its format version is {version!r}; restore it from a copy")
        if version > VERSION:
            raise RunError(f"{where} was written by a newer mpnp (format {version}); upgrade mpnp to read it")
        try:
            reference = content["reference"]
            x_dim, y_dim = content["dims"]
            return ModelCard(
                model=str(content["model"]),
                settings=ModelSettings(**content["settings"]),
                dims=(int(x_dim), int(y_dim)),
                columns=Columns.from_json(content["columns"]),
                normaliser=Normaliser.from_json(content["normaliser"]),
                seen=Seen.from_json(content["seen"]),
                reference=None if reference is None else Reference.from_json(reference),
                about=dict(content["about"]),
                licence=None if content.get("licence") is None else str(content["licence"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise RunError(f"{where} is damaged or incomplete ({first_line(error)}); restore it from a copy") from None
