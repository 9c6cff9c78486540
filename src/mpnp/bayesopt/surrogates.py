"""Surrogates: what a loop asks about the function that it cannot afford to evaluate everywhere.

Several loops may be asked about at once, each with as many points as the others, and all at the same candidates. Inputs lie
in the unit box, outputs are standardised, and a seed for each loop decides whatever is drawn at random.
"""

import abc
import hashlib
import warnings
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Integer

from mpnp.errors import InputError
from mpnp.fitted import NUM_SAMPLES, FittedModel, LargeContextWarning
from mpnp.prediction import Prediction
from mpnp.predictor import pad_points

__all__ = ["AbstractSurrogate", "Candidates", "Inputs", "NeuralProcessSurrogate", "Outputs", "Scores", "Seeds"]

SLOTS = (16, 48)
"""Points that predictions are compiled for, and then as the predictor will: few programs, as each costs seconds."""

Inputs = Float[np.ndarray, "loop point input"]
Outputs = Float[np.ndarray, "loop point"]
Candidates = Float[np.ndarray, "candidate input"]
Seeds = Integer[np.ndarray, " loop"]
Scores = Float[np.ndarray, "loop candidate"]


class AbstractSurrogate(abc.ABC):
    """A belief about functions that can be conditioned on points."""

    @abc.abstractmethod
    def moments(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> tuple[Scores, Scores]:
        """Mean and standard deviation at the candidates, given the points of each loop."""

    @abc.abstractmethod
    def draw(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        """One coherent function for each loop, at the candidates."""

    @abc.abstractmethod
    def require_inputs(self, num_inputs: int) -> None:
        """Refuse a box that the surrogate cannot read."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """What decides its answers, for records."""


class NeuralProcessSurrogate(AbstractSurrogate):
    """A neural process of one output.

    The unit box is stretched over the inputs that training showed the model, and standardised outputs are read on the scale
    of the training data. Moments are those of the mixture of `num_samples` functions, their own spread included.
    """

    def __init__(self, model: FittedModel, *, num_samples: int = NUM_SAMPLES) -> None:
        card = model.card
        if len(card.columns.outputs) != 1:
            raise InputError(
                f"one output is minimised, but this model predicts {len(card.columns.outputs)} "
                f"({', '.join(card.columns.outputs)}); choose a model of one output"
            )
        if not np.isfinite([card.seen.low, card.seen.high]).all():
            raise InputError("this model does not say which inputs it was trained on, so nothing can be scaled to them")
        self.model, self.num_samples = model, num_samples

    def moments(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> tuple[Scores, Scores]:
        predictions, scale = self._predict(x, z, candidates, seeds, self.num_samples), self.model.card.normaliser.y
        means = [scale.apply(prediction.mean)[:, 0] for prediction in predictions]
        stds = [(prediction.std / scale.scale)[:, 0] for prediction in predictions]
        return np.stack(means), np.stack(stds)

    def draw(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        scale = self.model.card.normaliser.y
        return np.stack([scale.apply(p.loc[0])[:, 0] for p in self._predict(x, z, candidates, seeds, 1)])

    def require_inputs(self, num_inputs: int) -> None:
        columns = self.model.card.columns
        if num_inputs != len(columns.inputs):
            raise InputError(
                f"the bounds are of {num_inputs} inputs, but the model reads {len(columns.inputs)} "
                f"({', '.join(columns.inputs)}); choose a model with as many inputs, or 'gp'"
            )

    def describe(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for leaf in jax.tree.leaves(eqx.filter(self.model.network, eqx.is_array)):
            digest.update(np.asarray(leaf).tobytes())
        return {"model": self.model.card.model, "weights_sha256": digest.hexdigest(), "num_samples": self.num_samples}

    def _predict(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds, num_samples: int) -> list[Prediction]:
        self._warn_large(x.shape[1])
        units = self.model.units
        y = units.normaliser.y.undo(z[..., None])
        slots = next((slots for slots in SLOTS if slots >= x.shape[1]), x.shape[1])
        contexts = [pad_points(units.context(*pair), slots) for pair in zip(self._in_domain(x), y, strict=True)]
        targets = [units.targets(self._in_domain(candidates))] * len(contexts)
        answers = self.model.predictor(num_samples).many(contexts, targets, seeds=seeds.tolist())
        return [Prediction(*units.rows(answer), units.columns) for answer in answers]

    def _in_domain(self, unit: Float[np.ndarray, "*any input"]) -> Float[np.ndarray, "*any input"]:
        seen = self.model.card.seen
        return seen.low + unit * (seen.high - seen.low)

    def _warn_large(self, num_points: int) -> None:
        largest = self.model.card.seen.largest_context
        if num_points > largest:
            warnings.warn(
                f"the loop has more points than the {largest} of any context in training: the model may no longer learn "
                "from them. Stop here, or train on longer curves",
                LargeContextWarning,
                stacklevel=5,
            )
