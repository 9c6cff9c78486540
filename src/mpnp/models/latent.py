"""Functional uncertainty from a Gaussian latent variable: NP, ANP and LTNP."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.models.backbones.base import AbstractBackbone
from mpnp.models.base import AbstractNeuralProcess, LossTerms
from mpnp.models.parts import Parts
from mpnp.nn.encoders import AbstractSetEncoder, PreparedPoints
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.likelihoods.predictive import Predictive, log_mean_exp
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
"""Maps the log-likelihood of each sample, the samples, their posterior and the prior to a bound on the log evidence."""


def importance_weighted_bound(
    log_likelihood: Float[Array, " sample"],
    latent: Float[Array, "sample latent"],
    posterior: DiagonalNormal,
    prior: DiagonalNormal,
) -> Float[Array, ""]:
    """$\\log \\frac{1}{K}\\sum_k p(Y|z_k)\\,q(z_k|Z_c)/q(z_k|Z)$: the loss in both of the authors' code bases."""
    return log_mean_exp(log_likelihood + prior.log_prob(latent) - posterior.log_prob(latent))


def evidence_lower_bound(
    log_likelihood: Float[Array, " sample"],
    latent: Float[Array, "sample latent"],
    posterior: DiagonalNormal,
    prior: DiagonalNormal,
) -> Float[Array, ""]:
    """$E_{q(z|Z)}[\\log p(Y|z)] - KL[q(z|Z) \\| q(z|Z_c)]$: the loss in the paper."""
    return log_likelihood.mean() - posterior.kl_divergence(prior)


BOUNDS: dict[str, Bound] = {"iwae": importance_weighted_bound, "elbo": evidence_lower_bound}
"""Bounds by the names in `ModelSettings.bound`."""


class LatentNP(AbstractNeuralProcess):
    """A deterministic representation beside a latent variable (Garnelo et al., 2018; Kim et al., 2019)."""

    backbone: AbstractBackbone
    decoder: Decoder
    latent_encoder: AbstractSetEncoder
    bound: Bound = eqx.field(static=True)
    latent_dim: int = eqx.field(static=True)

    @classmethod
    def assemble(cls, backbone_type: type[AbstractBackbone], parts: Parts) -> "LatentNP":
        settings = parts.settings
        backbone, latent_dim = backbone_type.assemble(parts), settings.width
        return cls(
            backbone,
            parts.decoder(backbone.direct_dim, backbone.width + latent_dim),
            backbone_type.set_encoder(parts, 2 * latent_dim, settings.latent_depth),
            BOUNDS[settings.bound],
            latent_dim,
        )

    def infer(self, points: PointSet) -> DiagonalNormal:
        """$q(\\theta | Z')$ for any set of points."""
        return self._infer(self.latent_encoder.prepare(points), points)

    def _infer(self, prepared: PreparedPoints, points: PointSet) -> DiagonalNormal:
        """The same for prepared points."""
        pooled = masked_mean(self.latent_encoder.relate(prepared, points.counts).T, points.mask)
        mean, raw_std = jnp.split(pooled, 2)
        # 0.1 and 0.9 are from the paper's appendices A.2 and A.3; `sigma_min` is for outputs only.
        return DiagonalNormal(mean, 0.1 + 0.9 * jax.nn.softplus(raw_std))

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> Float[Array, "sample latent"]:
        return jax.random.normal(key, (num_samples, self.latent_dim), self.dtype)

    def loss_terms(self, task: Task, noise: Float[Array, "sample latent"]) -> LossTerms:
        # The prior and the deterministic path see only the context, the posterior all points.
        prepared = self.latent_encoder.prepare(task.points)
        prepared_context = jax.tree.map(lambda rows: rows[: task.context_slots], prepared)
        prior, posterior = self._infer(prepared_context, task.context), self._infer(prepared, task.points)
        latent = posterior.mean + posterior.std * noise
        context, query = self.backbone.embed_and_query(task)
        predictive = self.decoder(task.x, self.backbone.read_query(query, context), latent[:, None])
        log_likelihood = task.loss_sum(predictive.with_noise(task.known_noise).component_log_prob(task.y))
        return {"negative_bound": -self.bound(log_likelihood, latent, posterior, prior) / task.loss_count}

    def predict_given(
        self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: Float[Array, "sample latent"]
    ) -> Predictive:
        posterior = self.infer(context)
        representation = self.backbone.read(x_target, self.backbone.embed(context))
        latent = posterior.mean + posterior.std * noise
        return self.decoder(x_target, representation, latent[:, None])
