"""What every backbone offers: embed points as tokens, read tokens at targets."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from mpnp.tasks.task import PointSet

__all__ = ["AbstractBackbone", "Tokens"]


class Tokens(eqx.Module):
    """One feature vector a point. A token of weight w counts as w tokens: 0 for a masked slot, 1 for a plain point."""

    features: Float[Array, "*#batch point token_dim"]
    weights: Float[Array, "*#batch point"]


class AbstractBackbone(eqx.Module):
    """Turns a context set into a representation at each target.

    A mechanism may reweight the tokens of the context, or add tokens it made up: `read` takes any number of token sets and
    reads their union, in which every token counts by its weight alone.
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
    def read(self, x_target: Float[Array, "*#batch target x_dim"], *tokens: Tokens) -> Float[Array, "*#batch #target width"]:
        """The representation at each target, or one row if it is the same for all targets."""
