"""Surrogates predict an expensive function from its evaluations so far.

Methods handle several optimisation loops at once; all have the same number of points and share the candidates. Inputs lie in
the unit box, outputs are standardised, and each loop has its own random seed.
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
from mpnp.inference.model import NUM_SAMPLES, FittedModel
from mpnp.inference.ood import LargeContextWarning
from mpnp.inference.prediction import Prediction
from mpnp.inference.predictor import pad_points
from mpnp.tables.points import context_points, target_inputs
from mpnp.tasks.registry import reads_fewer_inputs

__all__ = [
    "AbstractSurrogate",
    "Candidates",
    "Inputs",
    "NeuralProcessSurrogate",
    "Outputs",
    "Point",
    "Points",
    "Scores",
    "Seeds",
    "Values",
    "context_slots",
    "normal_log_density",
]

SLOTS = (16, 48)
"""Context sizes that small loops are padded to. Few sizes, because compiling each program takes seconds."""

TARGETS = 1_024
"""Fewer candidates are padded to this number, that of a search in one dimension, so that it needs a single program."""

Inputs = Float[np.ndarray, "loop point input"]
Outputs = Float[np.ndarray, "loop point"]
Candidates = Float[np.ndarray, "candidate input"]
Seeds = Integer[np.ndarray, " loop"]
Scores = Float[np.ndarray, "loop candidate"]

Points = Float[np.ndarray, "point input"]
Values = Float[np.ndarray, " point"]
Point = Float[np.ndarray, " input"]


class AbstractSurrogate(abc.ABC):
    """A probabilistic model of functions that can be conditioned on points."""

    @abc.abstractmethod
    def moments(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> tuple[Scores, Scores]:
        """Predictive mean and standard deviation at the candidates, given the points of each loop."""

    @abc.abstractmethod
    def draw(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        """One function sample per loop, evaluated at the candidates."""

    @abc.abstractmethod
    def log_density(self, x: Points, z: Values, point: Point, output: float) -> float:
        """Log predictive density of an observation, noise included, given the points of one loop."""

    @abc.abstractmethod
    def require_inputs(self, num_inputs: int) -> None:
        """Raise an error if the surrogate cannot predict functions with this many inputs."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """What determines its predictions, for records."""


class NeuralProcessSurrogate(AbstractSurrogate):
    """A neural process with one output.

    The unit box is mapped to the input range of the training data, and standardised outputs to their output scale. Moments are
    those of the full predictive mixture of `num_samples` components, observation noise included.
    """

    def __init__(self, model: FittedModel, *, num_samples: int = NUM_SAMPLES) -> None:
        card = model.card
        if len(card.columns.outputs) != 1:
            raise InputError(
                f"optimisation needs a model with one output, but this model predicts {len(card.columns.outputs)} "
                f"({', '.join(card.columns.outputs)}); choose another model"
            )
        if not np.isfinite([card.seen.low, card.seen.high]).all():
            raise InputError("the card of this model lacks its training input range, so inputs cannot be scaled to it")
        self.model, self.num_samples = model, num_samples

    def moments(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> tuple[Scores, Scores]:
        predictions, columns = self._predict(x, z, candidates, seeds, self.num_samples), self.model.card.columns
        means = [columns.encode_outputs(prediction.mean)[:, 0] for prediction in predictions]
        stds = [(prediction.std / columns.output_scale.scale)[:, 0] for prediction in predictions]
        return np.stack(means), np.stack(stds)

    def draw(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds) -> Scores:
        columns = self.model.card.columns
        return np.stack([columns.encode_outputs(p.loc[0])[:, 0] for p in self._predict(x, z, candidates, seeds, 1)])

    def log_density(self, x: Points, z: Values, point: Point, output: float) -> float:
        mean, std = self.moments(x[None], z[None], point[None], np.zeros(1, np.uint32))
        return normal_log_density(output, float(mean[0, 0]), float(std[0, 0]))

    def require_inputs(self, num_inputs: int) -> None:
        columns, task = self.model.card.columns, str(self.model.card.about.get("task"))
        fewer = reads_fewer_inputs(task) and num_inputs < len(columns.inputs)
        if num_inputs != len(columns.inputs) and not fewer:
            raise InputError(
                f"the bounds have {num_inputs} inputs, but the model reads {len(columns.inputs)} "
                f"({', '.join(columns.inputs)}); choose a model with as many inputs, or 'gp'"
            )

    def describe(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for leaf in jax.tree.leaves(eqx.filter(self.model.network, eqx.is_array)):
            digest.update(np.asarray(leaf).tobytes())
        return {"model": self.model.card.model, "weights_sha256": digest.hexdigest(), "num_samples": self.num_samples}

    def _predict(self, x: Inputs, z: Outputs, candidates: Candidates, seeds: Seeds, num_samples: int) -> list[Prediction]:
        self._warn_large(x.shape[1])
        columns, count = self.model.card.columns, len(candidates)
        y = columns.decode_outputs(z[..., None])
        slots = context_slots(x.shape[1])
        contexts = [pad_points(context_points(columns, *pair), slots) for pair in zip(self.in_domain(x), y, strict=True)]
        padded = np.resize(candidates, (max(count, TARGETS), candidates.shape[1]))
        targets = [target_inputs(columns, self.in_domain(padded))] * len(contexts)
        answers = self.model.network_forecaster.predictor(num_samples).many(contexts, targets, seeds=seeds.tolist())
        return [Prediction.decode(jax.tree.map(lambda part: part[:, :count], answer), columns) for answer in answers]

    def in_domain(self, unit: Float[np.ndarray, "*any input"]) -> Float[np.ndarray, "*any x_dim"]:
        """Map the unit box to the input range of the training data; inputs beyond those of the box are 0."""
        seen, used = self.model.card.seen, unit.shape[-1]
        inside = seen.low[:used] + unit * (seen.high - seen.low)[:used]
        return np.pad(inside, [(0, 0)] * (unit.ndim - 1) + [(0, len(seen.low) - used)])

    def _warn_large(self, num_points: int) -> None:
        largest = self.model.card.seen.largest_context
        if num_points > largest:
            warnings.warn(
                f"the loop has more points than the {largest} of the largest training context, so the model may stop "
                "improving. Stop here, or train on longer curves",
                LargeContextWarning,
                stacklevel=5,
            )


def normal_log_density(y: float, mean: float, std: float) -> float:
    """Log density of a normal distribution."""
    return float(-((y - mean) ** 2) / (2 * std**2) - np.log(std) - np.log(2 * np.pi) / 2)


def context_slots(num_points: int) -> int:
    """The number of slots that a context of this size is padded to."""
    return next((slots for slots in SLOTS if slots >= num_points), num_points)
