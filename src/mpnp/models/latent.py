"""Functional uncertainty from a Gaussian latent variable: NP and ANP."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.models.contract import AbstractNeuralProcess, LossTerms
from mpnp.networks.backbones.contract import AbstractBackbone
from mpnp.networks.decoder import GaussianDecoder
from mpnp.networks.encoders import AbstractSetEncoder, Alone
from mpnp.networks.predictive import Predictive, log_mean_exp
from mpnp.tasks.task import PointSet, Task, masked_mean

__all__ = ["BOUNDS", "DiagonalNormal", "LatentNP", "evidence_lower_bound", "importance_weighted_bound"]


class DiagonalNormal(eqx.Module):
    """$q(\\theta | Z') = N(m, s^2 I)$."""

    mean: Float[Array, " latent"]
    std: Float[Array, " latent"]

    def log_prob(self, value: Float[Array, "sample latent"]) -> Float[Array, " sample"]:
        """Log density of each value."""
        return norm.logpdf(value, self.mean, self.std).sum(axis=-1)

    def kl_divergence(self, other: "DiagonalNormal") -> Float[Array, ""]:
        """$KL[\\mathrm{self} \\| \\mathrm{other}]$."""
        ratio = self.std / other.std
        shift = (self.mean - other.mean) / other.std
        return jnp.sum((ratio**2 + shift**2 - 1) / 2 - jnp.log(ratio))


Bound = Callable[[Float[Array, " sample"], Float[Array, "sample latent"], DiagonalNormal, DiagonalNormal], Float[Array, ""]]
"""From each sample's log-likelihood, the samples, the posterior they came from and the prior, to a bound on the evidence."""


def importance_weighted_bound(
    log_likelihood: Float[Array, " sample"],
    latent: Float[Array, "sample latent"],
    posterior: DiagonalNormal,
    prior: DiagonalNormal,
) -> Float[Array, ""]:
    """$\\log \\frac{1}{K}\\sum_k p(Y|z_k)\\,q(z_k|Z_c)/q(z_k|Z)$: what both public codes of the authors train."""
    return log_mean_exp(log_likelihood + prior.log_prob(latent) - posterior.log_prob(latent))


def evidence_lower_bound(
    log_likelihood: Float[Array, " sample"],
    latent: Float[Array, "sample latent"],
    posterior: DiagonalNormal,
    prior: DiagonalNormal,
) -> Float[Array, ""]:
    """$E_{q(z|Z)}[\\log p(Y|z)] - KL[q(z|Z) \\| q(z|Z_c)]$: what the paper writes."""
    return log_likelihood.mean() - posterior.kl_divergence(prior)


BOUNDS: dict[str, Bound] = {"iwae": importance_weighted_bound, "elbo": evidence_lower_bound}


class LatentNP(AbstractNeuralProcess):
    """Deterministic representation and latent variable side by side (Garnelo et al., 2018; Kim et al., 2019)."""

    backbone: AbstractBackbone
    decoder: GaussianDecoder
    latent_encoder: AbstractSetEncoder
    bound: Bound = eqx.field(static=True)
    latent_dim: int = eqx.field(static=True)

    @property
    def decoder_features(self) -> int:
        """Representation and latent variable."""
        return self.backbone.width + self.latent_dim

    def infer(self, points: PointSet) -> DiagonalNormal:
        """$q(\\theta | Z')$ of any set of points."""
        return self._infer(self.latent_encoder.prepare(points), points)

    def _infer(self, alone: Alone, points: PointSet) -> DiagonalNormal:
        """The same from what is known of each point by itself."""
        pooled = masked_mean(self.latent_encoder.relate(alone, points.counts).T, points.mask)
        mean, raw_std = jnp.split(pooled, 2)
        # 0.1 and 0.9 stand in the paper's appendix A.2 and A.3, whatever the floor of the outputs.
        return DiagonalNormal(mean, 0.1 + 0.9 * jax.nn.softplus(raw_std))

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Float[Array, "sample latent"]:
        return jax.random.normal(key, (num_samples, self.latent_dim), self.dtype)

    def loss_terms(self, task: Task, noise: Float[Array, "sample latent"]) -> LossTerms:
        # The prior and the deterministic path see the context alone, the posterior all points.
        alone = self.latent_encoder.prepare(task.points)
        alone_in_context = jax.tree.map(lambda rows: rows[: task.context_slots], alone)
        prior, posterior = self._infer(alone_in_context, task.context), self._infer(alone, task.points)
        latent = posterior.mean + posterior.std * noise
        context, question = self.backbone.meet(task)
        predictive = self.decoder(task.x, self.backbone.answer(question, context), latent[:, None])
        log_likelihood = jnp.sum(predictive.component_log_prob(task.y), axis=-1, where=task.asked)
        return {"negative_bound": -self.bound(log_likelihood, latent, posterior, prior) / task.num_asked}

    def predict_given(
        self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Float[Array, "sample latent"]
    ) -> Predictive:
        posterior = self.infer(context)
        representation = self.backbone.read(x_target, self.backbone.embed(context))
        latent = posterior.mean + posterior.std * noise
        return self.decoder(x_target, representation, latent[:, None])
