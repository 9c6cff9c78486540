"""Events happen at the rates they should, many individuals follow the differential equations, tasks are as the lineage's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp

from mpnp.errors import InputError
from mpnp.tasks.predator_prey import problems as predator_prey
from mpnp.tasks.predator_prey.gillespie import Rates, sample_events, simulate
from mpnp.tasks.predator_prey.ode import LotkaVolterraRates, MayRates, VariedPredation, follow
from mpnp.tasks.predator_prey.problems import lotka_volterra
from mpnp.tasks.predator_prey.trajectories import SeriesFamily, TrajectoryFamily, standardise
from mpnp.tasks.registry import find_problem, task_dims
from mpnp.training.config import RunConfig

UNLIKELY = 1e-3
SIZES = {"train": 40, "validation": 20, "test": 20}


def from_one_state(predators: float, prey: float, num: int, **options):
    start = jnp.broadcast_to(jnp.asarray([predators, prey], float), (num, 2))
    return jax.device_get(simulate(start, key=jax.random.key(1), **options))


@pytest.mark.parametrize("predators, prey", [(50, 100), (3, 7), (200, 20)])
def test_one_event_has_the_rates_and_the_waiting_time_of_theory(predators, prey):
    rates, num = Rates(), 20_000
    events = from_one_state(predators, prey, num, num_events=1)
    meetings = predators * prey
    expected = np.array(
        [
            rates.predator_birth * meetings,
            rates.predator_death * predators,
            rates.prey_birth * prey,
            rates.prey_death * meetings,
        ]
    )
    change = list(zip(events.predators[0] - predators, events.prey[0] - prey, strict=True))
    counts = [change.count(kind) for kind in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    assert sum(counts) == num
    assert stats.chisquare(counts, num * expected / expected.sum()).pvalue > UNLIKELY
    assert stats.kstest(events.time[0], stats.expon(scale=1 / expected.sum()).cdf).pvalue > UNLIKELY


def test_many_individuals_follow_the_differential_equations_for_a_cycle():
    volume, rates = 400, Rates()
    large = Rates(rates.predator_birth / volume, rates.predator_death, rates.prey_birth, rates.prey_death / volume)
    events = from_one_state(50 * volume, 100 * volume, 4, num_events=900_000, rates=large)

    def flow(_, state):
        predators, prey = state
        meetings = predators * prey
        return [
            rates.predator_birth * meetings - rates.predator_death * predators,
            rates.prey_birth * prey - rates.prey_death * meetings,
        ]

    at = np.linspace(0.2, 9.5, 40)  # one cycle
    exact = solve_ivp(flow, (0, 10), [50, 100], t_eval=at, rtol=1e-8).y
    for path in range(4):
        when = np.searchsorted(events.time[:, path], at)
        assert when.max() < len(events.time)
        simulated = np.stack([events.predators[when, path], events.prey[when, path]]) / volume
        np.testing.assert_allclose(simulated, exact, rtol=0.12, atol=2)


def test_a_trajectory_ends_when_a_species_is_extinct():
    events = from_one_state(1, 2, 64, num_events=300)
    assert (events.length < 300).any()
    for path, length in enumerate(events.length):
        alive = (events.predators[:, path] > 0) & (events.prey[:, path] > 0)
        assert alive[: length - 1].all() and (length == 300 or not alive[length - 1 :].any())
        np.testing.assert_array_equal(events.time[length - 1 :, path], events.time[length - 1, path])
        assert (np.diff(events.time[:length, path]) >= 0).all()


def test_simulations_begin_with_50_predators_and_100_prey_in_this_order():
    kept, _ = sample_events(64, 1, seed=3, num_events=1)
    np.testing.assert_allclose(kept[:, 0, 1:].mean(axis=0), [50, 100], atol=1.5)  # one event later, and rounded down


def test_rates_are_those_of_the_lineage():
    """Predators are born at .01 XY and die at .5 X; prey are born at Y and die at .01 XY."""
    assert Rates() == Rates(predator_birth=0.01, predator_death=0.5, prey_birth=1.0, prey_death=0.01)
    assert tuple(Rates()) == (0.01, 0.5, 1.0, 0.01)


def test_outputs_are_predators_then_prey():
    time = np.arange(100.0)
    growing, falling = 10 + 2 * time, 1e3 - time
    events = jnp.asarray(np.stack([time, growing, falling], axis=-1)[None], jnp.float32)
    family = TrajectoryFamily(events, jnp.asarray([100]))
    task = jax.jit(lambda key: family.sample(key))(jax.random.key(0))
    np.testing.assert_allclose(task.y, task.x * jnp.array([1, -1]), atol=1e-4)


def test_kept_events_are_events_of_the_trajectory_without_repeats():
    kept, counts = sample_events(6, 50, seed=3, num_events=200)
    again, _ = sample_events(3, 50, seed=3, num_events=200)
    np.testing.assert_array_equal(kept[:3], again)  # a small set is the beginning of a large one
    for events, count in zip(kept, counts, strict=True):
        assert count == 50 and len(np.unique(events[:, 0])) == 50
        assert (events[:, 1:] == events[:, 1:].round()).all() and (events >= 0).all()
        assert (np.diff(events[:, 0]) < 0).any()  # in random order


@functools.cache
def drawn(kind: str):
    families = {
        "trajectories": lambda: TrajectoryFamily(
            **dict(zip(("events", "counts"), map(jnp.asarray, sample_events(8, 100, seed=0, num_events=2_000)), strict=True))
        ),
        "hare-lynx": lambda: find_problem("hare-lynx").test,
        "varied": lambda: VariedPredation(num_steps=500, burn_in=150),
    }
    return jax.jit(jax.vmap(families[kind]().sample))(jax.random.split(jax.random.key(0), 500))


@pytest.mark.parametrize("kind", ["trajectories", "hare-lynx", "varied"])
def test_sizes_are_those_of_the_lineage_and_the_context_is_standardised(kind):
    tasks = drawn(kind)
    context, target = (np.asarray(mask.sum(axis=-1)) for mask in (tasks.context_mask, tasks.target_mask))
    slots = tasks.x.shape[1]
    assert context.min() >= 15 and context.max() == slots - 16 and len(np.unique(context)) == slots - 30
    assert target.min() >= 15 and (context + target <= slots).all()
    assert not (tasks.context_mask & tasks.target_mask).any()
    if kind == "hare-lynx":
        assert (context + target == 91).all()
    for values in (tasks.x, tasks.y):
        mean = jnp.mean(values, axis=1, where=tasks.context_mask[..., None])
        spread = jnp.std(values, axis=1, where=tasks.context_mask[..., None])
        np.testing.assert_allclose(mean, 0, atol=1e-4)
        np.testing.assert_allclose(spread, 1, atol=2e-3)


def simulated(rates, start, *, shocks=0.0, num_steps=2_000, step=2 * np.pi / 100):
    noise = shocks * jax.random.normal(jax.random.key(0), (num_steps, 2))
    return np.asarray(follow(rates, jnp.asarray(start), noise, jnp.asarray(step)), np.float64).T


def test_undisturbed_cycles_of_the_wider_world_stay_closed():
    predators, prey = simulated(LotkaVolterraRates(ratio=jnp.array(1.5), crowding=jnp.array(0.0)), [0.9, -0.7])
    # What the equations keep for ever, if there is neither crowding nor shock.
    kept = 1.5 * (np.exp(predators) - predators) + (np.exp(prey) - prey) / 1.5
    np.testing.assert_allclose(kept, kept.mean(), rtol=0.06)
    # Twenty cycles of the linearised equations last as long as a few less of large ones.
    upward = np.sum((prey[:-1] < 0) & (prey[1:] >= 0))
    assert 16 <= upward <= 20


def test_shocks_give_prey_the_spread_that_was_asked_for():
    rates = LotkaVolterraRates(ratio=jnp.array(1.5), crowding=jnp.array(0.2))
    _, prey = simulated(rates, [0.0, 0.0], shocks=rates.shocks_for(jnp.array(0.1)), num_steps=200_000)
    np.testing.assert_allclose(prey[10_000:].std(), 0.1, rtol=0.05)


def test_mays_populations_rest_where_births_and_deaths_are_equal():
    growth, hunger, satiation = 1.5, 2.0, 0.1
    # With as many predators as prey, growth (1 - n) (n + satiation) = hunger n.
    balance = np.polynomial.Polynomial([growth * satiation, growth * (1 - satiation) - hunger, -growth])
    rest = np.log(max(balance.roots()))
    rates = MayRates(*(jnp.array(value) for value in (growth, hunger, satiation, 1.0)))
    np.testing.assert_allclose(simulated(rates, [rest, rest], num_steps=50, step=0.05), rest, atol=1e-4)


def test_real_cycles_are_possible_in_the_wider_world():
    tasks = drawn("varied")
    assert np.isfinite(tasks.y).all()
    assert np.abs(np.asarray(tasks.y)).max() < 100  # few errors are so large that everything else seems constant


def test_a_column_that_does_not_vary_stays_finite():
    everywhere, nowhere = jnp.ones(4, bool), jnp.zeros(4, bool)
    task = standardise(jnp.arange(4.0)[:, None], jnp.full((4, 2), 7.0), everywhere, nowhere)
    np.testing.assert_array_equal(task.y, 0)


def test_the_series_is_the_published_one():
    years, pelts = predator_prey.hare_lynx_series()
    np.testing.assert_array_equal(years[:, 0], np.arange(1845, 1936))
    assert pelts[0].tolist() == [30.09, 19.58] and pelts[-1].tolist() == [35.40, 15.76]
    assert isinstance(find_problem("hare-lynx").test, SeriesFamily)


def test_nobody_trains_on_the_real_series():
    assert task_dims("hare-lynx") == (1, 2)
    with pytest.raises(InputError, match="'hare-lynx' is for testing only: train on 'lotka-volterra'"):
        RunConfig("cnp", "hare-lynx")


def test_trajectories_are_simulated_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("MPNP_DATA", str(tmp_path))
    monkeypatch.setattr(predator_prey, "sample_events", functools.partial(sample_events, num_events=200))
    first = lotka_volterra(SIZES)
    monkeypatch.setattr(predator_prey, "sample_events", None)  # nothing is simulated again
    second = lotka_volterra(SIZES)
    for part, size in zip((first.training, first.validation, first.test), SIZES.values(), strict=True):
        assert part.events.shape == (size, 100, 3)
    np.testing.assert_array_equal(first.test.events, second.test.events)
    assert not np.array_equal(first.validation.events, first.test.events)
