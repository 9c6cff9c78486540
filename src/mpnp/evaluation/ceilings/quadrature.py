"""Adaptive quadrature over the prior of the kernel parameters.

The likelihood is broad after 3 observations and narrower than a hundredth of the prior after 40, so no fixed grid suits all
contexts. The midpoint rule is applied to a grid whose heaviest cells are halved along every side, several times.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from mpnp.evaluation.ceilings.parameters import AbstractIntegrator, LogLikelihood, ParameterPosterior, evaluate
from mpnp.tasks.gaussian_process import AbstractUniformKernelPrior, PeriodicPrior

__all__ = ["AdaptiveQuadrature", "quadrature_for"]

Edges = tuple[Float[np.ndarray, " _"] | Float[Array, " _"], ...]
"""Cell edges of the initial grid, one array per parameter."""


class AdaptiveQuadrature(AbstractIntegrator):
    """Midpoint rule on a grid whose heaviest cells are split in every round."""

    edges: Edges
    num_rounds: int = 4
    num_split: int = 48
    """Cells split per round."""

    def __call__(self, prior: AbstractUniformKernelPrior, log_likelihood: LogLikelihood) -> ParameterPosterior:
        centres, widths = _cells(self.edges)
        prior_widths = jnp.array([high - low for low, high in prior.ranges], widths.dtype)

        def log_mass(centres: Float[Array, "cell parameter"], widths: Float[Array, "cell parameter"]) -> Float[Array, " cell"]:
            return evaluate(log_likelihood, centres) + jnp.log(widths / prior_widths).sum(axis=-1)

        num_first, num_children = len(centres), self.num_split * 2 ** len(self.edges)

        def split(number: Int[Array, ""], cells: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            centres, widths, masses = cells
            _, heaviest = jax.lax.top_k(masses, self.num_split)
            children = _halve(centres[heaviest], widths[heaviest])
            new = (*children, log_mass(*children))
            place = num_first + number * num_children + jnp.arange(num_children)
            # A split cell no longer counts.
            old = centres, widths, masses.at[heaviest].set(-jnp.inf)
            centres, widths, masses = (whole.at[place].set(part) for whole, part in zip(old, new, strict=True))
            return centres, widths, masses

        # Allocate all cells up front, with zero mass, so that one compiled loop serves every round.
        room = ((0, self.num_rounds * num_children), (0, 0))
        masses = jnp.pad(log_mass(centres, widths), room[0], constant_values=-jnp.inf)
        cells = jnp.pad(centres, room), jnp.pad(widths, room), masses
        centres, _, masses = jax.lax.fori_loop(0, self.num_rounds, split, cells)
        return ParameterPosterior(centres, masses)


def quadrature_for(prior: AbstractUniformKernelPrior) -> AdaptiveQuadrature:
    """Quadrature with an initial grid fine enough to find the likelihood's peaks."""
    if not isinstance(prior, PeriodicPrior):
        return AdaptiveQuadrature(tuple(np.linspace(low, high, 17) for low, high in prior.ranges))
    # Errors of the period add up from wave to wave, so peaks are very narrow, and about equally so in frequency.
    coarse = tuple(np.linspace(low, high, 6) for low, high in (prior.length, prior.scale))
    low, high = prior.period
    return AdaptiveQuadrature((*coarse, 1 / np.linspace(1 / low, 1 / high, 601)), num_split=512)


def _cells(edges: Edges) -> tuple[Float[Array, "cell parameter"], Float[Array, "cell parameter"]]:
    """Centres and widths of all grid cells."""
    middles, lengths = [(side[1:] + side[:-1]) / 2 for side in edges], [jnp.diff(side) for side in edges]
    centres, widths = (jnp.stack(jnp.meshgrid(*sides, indexing="ij"), axis=-1) for sides in (middles, lengths))
    return centres.reshape(-1, len(edges)), widths.reshape(-1, len(edges))


def _halve(
    centres: Float[Array, "cell parameter"], widths: Float[Array, "cell parameter"]
) -> tuple[Float[Array, "child parameter"], Float[Array, "child parameter"]]:
    """Halve each cell along every side."""
    num_parameters = centres.shape[1]
    corners = jnp.array(list(itertools.product((-0.25, 0.25), repeat=num_parameters)), centres.dtype)
    moved = centres[:, None] + corners * widths[:, None]
    return moved.reshape(-1, num_parameters), jnp.repeat(widths / 2, len(corners), axis=0)
