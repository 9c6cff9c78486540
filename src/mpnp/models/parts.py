"""The parts that models are assembled from: networks with the dimensions and settings of one model."""

import dataclasses
import pkgutil
from collections.abc import Iterator

import jax
from jaxtyping import PRNGKeyArray

from mpnp.models.config import ModelSettings
from mpnp.models.registry import LIKELIHOODS
from mpnp.nn.attention import ISAB, MultiHeadAttention
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.linear import MLP, Linear, linear
from mpnp.nn.rotary import RotaryAttention

__all__ = ["Parts"]


@dataclasses.dataclass(frozen=True)
class Parts:
    """A factory of networks: knows dimensions and settings, and initialises each network with its own key."""

    x_dim: int
    y_dim: int
    settings: ModelSettings
    keys: Iterator[PRNGKeyArray]

    @staticmethod
    def from_key(x_dim: int, y_dim: int, settings: ModelSettings, *, key: PRNGKeyArray) -> "Parts":
        """A factory whose keys are split from one key."""
        return Parts(x_dim, y_dim, settings, _endless(key))

    def input_encoder(self, out_dim: int, depth: int) -> MLP:
        """An MLP that reads the input of a point."""
        return self._encoder((0, self.x_dim), self.settings.hidden_width, out_dim, depth)

    def output_encoder(self, out_dim: int, depth: int) -> MLP:
        """An MLP that reads the output of a point, with hidden layers as wide as its result."""
        return self._encoder((self.x_dim, self.x_dim + self.y_dim), out_dim, out_dim, depth)

    def point_encoder(self, out_dim: int, depth: int) -> MLP:
        """An MLP that reads the input and the output of a point."""
        return self._encoder((0, self.x_dim + self.y_dim), self.settings.hidden_width, out_dim, depth)

    def _encoder(self, columns: tuple[int, int], hidden_width: int, out_dim: int, depth: int) -> MLP:
        # The size-matched baselines enlarge only the hidden width.
        start, stop = columns
        return MLP(stop - start, hidden_width, out_dim, depth=depth, key=next(self.keys), columns=columns)

    def network(self, width: int, hidden_width: int) -> MLP:
        """An MLP with one hidden layer that reads hidden features."""
        return MLP(width, hidden_width, width, depth=1, key=next(self.keys))

    def feature_reader(self, in_dim: int, out_dim: int) -> MLP:
        """An MLP with one hidden layer, twice as wide as its result, that reads features computed without weights."""
        return MLP(in_dim, 2 * out_dim, out_dim, depth=1, key=next(self.keys))

    def linear(self, in_dim: int, out_dim: int) -> Linear:
        """A linear layer."""
        return linear(in_dim, out_dim, key=next(self.keys))

    def attention(self, width: int) -> MultiHeadAttention:
        """Attention whose queries, keys and values all have this width."""
        return MultiHeadAttention(width, width, width, width, num_heads=self.settings.num_heads, key=next(self.keys))

    def rotary_attention(self, width: int) -> RotaryAttention:
        """Attention that sees inputs only through their differences."""
        return RotaryAttention(width, num_heads=self.settings.num_heads, key=next(self.keys))

    def isab(self, width: int, inducing_dim: int) -> ISAB:
        """An ISAB whose noise and output have this width."""
        return ISAB(width, inducing_dim, width, num_heads=self.settings.num_heads, key=next(self.keys))

    def decoder(self, direct_dim: int, features: int) -> Decoder:
        """A decoder that reads `direct_dim` dimensions of the input and `features` numbers, with the settings' likelihood."""
        settings, in_dim, out_dim, columns = self.settings, direct_dim + features, 2 * self.y_dim, (0, direct_dim)
        mlp = MLP(in_dim, settings.width, out_dim, depth=settings.decoder_depth, key=next(self.keys), columns=columns)
        distribution = pkgutil.resolve_name(LIKELIHOODS[settings.likelihood])()
        return Decoder(mlp, self.x_dim, self.y_dim, direct_dim, settings.sigma_min, distribution)


def _endless(key: PRNGKeyArray) -> Iterator[PRNGKeyArray]:
    """Keys for the parts of a model. The first sixteen come from one split, as always, so seeds keep their weights."""
    while True:
        yield from jax.random.split(key, 16)
        key = jax.random.fold_in(key, 16)
