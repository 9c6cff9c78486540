"""Convert rows in the user's units to the points that a network reads."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from mpnp.errors import InputError
from mpnp.tables.columns import Schema
from mpnp.tasks.tables import separate_outputs
from mpnp.tasks.task import PointSet

__all__ = ["context_points", "many_contexts", "many_targets", "target_inputs"]


def context_points(columns: Schema, x: Float[np.ndarray, "row input"], y: Float[np.ndarray, "row output"]) -> PointSet:
    """Observed rows as the network reads them; NaN marks outputs that were not observed."""
    observed = ~np.isnan(y)
    x, y = columns.encode_inputs(x), np.nan_to_num(columns.encode_outputs(y))
    if columns.separates_outputs:
        x, y, seen = (np.asarray(part) for part in separate_outputs(_float32(x), _float32(y), jnp.asarray(observed)))
        return _points(x[seen], y[seen])
    if not observed.all():
        raise InputError(
            f"row {int(np.argmin(observed.all(axis=1)))} lacks an output, but this model needs all outputs of a row; "
            "drop such rows"
        )
    return _points(x, y)


def target_inputs(columns: Schema, x: Float[np.ndarray, "row input"]) -> Float[np.ndarray, "point x_dim"]:
    """Inputs to predict at, as the network reads them."""
    encoded = _float32(columns.encode_inputs(x))
    if columns.separates_outputs:
        nothing = jnp.zeros((len(x), len(columns.outputs)))
        encoded, _, _ = separate_outputs(encoded, nothing, nothing > 0)
    return np.asarray(encoded)


def many_contexts(
    columns: Schema, contexts: Sequence[tuple[Float[np.ndarray, "_ input"], Float[np.ndarray, "_ output"]]]
) -> list[PointSet]:
    """The points of many contexts. They are converted together, because each new size of an array costs a compilation."""
    if not contexts:
        return []
    x, y = (np.concatenate(parts) for parts in zip(*contexts, strict=True))
    together = jax.device_get(context_points(columns, x, y))
    points_per_row = (~np.isnan(y)).sum(axis=1) if columns.separates_outputs else np.ones(len(y), int)
    ends = np.append(0, np.cumsum(points_per_row))[np.cumsum([len(part) for part, _ in contexts])]
    parts = [np.split(leaf, ends[:-1]) for leaf in jax.tree.leaves(together)]
    return [jax.tree.unflatten(jax.tree.structure(together), leaves) for leaves in zip(*parts, strict=True)]


def many_targets(columns: Schema, targets: Sequence[Float[np.ndarray, "_ input"]]) -> list[Float[np.ndarray, "_ x_dim"]]:
    """The inputs of many tasks to predict at, converted together."""
    if not targets:
        return []
    together = target_inputs(columns, np.concatenate(targets))
    points_per_row = len(together) // max(sum(map(len, targets)), 1)
    return np.split(together, points_per_row * np.cumsum([len(x) for x in targets])[:-1])


def _points(x: Float[np.ndarray, "point x_dim"], y: Float[np.ndarray, "point y_dim"]) -> PointSet:
    return PointSet(_float32(x), _float32(y), jnp.ones(len(x), bool))


def _float32(array: np.ndarray) -> jnp.ndarray:
    with np.errstate(over="ignore"):  # overflow to infinity makes the prediction an error later
        return jnp.asarray(np.asarray(array, np.float32))
