"""An Optuna sampler that suggests trials with a neural process, or any other strategy of mpnp."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution  # pyright: ignore[reportMissingImports]
from optuna.samplers import BaseSampler, RandomSampler  # pyright: ignore[reportMissingImports]
from optuna.samplers._base import _process_constraints_after_trial  # pyright: ignore[reportMissingImports]
from optuna.search_space import intersection_search_space  # pyright: ignore[reportMissingImports]
from optuna.study import Study  # pyright: ignore[reportMissingImports]
from optuna.study._constrained_optimization import _CONSTRAINTS_KEY  # pyright: ignore[reportMissingImports]
from optuna.trial import FrozenTrial, TrialState  # pyright: ignore[reportMissingImports]

from mpnp.bayesopt.acquisition import EXPECTED_IMPROVEMENT
from mpnp.bayesopt.history import History
from mpnp.bayesopt.registry import AUTO
from mpnp.bayesopt.space import sobol_points
from mpnp.bayesopt.strategies import child_seed
from mpnp.integrations.optuna.beliefs import find_belief
from mpnp.integrations.optuna.space import Places, Space
from mpnp.integrations.optuna.studies import cost, is_finished, require_one_objective, tasks_from_studies
from mpnp.options import require_count, require_seed

__all__ = ["NeuralProcessSampler"]

Constraints = Callable[[FrozenTrial], Sequence[float]]
"""Numbers that are positive where a finished trial violates a constraint."""


class NeuralProcessSampler(BaseSampler):
    """Suggests parameters, numbers or categories, for one objective, minimised or maximised.

    `model` is 'auto', 'gp', 'gp-rbf', 'random', a loaded model, the directory or name of one, or a surrogate. A model fitted to
    `tasks_from_studies` reads values in the units of those studies and suggests from the start. Any other reads values
    standardised by those observed so far, after `n_startup_trials` points of a Sobol sequence.

    Optuna learns the parameters of a study from its first trial, which is therefore random. With `search_space`, a mapping
    from names to distributions, the model suggests the first trial too.

    With `past_studies` of the same parameters, a Gaussian process learns from these, in seconds. It takes the place of the
    default model, or stands beside a model fitted to them: each is believed as far as it predicts the trials of the new study.

    `constraints_func` maps a finished trial to numbers, positive where it violates a constraint, as in Optuna's own samplers.
    """

    def __init__(
        self,
        model: Any = AUTO,
        *,
        search_space: Mapping[str, BaseDistribution] | None = None,
        n_startup_trials: int | None = None,
        acquisition: str = EXPECTED_IMPROVEMENT,
        constraints_func: Constraints | None = None,
        past_studies: Iterable[Study] | None = None,
        seed: int | None = None,
    ) -> None:
        past = None if past_studies is None else tasks_from_studies(past_studies)
        self._belief = find_belief(model, acquisition, past)
        if n_startup_trials is not None:
            require_count("n_startup_trials", n_startup_trials, least=0)
        self._num_startup = n_startup_trials
        self._search_space = None if search_space is None else dict(search_space)
        if search_space is not None:
            self._belief.require(Space.of(search_space))
        if seed is not None:
            require_seed(seed)
        self._seed = _any_seed() if seed is None else int(seed)
        self._independent = RandomSampler(seed=seed)
        self._constraints_func = constraints_func
        self._suggested: dict[tuple[str, int], dict[str, Any]] = {}
        """Parameters of trials that Optuna's storage does not know yet, by study and number."""
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock, which no other process can hold."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

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
        with self._lock:  # one trial after another, so that none of several threads repeats another's suggestion
            self._belief.require(space)
            params = self._suggest(study, trial, space)
            self._suggested[study.study_name, trial.number] = params
        return params

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        require_one_objective(study)
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        self._suggested.pop((study.study_name, trial.number), None)
        if self._constraints_func is not None:
            _process_constraints_after_trial(self._constraints_func, study, trial, state)
        self._independent.after_trial(study, trial, state, values)

    def _suggest(self, study: Study, trial: FrozenTrial, space: Space) -> dict[str, Any]:
        history = self._history(study, trial, space)
        startup = self._belief.num_startup(space)
        wanted = startup if self._num_startup is None else self._num_startup
        if len(history.x) + len(history.failed) < wanted or (startup and not len(history.x)):
            unit = sobol_points(len(space.columns), trial.number + 1, [self._seed])[trial.number]
        else:
            unit = self._belief.suggest(space, history, child_seed(self._seed, trial.number))
        return space.values(space.box.from_unit(unit[None]))[0]

    def _history(self, study: Study, trial: FrozenTrial, space: Space) -> History:
        """Trials of this space: finished ones, those that failed or violate a constraint, and those that run or were pruned."""
        finished, failed, others = [], [], []
        for one in study.get_trials(deepcopy=False):
            params = {**self._suggested.get((study.study_name, one.number), {}), **one.params}
            if one.number == trial.number or not space.holds(params):
                continue
            if is_finished(one) and max(one.system_attrs.get(_CONSTRAINTS_KEY) or [0.0]) <= 0:
                finished.append((params, cost(study, one)))
            elif one.state in (TrialState.RUNNING, TrialState.PRUNED):
                others.append(params)
            elif one.state != TrialState.WAITING:
                failed.append(params)
        x, pending, failures = (_unit(space, some) for some in ([params for params, _ in finished], others, failed))
        return History(x, np.asarray([value for _, value in finished], np.float64), pending, failures)


def _unit(space: Space, params: Sequence[Mapping[str, Any]]) -> Places:
    return space.box.to_unit(space.places(params))


def _any_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1)[0])
