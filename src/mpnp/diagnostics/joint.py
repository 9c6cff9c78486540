"""Joint densities of all targets: by the chain rule, as a mixture of functions, and as a product of marginals."""

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from mpnp.diagnostics.cases import Cases
from mpnp.diagnostics.draws import padded_points
from mpnp.diagnostics.estimate import Estimate, cluster_mean
from mpnp.diagnostics.sections import Section, Table, Verdict
from mpnp.inference.model import FittedModel
from mpnp.inference.prediction import Prediction
from mpnp.tables.points import context_points

__all__ = ["CHAIN", "EXACT", "EXACT_MARGINALS", "MARGINALS", "MIXTURE", "joint_densities", "joint_section"]

NUM_ORDERS = 1
"""Random orders of the chain rule per task. Averaging over tasks averages over orders too."""

CHAIN, MIXTURE, MARGINALS, EXACT, EXACT_MARGINALS = (
    "chain rule",
    "mixture of functions",
    "product of marginals",
    "exact GP",
    "exact GP, product of marginals",
)


def joint_densities(
    model: FittedModel, cases: Cases, predictions: Sequence[Prediction], *, seed: int, quiet: bool
) -> dict[str, Float[np.ndarray, " case"]]:
    """Joint log density of the targets of each case, per observed output, by each way to compute it."""
    columns, counts = model.card.columns, [int((~np.isnan(case.y_target)).sum()) for case in cases]
    contexts = padded_points([context_points(columns, case.x_context, case.y_context) for case in cases])
    targets = padded_points([context_points(columns, case.x_target, case.y_target) for case in cases])
    turns = tqdm(contexts, desc="joint densities", unit="task", disable=True if quiet else None)
    chains = [
        model.resampler.chain_log_prob(context, points, num_orders=NUM_ORDERS, seed=seed)
        for context, points in zip(turns, targets, strict=True)
    ]
    answered = list(zip(cases, predictions, strict=True))
    totals = {
        CHAIN: [chain + columns.log_jacobian(case.y_target) for case, chain in zip(cases, chains, strict=True)],
        MIXTURE: [prediction.joint_log_prob(case.y_target) for case, prediction in answered],
        MARGINALS: [float(np.nansum(prediction.marginal_log_prob(case.y_target))) for case, prediction in answered],
    }
    if cases.has_exact:
        known = [(case.exact, case.y_target) for case in cases if case.exact is not None]
        totals[EXACT] = [exact.joint_log_prob for exact, _ in known]
        totals[EXACT_MARGINALS] = [
            float(Prediction(jax.device_get(exact.target), columns).marginal_log_prob(y).sum()) for exact, y in known
        ]
    return {name: np.asarray(values) / counts for name, values in totals.items()}


def joint_section(model: FittedModel, cases: Cases, predictions: Sequence[Prediction], *, seed: int, quiet: bool) -> Section:
    """Joint log densities per observed output, by each way to compute them."""
    per_point = joint_densities(model, cases, predictions, seed=seed, quiet=quiet)
    found = {name: cluster_mean(values, cases.clusters) for name, values in per_point.items()}
    gain = cluster_mean(per_point[CHAIN] - per_point[MARGINALS], cases.clusters)
    return Section(
        "joint",
        "Joint densities",
        "The log density of all targets of a task together, per observed output: higher is better. A model that knows how "
        "targets depend on each other scores higher jointly than by the product of its marginals.",
        [_judge(gain, found)],
        [Table(["", "log density per output"], [[name, value.number()] for name, value in found.items()])],
        {name: value.to_json() for name, value in found.items()} | {"chain_minus_marginals": gain.to_json()},
    )


def _judge(gain: Estimate, found: dict[str, Estimate]) -> Verdict:
    where = "above" if gain.mean > 0 else "below"
    text = f"By the chain rule {found[CHAIN].mean:.3f}, {abs(gain.mean):.3f} {where} the product of marginals"
    if EXACT in found:
        text += f"; the exact Gaussian process, which knows the kernel, has {found[EXACT].mean:.3f}"
    return Verdict(f"{text}.", False if gain.mean < -2 * gain.standard_error else None)
