"""An Optuna sampler that suggests trials with a neural process, or any other strategy of mpnp."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution  # pyright: ignore[reportMissingImports]
from optuna.samplers import BaseSampler, RandomSampler  # pyright: ignore[reportMissingImports]
from optuna.search_space import intersection_search_space  # pyright: ignore[reportMissingImports]
from optuna.study import Study  # pyright: ignore[reportMissingImports]
from optuna.trial import FrozenTrial, TrialState  # pyright: ignore[reportMissingImports]

from mpnp.bayesopt.acquisition import EXPECTED_IMPROVEMENT
from mpnp.bayesopt.space import among, candidate_points, sobol_points
from mpnp.bayesopt.strategies import child_seed, choose
from mpnp.integrations.optuna.beliefs import find_belief
from mpnp.integrations.optuna.space import Places, Space, require_numeric
from mpnp.integrations.optuna.studies import cost, is_finished, require_one_objective
from mpnp.options import require_count, require_seed

__all__ = ["NeuralProcessSampler"]


class NeuralProcessSampler(BaseSampler):
    """Suggests numeric parameters for one objective, minimised or maximised.

    `model` is a loaded model, the directory or name of one, a surrogate, 'gp' or 'random'. A model fitted to
    `tasks_from_studies` reads values in the units of those studies and suggests from the start. Any other reads values
    standardised by those observed so far, after `n_startup_trials` points of a Sobol sequence.

    Optuna learns the parameters of a study from its first trial, which is therefore random. With `search_space`, a mapping
    from names to distributions, the model suggests the first trial too.
    """

    def __init__(
        self,
        model: Any = "mpanp-rbf",
        *,
        search_space: Mapping[str, BaseDistribution] | None = None,
        n_startup_trials: int | None = None,
        acquisition: str = EXPECTED_IMPROVEMENT,
        seed: int | None = None,
    ) -> None:
        self._belief = find_belief(model, acquisition)
        if n_startup_trials is not None:
            require_count("n_startup_trials", n_startup_trials, least=0)
        self._num_startup = self._belief.num_startup if n_startup_trials is None else n_startup_trials
        self._search_space = None if search_space is None else dict(search_space)
        if search_space is not None:
            self._belief.require(Space.of(search_space))
        if seed is not None:
            require_seed(seed)
        self._seed = _any_seed() if seed is None else seed
        self._independent = RandomSampler(seed=seed)

    def reseed_rng(self) -> None:
        self._seed = _any_seed()
        self._independent.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        require_one_objective(study)
        if self._search_space is None:
            found = intersection_search_space(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
        else:
            found = self._search_space
        return dict(Space.of(found).distributions)

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        require_one_objective(study)
        space = Space.of(search_space)
        if not space.names:
            return {}
        self._belief.require(space)
        trials = [one for one in study.get_trials(deepcopy=False) if one.number != trial.number and space.holds(one.params)]
        finished = [one for one in trials if is_finished(one)]
        seed = child_seed(self._seed, trial.number)
        if len(finished) < self._num_startup or (not finished and self._belief.num_startup):
            unit = sobol_points(len(space.names), trial.number + 1, [self._seed])[trial.number :]
            return space.values(space.box.from_unit(unit))[0]
        pending = [one for one in trials if one.state == TrialState.RUNNING]
        costs = np.asarray([[cost(study, one) for one in finished]])
        return self._ask(space, _places(space, finished), costs, _places(space, pending), _places(space, trials), seed)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        require_one_objective(study)
        distribution = require_numeric(param_name, param_distribution)
        return self._independent.sample_independent(study, trial, param_name, distribution)

    def _ask(
        self, space: Space, observed: Places, costs: np.ndarray, pending: Places, tried: Places, seed: int
    ) -> dict[str, Any]:
        """The candidate that the strategy prefers. Skips points already tried, unless there are no others."""
        belief, box = self._belief, space.box
        best = observed[np.argmin(costs)] if costs.size else (box.low + box.high) / 2
        values = space.values(box.from_unit(candidate_points(box.num_inputs, box.to_unit(best), [seed])))
        places = space.places(values)
        known = among(box.to_unit(places), box.to_unit(tried))
        known &= ~known.all()
        candidates, x, z = belief.inputs(space, places), belief.inputs(space, observed), belief.scale(costs).apply(costs)
        seeds = np.asarray([seed], np.uint32)
        if not costs.size:  # no cost to improve on yet
            expected = belief.strategy.expected(x[None], z, candidates, seeds)
            return values[int(np.argmin(np.where(known, np.inf, 0 if expected is None else expected[0])))]
        # Running trials get the mean cost so far, which leads new trials elsewhere.
        x = np.concatenate([x, belief.inputs(space, pending)])
        z = np.pad(z, ((0, 0), (0, len(pending))), constant_values=z.mean())
        return values[int(choose(belief.strategy, x[None], z, candidates, known[None], seeds)[0])]


def _places(space: Space, trials: Sequence[FrozenTrial]) -> Places:
    return space.places([trial.params for trial in trials])


def _any_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1)[0])
