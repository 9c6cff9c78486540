"""The interface of a backbone: embed points as tokens, read tokens at targets."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from mpnp.models.parts import Parts
from mpnp.nn.encoders import AbstractSetEncoder, GrowingPoints, PreparedPoints, set_row
from mpnp.tasks.task import PointSet, Task

__all__ = ["AbstractBackbone", "InputFeatures", "Partial", "Query", "Tokens"]


class Tokens(eqx.Module):
    """One feature vector per point. A token of weight w counts as w tokens: 0 for a masked slot, 1 for an ordinary point."""

    features: Float[Array, "*#batch point token_dim"]
    weights: Float[Array, "*#batch point"]


InputFeatures = Shaped[Array, "*#batch point feature_dim"]
"""Features computed from inputs alone, one row per point."""

Query = Any
"""Features computed from the targets alone: a pytree whose structure is up to the backbone."""

Partial = Any
"""What the union of token sets needs to know about one of them: a pytree whose structure is up to the backbone."""


class AbstractBackbone(eqx.Module):
    """Turns a context set into a representation at each target.

    A mechanism may reweight the tokens of the context, or add generated tokens: `read` takes any number of token sets and
    reads their union, in which only a token's weight determines how much it counts.

    The steps are separate methods, so that mechanisms can share them and compute nothing twice: `encode_inputs` serves context
    points that are also targets, and `attend` serves token sets that belong to several unions.
    """

    x_dim: eqx.AbstractVar[int]
    """Number of input dimensions."""
    width: eqx.AbstractVar[int]
    """Width of the representation."""

    @classmethod
    @abc.abstractmethod
    def assemble(cls, parts: Parts) -> "AbstractBackbone":
        """Build a backbone with random weights."""

    @staticmethod
    @abc.abstractmethod
    def set_encoder(parts: Parts, out_dim: int, depth: int) -> AbstractSetEncoder:
        """Build an encoder that relates points as this backbone does, for the latent path of NP and ANP."""

    @property
    @abc.abstractmethod
    def token_dim(self) -> int:
        """Width of a token."""

    @property
    def generated_dim(self) -> int:
        """Width of what a generator makes for a token. By default, it makes the token itself."""
        return self.token_dim

    def generated(self, features: Float[Array, "*batch point generated_dim"]) -> Tokens:
        """The tokens of generated points, from what a generator made."""
        return Tokens(features, jnp.ones(features.shape[:-1], features.dtype))

    @property
    def direct_dim(self) -> int:
        """Number of leading input dimensions that a decoder reads beside the representation. By default, all."""
        return self.x_dim

    def encode_inputs(self, x: Float[Array, "*#batch point x_dim"]) -> InputFeatures:
        """Compute what depends on inputs alone. By default, return the inputs themselves."""
        return x

    @abc.abstractmethod
    def prepare(self, points: PointSet, input_features: InputFeatures) -> PreparedPoints:
        """Compute what depends on each point by itself, given its input features. Appending a point appends a row."""

    @abc.abstractmethod
    def relate(self, prepared: PreparedPoints, counts: Float[Array, "*#batch point"]) -> Tokens:
        """The tokens $R_c$ of prepared points. Each counts as `counts` points; those with count 0 are absent."""

    def start_growing(self, prepared: PreparedPoints, counts: Float[Array, " point"]) -> GrowingPoints:
        """Prepared points, to which `grow` will append others in slots with count 0. By default, nothing is kept but them."""
        return prepared

    def grow(
        self, growing: GrowingPoints, row: PreparedPoints, slot: Int[Array, ""] | int, counts: Float[Array, " point"]
    ) -> GrowingPoints:
        """Append the prepared row of a point; `counts` are those with it."""
        return set_row(growing, row, slot)

    def relate_grown(self, growing: GrowingPoints, counts: Float[Array, " point"]) -> Tokens:
        """The tokens of all points so far. By default, all are related anew."""
        return self.relate(growing, counts)

    @abc.abstractmethod
    def query_encoded(self, input_features: InputFeatures) -> Query:
        """Compute what depends on the targets alone; all token sets share it."""

    @abc.abstractmethod
    def attend(self, query: Query, tokens: Tokens) -> Partial:
        """Summarise a token set for `combine`."""

    @abc.abstractmethod
    def combine(self, query: Query, *partials: Partial) -> Float[Array, "*#batch #target width"]:
        """The representation at each target given the union of the token sets; one row if it is the same at all targets."""

    def embed_encoded(self, points: PointSet, input_features: InputFeatures) -> Tokens:
        """The tokens of points whose inputs are already encoded."""
        return self.relate(self.prepare(points, input_features), points.counts)

    def embed(self, points: PointSet) -> Tokens:
        """The tokens $R_c$ of a set of points."""
        return self.embed_encoded(points, self.encode_inputs(points.x))

    def query(self, x_target: Float[Array, "*#batch target x_dim"]) -> Query:
        """The query at inputs that are not yet encoded."""
        return self.query_encoded(self.encode_inputs(x_target))

    def embed_and_query(self, task: Task) -> tuple[Tokens, Query]:
        """The tokens of a task's context, and the query at all of its points."""
        input_features = self.encode_inputs(task.x)
        return self.embed_encoded(task.context, input_features[: task.context_slots]), self.query_encoded(input_features)

    def read(self, x_target: Float[Array, "*#batch target x_dim"], *tokens: Tokens) -> Float[Array, "*#batch #target width"]:
        """The representation at each target given the union of the token sets."""
        return self.read_query(self.query(x_target), *tokens)

    def read_query(self, query: Query, *tokens: Tokens) -> Float[Array, "*#batch #target width"]:
        """The same, given the query at the targets."""
        return self.combine(query, *(self.attend(query, part) for part in tokens))
