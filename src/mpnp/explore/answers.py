"""Answers to what the page asks: a request in, a part of what it shows out."""

import dataclasses
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.errors import InputError, show
from mpnp.explore.exact import exact_mixture
from mpnp.explore.fields import choice, grid, known_name, matrix, share, whole
from mpnp.explore.gallery import Gallery, as_numbers, exact_prior
from mpnp.inference.model import FittedModel
from mpnp.inference.posterior import METHODS
from mpnp.inference.prediction import Prediction
from mpnp.inference.predictor import pad_points, round_up
from mpnp.models.martingale import AbstractMartingaleNP
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tables.points import context_points, target_inputs
from mpnp.tasks.task import PointSet

__all__ = ["Answers", "Request"]

MOST_DRAWS, MOST_FUTURE = 256, 60
"""What one request may ask for, so that no page keeps the machine busy for long."""


@dataclasses.dataclass(frozen=True)
class Request:
    """One question about one model."""

    model: FittedModel
    part: str
    x: Float[np.ndarray, "row 1"]
    y: Float[np.ndarray, "row output"]
    output: int
    targets: Float[np.ndarray, "target 1"]
    band: float
    draws: int
    method: str
    future: int | None
    noise: bool
    seed: int

    @staticmethod
    def from_json(content: Any, models: Mapping[str, FittedModel]) -> "Request":
        """Check every field; errors say which one is wrong."""
        if not isinstance(content, dict):
            raise InputError(f"a request must be a JSON object, got {show(content)}")
        model = models[known_name(content, models)]
        outputs = len(model.card.columns.outputs)
        x, y = matrix(content, "x", 1), matrix(content, "y", outputs, missing=True)
        if len(x) != len(y):
            raise InputError(f"x has {len(x)} points and y has {len(y)}; every point needs both")
        observed = ~np.isnan(y).all(axis=1)
        count = {name: whole(content, name, *bounds) for name, bounds in _counts(outputs).items()}
        return Request(
            model=model.scaled_to(x[observed], y[observed]),
            part=choice(content, "part", PARTS),
            x=x[observed],
            y=y[observed],
            targets=grid(content),
            band=share(content),
            method=choice(content, "method", METHODS),
            future=None if content.get("future") is None else whole(content, "future", 1, MOST_FUTURE),
            noise=content.get("noise") is True,
            **count,
        )


class Answers:
    """Answers requests one after another: the models share two cores and their compiled programs."""

    def __init__(self, gallery: Gallery) -> None:
        self.gallery, self._lock = gallery, threading.Lock()

    def __call__(self, content: Any) -> dict[str, Any]:
        """The part of the page that the request asks for."""
        request = Request.from_json(content, self.gallery.models)
        with self._lock:
            return PARTS[request.part](request)

    def close(self) -> None:
        """Wait for the answer under way and give no more: Python must not exit while a program is being compiled."""
        self._lock.acquire()


def _band(request: Request) -> dict[str, Any]:
    """Mean and band of observations, and the model's warnings about the context."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = request.model.condition(request.x, request.y)
    # The page shades what lies outside the training range, so nothing is said about the targets.
    answer = request.model.predictor(posterior.num_samples)(*_as_network_reads(request))
    summary = _summary(Prediction.decode(answer, request.model.card.columns), request)
    return {"x": as_numbers(request.targets[:, 0]), **summary, "warnings": [str(warning.message) for warning in caught]}


def _draws(request: Request) -> dict[str, Any]:
    """Functions, resampled or generated."""
    if not request.draws:
        return {"draws": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to say came with the band
        posterior = request.model.condition(request.x, request.y)
        functions = posterior.sample(
            request.targets,
            request.draws,
            request.seed,
            method=request.method,
            # The page always sends its number, which the model's own mechanism has no use for.
            num_future=request.future if request.method == "resample" else None,
            noise=request.noise,
        )
    values = functions.reshape(request.draws, len(request.targets), -1)[..., request.output]
    return {"draws": as_numbers(values)}


def _pseudo(request: Request) -> dict[str, Any]:
    """Functions read from pseudo contexts alone."""
    network = request.model.network
    if not isinstance(network, AbstractMartingaleNP):
        raise InputError("this model generates no pseudo context")
    num = max(request.draws, 1)
    context, x_target = _as_network_reads(request)
    padded = pad_points(context, round_up(len(context.mask)))
    answer = _predict_pseudo(network, padded, jnp.asarray(x_target), jax.random.key(request.seed), round_up(num))
    prediction = Prediction.decode(jax.device_get(answer), request.model.card.columns)
    return {"pseudo": as_numbers(prediction.loc[:num, :, request.output])}


@eqx.filter_jit
def _predict_pseudo(
    network: AbstractMartingaleNP, context: PointSet, x_target: Float[Array, "target x_dim"], key: PRNGKeyArray, num: int
) -> Predictive:
    return network.predict_pseudo_only(context, x_target, key=key, num_samples=num)


def _exact(request: Request) -> dict[str, Any]:
    """Mean and band of the exact Gaussian process, its kernel inferred from the points."""
    family = exact_prior(request.model)
    if family is None:
        raise InputError("the functions that this model was trained on have no exact posterior")
    mixture = exact_mixture(family, request.x, request.y, request.targets)
    return {"exact": _summary(Prediction(mixture, request.model.card.columns), request)}


PARTS: dict[str, Callable[[Request], dict[str, Any]]] = {"band": _band, "draws": _draws, "exact": _exact, "pseudo": _pseudo}
"""What can be asked for."""


def _summary(prediction: Prediction, request: Request) -> dict[str, Any]:
    tail = (1 - request.band) / 2
    low, high = np.moveaxis(prediction.quantiles([tail, 1 - tail])[:, request.output], -1, 0)
    return {"mean": as_numbers(prediction.mean[:, request.output]), "low": as_numbers(low), "high": as_numbers(high)}


def _as_network_reads(request: Request) -> tuple[PointSet, np.ndarray]:
    columns = request.model.card.columns
    return context_points(columns, request.x, request.y), target_inputs(columns, request.targets)


def _counts(outputs: int) -> dict[str, tuple[int, int]]:
    return {"output": (0, outputs - 1), "draws": (0, MOST_DRAWS), "seed": (0, 2**31 - 1)}
