"""Tasks from observed curves: some rows of a curve are the context, the rest the target."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mpnp.tasks.base import AbstractTaskFamily
from mpnp.tasks.task import Task

__all__ = ["CONTEXTS", "TableFamily", "separate_outputs"]


def _as_drawn(rows: Int[Array, " row"]) -> Int[Array, " row"]:
    return rows


CONTEXTS: dict[str, Callable[[Int[Array, " row"]], Int[Array, " row"]]] = {"random": _as_drawn, "prefix": jnp.sort}
"""How rows are ordered before the leading ones become the context: at random, or in the order of the curve."""


class TableFamily(AbstractTaskFamily):
    """Curves of any lengths, stored end to end. A task is one curve; its context has between no rows and all rows but one.

    Every output of a row becomes a point of its own. Curves with more than `max_rows` rows are subsampled anew for each task.
    With prefix contexts, the rows of a curve must be sorted by its first input. Rows may have weights: a curve is drawn in
    proportion to its `shares`, and within a task each row counts by its weight.
    """

    x: Float[Array, "row x_columns"]
    y: Float[Array, "row y_columns"]
    observed: Bool[Array, "row y_columns"]
    starts: Int[Array, " curve"]
    counts: Int[Array, " curve"]
    max_rows: int = eqx.field(static=True)
    longest: int = eqx.field(static=True)
    context: str = eqx.field(static=True)
    x_dim: int = eqx.field(static=True)
    y_dim: int = eqx.field(static=True, default=1)
    weights: Float[Array, " row"] | None = None
    shares: Float[Array, " curve"] | None = None
    noise: Float[Array, "row y_columns"] | None = None

    def sample(self, key: PRNGKeyArray) -> Task:
        curve_key, rows_key, size_key = jax.random.split(key, 3)
        curve = self._draw_curve(curve_key)
        slot, position = jnp.arange(self.longest), jnp.arange(self.max_rows)
        num_rows = jnp.minimum(self.counts[curve], self.max_rows)
        lot = jnp.where(slot < self.counts[curve], jax.random.uniform(rows_key, (self.longest,)), jnp.inf)
        drawn = jnp.argsort(lot)[: self.max_rows]
        rows = CONTEXTS[self.context](jnp.where(position < num_rows, drawn, self.longest))
        num_context = jax.random.randint(size_key, (), 0, num_rows)

        index = self.starts[curve] + jnp.minimum(rows, self.counts[curve] - 1)
        x, y, observed = separate_outputs(self.x[index], self.y[index], self.observed[index])
        row = jnp.repeat(position, self.y.shape[-1])
        in_context, in_target = observed & (row < num_context), observed & (row >= num_context) & (row < num_rows)
        noise = None if self.noise is None else self.noise[index].reshape(-1)
        return Task(x, y, in_context, in_target, loss_weights=self._loss_weights(index, num_rows), known_noise=noise)

    def _draw_curve(self, key: PRNGKeyArray) -> Int[Array, ""]:
        if self.shares is None:
            return jax.random.randint(key, (), 0, len(self.starts))
        return jax.random.categorical(key, jnp.log(self.shares))

    def _loss_weights(self, index: Int[Array, " row"], num_rows: Int[Array, ""]) -> Float[Array, " point"] | None:
        """The weights of the points of a task, whose rows have a mean weight of one; None if all rows count the same."""
        if self.weights is None:
            return None
        weights = jnp.where(jnp.arange(self.max_rows) < num_rows, self.weights[index], 0)
        mean = weights.sum() / num_rows
        return jnp.repeat(weights / jnp.where(mean > 0, mean, 1), self.y.shape[-1])


def separate_outputs(
    x: Float[Array, "row x_columns"], y: Float[Array, "row y_columns"], observed: Bool[Array, "row y_columns"]
) -> tuple[Float[Array, "point x_dim"], Float[Array, "point 1"], Bool[Array, " point"]]:
    """Make every output a point of its own, tagged one-hot with its column, so that any output of a row may be missing."""
    num_rows, outputs = y.shape
    if outputs > 1:
        which = jnp.broadcast_to(jnp.eye(outputs, dtype=x.dtype), (num_rows, outputs, outputs))
        x = jnp.concatenate([jnp.broadcast_to(x[:, None], (num_rows, outputs, x.shape[-1])), which], axis=-1)
    return x.reshape(num_rows * outputs, x.shape[-1]), y.reshape(-1, 1), observed.reshape(-1)
