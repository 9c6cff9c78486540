"""Functions sampled by a JAX network as torch tensors, with gradients."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from torch import Tensor  # pyright: ignore[reportMissingImports]

from mpnp.inference.predictor import round_up, task_count
from mpnp.models.base import AbstractNeuralProcess
from mpnp.models.microbatch import microbatch_size
from mpnp.tasks.task import PointSet

__all__ = ["FunctionDraws"]

CONTEXT_SLOTS = (16, 48)
"""Context sizes that programs are compiled for; larger ones are rounded up as in the predictor. Compiling takes seconds."""

TARGET_SLOTS = tuple(16 * 4**power for power in range(10))
"""Target counts that programs are compiled for: an optimiser evaluates many targets at its start, then few in each step."""

ContextX = Float[Array, "task slot x_dim"]
ContextY = Float[Array, "task slot y_dim"]
Targets = Float[Array, "task target x_dim"]
Functions = Float[Array, "task function target y_dim"]


class FunctionDraws:
    """Sampled functions with the same random draws in every call, so that a context has the same functions at all targets.

    Everything is in the network's units. Arrays are padded to few sizes, so that an optimiser whose numbers of points vary does
    not wait for the compiler.
    """

    def __init__(self, network: AbstractNeuralProcess, num_samples: int, seed: int) -> None:
        self.network, self.num_samples, self._key = network, num_samples, jax.random.key(seed)
        self._dtype = np.dtype(network.dtype)

    def __call__(self, x: Tensor, y: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Locations and scales, of shape (task, function, target, output), given the context points x, y of each task.

        Differentiable with respect to all three arguments.
        """
        loc, scale = _Differentiable.apply(self, x, y, targets)
        return loc, scale

    def predict(self, x: np.ndarray, y: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for NumPy arrays, without gradients."""
        num_tasks, num_targets = targets.shape[:2]
        answers = _predict(self.network, self._key, self.num_samples, *self._padded(x, y, targets))
        loc, scale = (np.asarray(answer)[:num_tasks, :, :num_targets] for answer in answers)
        return loc, scale

    def pull_back(self, x: np.ndarray, y: np.ndarray, targets: np.ndarray, slopes: list[np.ndarray]) -> list[np.ndarray]:
        """Gradients with respect to x, y and targets, given those (`slopes`) with respect to locations and scales."""
        mask, *points = self._padded(x, y, targets)
        shape = len(mask), slopes[0].shape[1], points[2].shape[1], y.shape[2]
        padded: list[Any] = [_pad(slope.astype(self._dtype), shape) for slope in slopes]
        answers = _pull_back(self.network, self._key, self.num_samples, mask, tuple(points), tuple(padded))
        return [
            np.asarray(answer)[tuple(slice(size) for size in given.shape)]
            for answer, given in zip(answers, (x, y, targets), strict=True)
        ]

    def _padded(self, x: np.ndarray, y: np.ndarray, targets: np.ndarray) -> list[Any]:
        """Mask, points and targets, padded to sizes that programs are compiled for."""
        tasks = task_count(len(x))
        slots, num_targets = _at_least(x.shape[1], CONTEXT_SLOTS), _at_least(targets.shape[1], TARGET_SLOTS)
        mask = np.broadcast_to(np.arange(slots) < x.shape[1], (tasks, slots))
        sizes = zip((x, y, targets), (slots, slots, num_targets), strict=True)
        return [mask, *(_pad(part.astype(self._dtype), (tasks, size, part.shape[2])) for part, size in sizes)]


@eqx.filter_jit
def _predict(
    network: AbstractNeuralProcess,
    key: PRNGKeyArray,
    num_samples: int,
    mask: Bool[Array, "task slot"],
    x: ContextX,
    y: ContextY,
    targets: Targets,
) -> tuple[Functions, Functions]:
    @jax.checkpoint  # recompute for gradients, because the activations of thousands of tasks would not fit into memory
    def one(task: tuple[PointSet, Float[Array, "target x_dim"]]) -> tuple[Array, Array]:
        answer = network.predict(*task, key=key, num_samples=num_samples)
        return answer.loc, answer.scale

    size = microbatch_size(network, len(x), max(x.shape[1], targets.shape[1]), num_samples)
    return jax.lax.map(one, (PointSet(x, y, mask), targets), batch_size=size)


@eqx.filter_jit
def _pull_back(
    network: AbstractNeuralProcess,
    key: PRNGKeyArray,
    num_samples: int,
    mask: Bool[Array, "task slot"],
    points: tuple[ContextX, ContextY, Targets],
    slopes: tuple[Functions, Functions],
) -> tuple[ContextX, ContextY, Targets]:
    return jax.vjp(lambda *points: _predict(network, key, num_samples, mask, *points), *points)[1](slopes)


class _Differentiable(torch.autograd.Function):
    """A torch function whose forward and backward passes run in JAX."""

    @staticmethod
    def forward(ctx: Any, draws: FunctionDraws, *points: Tensor) -> tuple[Tensor, Tensor]:
        ctx.draws = draws
        ctx.save_for_backward(*points)
        loc, scale = draws.predict(*(_array(part) for part in points))
        return _tensor(loc, points[2]), _tensor(scale, points[2])

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        points = ctx.saved_tensors
        answers = ctx.draws.pull_back(*(_array(part) for part in points), [_array(slope) for slope in slopes])
        return None, *(_tensor(answer, part) for answer, part in zip(answers, points, strict=True))


def _at_least(size: int, sizes: tuple[int, ...]) -> int:
    return next((known for known in sizes if known >= size), round_up(size))


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def _tensor(array: np.ndarray, like: Tensor) -> Tensor:
    return torch.tensor(array, dtype=like.dtype, device=like.device)


def _pad(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.pad(array, [(0, size - have) for size, have in zip(shape, array.shape, strict=True)])
