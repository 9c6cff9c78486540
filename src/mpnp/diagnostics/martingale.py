"""The martingale property: on average, imagined observations must not change the prediction, whatever their order."""

import dataclasses
import warnings
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from mpnp.diagnostics.cases import Cases
from mpnp.diagnostics.draws import NUM_DRAWS, STEPS, Resampled, padded_points
from mpnp.diagnostics.estimate import Estimate, cluster_mean
from mpnp.diagnostics.figures import steps_figure
from mpnp.diagnostics.sections import Section, Table, Verdict
from mpnp.inference.designs import Forecast
from mpnp.inference.leaderboard import NETWORK
from mpnp.inference.model import NUM_SAMPLES, FittedModel
from mpnp.models.base import AbstractNeuralProcess
from mpnp.models.martingale import AbstractMartingaleNP, NumPseudoWarning
from mpnp.tables.points import context_points
from mpnp.tasks.task import PointSet

__all__ = ["consistency_section", "drift_section", "spread_section"]

SMALL_DRIFT, SMALL_CHANGE = 0.1, 0.1
"""A drift of the mean, in standard deviations, and a change of the variance that hardly matter in practice."""

SMALL_GAP = 0.05
"""A gap of two log densities that hardly matters in practice."""

NUM_PAIRS = 8
"""Pairs of targets per case whose order is swapped."""

NUM_PSEUDO = (3, 10, 30, 100)


@dataclasses.dataclass(frozen=True)
class _Step:
    """Changes of the prediction after some resampled points."""

    num_points: int
    squared_drift: Estimate
    variance_ratio: Estimate

    @property
    def drift(self) -> Estimate:
        """Root mean square drift; what chance explains is already subtracted."""
        mean, error = self.squared_drift
        root = np.sqrt(max(mean, 0.0))
        return Estimate(float(root), float(error / (2 * root)) if root > np.sqrt(error) else float(np.sqrt(max(error, 0.0))))


def drift_section(cases: Cases, resampled: Sequence[Resampled]) -> Section:
    """Drift of the mean and ratio of the total variance after resampling some points."""
    found = [step for step in (_measure(cases, resampled, place) for place in range(1, len(STEPS))) if step is not None]
    rows = [[str(step.num_points), step.drift.number(), step.variance_ratio.number()] for step in found]
    numbers = [step.num_points for step in found]
    return Section(
        "martingale",
        "Martingale property",
        "Points drawn from the model's own prediction should teach nothing on average: after adding them the mean of the "
        "prediction stays the same, and so does its total variance, of functions and noise together. Drift 0 and ratio 1 are "
        "ideal; drift is in predicted standard deviations, as far as it exceeds chance.",
        [_judge_drift(found[-1])],
        [Table(["resampled points", "drift of the mean", "ratio of the variance"], rows)],
        {
            str(step.num_points): {"drift": step.drift.to_json(), "variance_ratio": step.variance_ratio.to_json()}
            for step in found
        },
        [
            steps_figure(
                {
                    "drift of the mean": (numbers, {"model": [step.drift for step in found]}, 0.0),
                    "ratio of the variance": (numbers, {"model": [step.variance_ratio for step in found]}, 1.0),
                },
                xlabel="resampled points",
            )
        ],
    )


def _measure(cases: Cases, resampled: Sequence[Resampled], place: int) -> _Step | None:
    """The changes at one of `STEPS`, over cases that are resampled as far as that; None if there are none."""
    drifts, ratios, clusters = [], [], []
    for case, part in zip(cases, resampled, strict=True):
        if part.num_points < STEPS[place]:
            continue
        moments = part.moments
        between = moments.between_std**2 * NUM_DRAWS / (NUM_DRAWS - 1)
        total = between + moments.within_std**2
        # The means of finitely many draws differ by chance; the expected square of that is subtracted.
        chance = (between[place] + between[0]) / NUM_DRAWS
        drifts.append(np.ravel(((moments.mean[place] - moments.mean[0]) ** 2 - chance) / total[0]))
        ratios.append(np.ravel(total[place] / total[0]))
        clusters.append(np.full(len(drifts[-1]), case.cluster))
    if not drifts:
        return None
    values = (np.concatenate(parts).astype(np.float64) for parts in (drifts, ratios))
    return _Step(STEPS[place], *(cluster_mean(part, np.concatenate(clusters)) for part in values))


def _judge_drift(step: _Step) -> Verdict:
    """A verdict on the largest number of points."""
    drift, ratio = step.drift, step.variance_ratio
    moves = step.squared_drift.mean > 2 * step.squared_drift.standard_error and drift.mean > SMALL_DRIFT
    changes = abs(ratio.mean - 1) > max(2 * ratio.standard_error, SMALL_CHANGE)
    grows = "grows" if ratio.mean > 1 else "shrinks"
    words = {
        (False, False): "nearly a martingale",
        (True, False): "the mean drifts",
        (False, True): f"the variance {grows}",
        (True, True): f"the mean drifts and the variance {grows}",
    }[moves, changes]
    text = f"After {step.num_points} points the mean has drifted by {drift.number(2)} standard deviations and the variance is "
    return Verdict(f"{text}{ratio.number(2)} times that before: {words}.", not (moves or changes))


def spread_section(model: FittedModel, cases: Cases) -> Section | None:
    """Spread of generated functions against the number of pseudo points; None for models that generate none."""
    network = model.network
    if not isinstance(network, AbstractMartingaleNP):
        return None
    numbers = sorted({*NUM_PSEUDO, network.num_pseudo})
    found = {number: _spread(model, network, cases, number) for number in numbers}
    slope = float(np.polyfit(np.log(numbers), np.log([max(part.mean, 1e-12) for part in found.values()]), 1)[0])
    return Section(
        "spread",
        "Spread against the number of pseudo points",
        "Standard deviation of generated functions as a share of the predicted one. A martingale posterior keeps its spread as "
        f"pseudo points are added; the model was trained with {network.num_pseudo}.",
        [_judge_slope(slope)],
        [Table(["pseudo points", "spread"], [[str(number), part.number()] for number, part in found.items()])],
        {"slope": slope, **{str(number): part.to_json() for number, part in found.items()}},
        [steps_figure({"spread of functions": (numbers, {"model": list(found.values())}, None)}, xlabel="pseudo points")],
    )


def _spread(model: FittedModel, network: AbstractMartingaleNP, cases: Cases, num_pseudo: int) -> Estimate:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumPseudoWarning)  # the number is varied on purpose
        other = FittedModel(network.with_num_pseudo(num_pseudo), model.card, choice=NETWORK)
    pairs = [(case.x_context, case.y_context) for case in cases]
    predictions = other.predict_pairs(pairs, [case.x_target for case in cases], NUM_SAMPLES)
    shares = [np.mean(prediction.between_std / prediction.std) for prediction in predictions]
    return cluster_mean(np.asarray(shares), cases.clusters)


def _judge_slope(slope: float) -> Verdict:
    if slope < -0.15:
        return Verdict(f"The spread falls as num_pseudo^{slope:.2f}: it vanishes as pseudo points are added.", False)
    return Verdict(f"The spread changes as num_pseudo^{slope:.2f}: it does not vanish.", True)


def consistency_section(model: FittedModel, cases: Cases, *, seed: int) -> Section | None:
    """The gap between the joint log densities of two targets in either order; None for models that only look ahead."""
    if isinstance(model.network_forecaster.completer.design, Forecast):
        return None
    columns = model.card.columns
    contexts = padded_points([context_points(columns, case.x_context, case.y_context) for case in cases])
    parameters, static = eqx.partition(model.network, eqx.is_array)

    @jax.jit
    def gaps(parameters: PyTree, *arguments: PyTree) -> Float[Array, " pair"]:
        return _gaps(eqx.combine(parameters, static), *arguments)

    values, clusters = [], []
    for number, (case, context) in enumerate(zip(cases, contexts, strict=True)):
        targets = context_points(columns, case.x_target, case.y_target)
        if len(targets.mask) < 2:
            continue
        rng = np.random.default_rng([seed, number])
        pairs = np.stack([rng.choice(len(targets.mask), 2, replace=False) for _ in range(NUM_PAIRS)])
        key = jax.random.fold_in(jax.random.key(seed), number)
        values.append(np.asarray(gaps(parameters, context, targets.x[pairs], targets.y[pairs], key), np.float64))
        clusters.append(np.full(NUM_PAIRS, case.cluster))
    gap = cluster_mean(np.concatenate([[], *values]), np.concatenate([np.zeros(0, int), *clusters]))
    return Section(
        "consistency",
        "Consistency of conditioning",
        "A consistent model gives two observations the same joint density in either order. The gap is the mean of "
        "|log p(y₁) + log p(y₂|y₁) − log p(y₂) − log p(y₁|y₂)| over pairs of targets; 0 is ideal.",
        [_judge_gap(gap)],
        [],
        {"gap": gap.to_json()},
    )


def _gaps(
    network: AbstractNeuralProcess,
    context: PointSet,
    x: Float[Array, "pair 2 x_dim"],
    y: Float[Array, "pair 2 y_dim"],
    key: PRNGKeyArray,
) -> Float[Array, " pair"]:
    def log_prob(known: PointSet, x: Float[Array, "1 x_dim"], y: Float[Array, "1 y_dim"]) -> Float[Array, ""]:
        return network.predict_given(known, x, network.draw_noise(known, NUM_SAMPLES, key=key)).log_prob(y)[0]

    def in_order(x: Float[Array, "2 x_dim"], y: Float[Array, "2 y_dim"]) -> Float[Array, ""]:
        # Both contexts have the same slots, so that both steps share their random draws.
        before, after = (context.union(PointSet(x[:1], y[:1], jnp.asarray([known]))) for known in (False, True))
        return log_prob(before, x[:1], y[:1]) + log_prob(after, x[1:], y[1:])

    return jax.vmap(lambda x, y: jnp.abs(in_order(x, y) - in_order(x[::-1], y[::-1])))(x, y)


def _judge_gap(gap: Estimate) -> Verdict:
    if not gap.mean > SMALL_GAP:
        return Verdict(f"The gap is {gap.number()}: the order hardly matters.", True)
    return Verdict(f"The gap is {gap.number()}: the order of observations matters.", False)
