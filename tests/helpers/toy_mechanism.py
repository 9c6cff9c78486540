"""A mechanism in one file: the representation is perturbed by Gaussian noise, whose size is read off the representation."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.models.backbones.base import AbstractBackbone
from mpnp.models.base import AbstractNeuralProcess, LossTerms
from mpnp.models.parts import Parts
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.likelihoods.predictive import Predictive, log_mean_exp
from mpnp.nn.linear import Linear
from mpnp.tasks.task import PointSet, Task


class PerturbedNP(AbstractNeuralProcess):
    """$\\theta^{(k)} = r_c + \\mathrm{softplus}(W r_c)\\,\\epsilon_k$, the same noise at every target."""

    backbone: AbstractBackbone
    decoder: Decoder
    spread: Linear
    noise_dim: int = eqx.field(static=True)

    @classmethod
    def assemble(cls, backbone_type: type[AbstractBackbone], parts: Parts) -> "PerturbedNP":
        backbone = backbone_type.assemble(parts)
        return cls(
            backbone,
            parts.decoder(backbone.direct_dim, backbone.width),
            parts.linear(backbone.width, backbone.width),
            backbone.width,
        )

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Float[Array, "sample width"]:
        return jax.random.normal(key, (num_samples, self.noise_dim), self.dtype)

    def loss_terms(self, task: Task, noise: Float[Array, "sample width"]) -> LossTerms:
        context, query = self.backbone.embed_and_query(task)
        predictive = self._perturb(task.x, self.backbone.read_query(query, context), noise)
        return {
            "negative_log_likelihood": -log_mean_exp(task.loss_sum(predictive.component_log_prob(task.y))) / task.loss_count
        }

    def predict_given(
        self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Float[Array, "sample width"]
    ) -> Predictive:
        return self._perturb(x_target, self.backbone.read(x_target, self.backbone.embed(context)), noise)

    def _perturb(
        self, x_target: Float[Array, "target x_dim"], mean: Float[Array, "#target width"], noise: Float[Array, "sample width"]
    ) -> Predictive:
        return self.decode_representation(x_target, mean + jax.nn.softplus(self.spread(mean)) * noise[:, None])
