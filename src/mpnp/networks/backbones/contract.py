"""What every backbone offers: embed points as tokens, read tokens at targets."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from mpnp.tasks.task import PointSet

__all__ = ["AbstractBackbone", "Question", "Tokens", "View"]


class Tokens(eqx.Module):
    """One feature vector a point. A token of weight w counts as w tokens: 0 for a masked slot, 1 for a plain point."""

    features: Float[Array, "*#batch point token_dim"]
    weights: Float[Array, "*#batch point"]


Question = Any
View = Any
"""Features of targets, and sums over some tokens: pytrees whose structure is the backbone's own business."""


class AbstractBackbone(eqx.Module):
    """Turns a context set into a representation at each target.

    A mechanism may reweight the tokens of the context, or add tokens it made up: `read` takes any number of token sets and
    reads their union, in which every token counts by its weight alone. It does so in two steps, so that a set that is part
    of several unions is looked at once.
    """

    width: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def token_dim(self) -> int:
        """Numbers in a token."""

    @abc.abstractmethod
    def embed(self, points: PointSet) -> Tokens:
        """The tokens $R_c$ of a set of points."""

    @abc.abstractmethod
    def ask(self, x_target: Float[Array, "*#batch target x_dim"]) -> Question:
        """What is computed of the targets alone, once for all that is looked at from them."""

    @abc.abstractmethod
    def look(self, question: Question, tokens: Tokens) -> View:
        """What the union of these tokens with others needs to know about them."""

    @abc.abstractmethod
    def conclude(self, question: Question, *views: View) -> Float[Array, "*#batch #target width"]:
        """The representation at each target given all that was looked at, or one row if it is the same for all targets."""

    def read(self, x_target: Float[Array, "*#batch target x_dim"], *tokens: Tokens) -> Float[Array, "*#batch #target width"]:
        """The representation at each target given the union of the tokens."""
        question = self.ask(x_target)
        return self.conclude(question, *(self.look(question, part) for part in tokens))
