"""What every backbone offers: embed points as tokens, read tokens at targets."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, Shaped

from mpnp.tasks.task import PointSet, Task

__all__ = ["AbstractBackbone", "Places", "Question", "Tokens", "View"]


class Tokens(eqx.Module):
    """One feature vector a point. A token of weight w counts as w tokens: 0 for a masked slot, 1 for a plain point."""

    features: Float[Array, "*#batch point token_dim"]
    weights: Float[Array, "*#batch point"]


Places = Shaped[Array, "*#batch point place_dim"]
"""Features of inputs alone, one row a point."""

Question = Any
View = Any
"""Features of targets, and sums over some tokens: pytrees whose structure is the backbone's own business."""


class AbstractBackbone(eqx.Module):
    """Turns a context set into a representation at each target.

    A mechanism may reweight the tokens of the context, or add tokens it made up: `read` takes any number of token sets and
    reads their union, in which every token counts by its weight alone. It does so in steps, so that an input that is both in
    the context and a target is located once, and a set that is part of several unions is looked at once.
    """

    width: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def token_dim(self) -> int:
        """Numbers in a token."""

    def locate(self, x: Float[Array, "*#batch point x_dim"]) -> Places:
        """What tokens and questions need to know of inputs alone; the inputs themselves if nothing is said."""
        return x

    @abc.abstractmethod
    def embed_at(self, points: PointSet, places: Places) -> Tokens:
        """The tokens $R_c$ of a set of points, whose inputs have been located."""

    @abc.abstractmethod
    def ask_at(self, places: Places) -> Question:
        """What is computed of the targets alone, once for all that is looked at from them."""

    @abc.abstractmethod
    def look(self, question: Question, tokens: Tokens) -> View:
        """What the union of these tokens with others needs to know about them."""

    @abc.abstractmethod
    def conclude(self, question: Question, *views: View) -> Float[Array, "*#batch #target width"]:
        """The representation at each target given all that was looked at, or one row if it is the same for all targets."""

    def embed(self, points: PointSet) -> Tokens:
        """The tokens $R_c$ of a set of points."""
        return self.embed_at(points, self.locate(points.x))

    def ask(self, x_target: Float[Array, "*#batch target x_dim"]) -> Question:
        """The question at inputs that have not been located yet."""
        return self.ask_at(self.locate(x_target))

    def meet(self, task: Task) -> tuple[Tokens, Question]:
        """The tokens of a task's context, and the question at all of its points."""
        places = self.locate(task.x)
        return self.embed_at(task.context, places[: task.context_slots]), self.ask_at(places)

    def read(self, x_target: Float[Array, "*#batch target x_dim"], *tokens: Tokens) -> Float[Array, "*#batch #target width"]:
        """The representation at each target given the union of the tokens."""
        return self.answer(self.ask(x_target), *tokens)

    def answer(self, question: Question, *tokens: Tokens) -> Float[Array, "*#batch #target width"]:
        """The same from a question that has been asked."""
        return self.conclude(question, *(self.look(question, part) for part in tokens))
