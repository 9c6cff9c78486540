"""Stochastic predator–prey simulation, one birth or death at a time (Gillespie's algorithm)."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from tqdm import tqdm

__all__ = ["START", "Events", "Rates", "sample_events", "simulate"]

START = (50.0, 100.0)
"""Initial predators and prey, before adding standard normal noise to each."""

BLOCK = 100
"""Events per batch of random numbers: drawn one by one, they would dominate the cost."""

CHUNK = 512
"""Trajectories simulated in parallel."""


class Rates(NamedTuple):
    """Event rates. Predator births and prey deaths scale with the product of both populations, the rest with their own."""

    predator_birth: float = 0.01
    predator_death: float = 0.5
    prey_birth: float = 1.0
    prey_death: float = 0.01


RATES = Rates()

State = tuple[Float[Array, " trajectory"], Float[Array, " trajectory"], Float[Array, " trajectory"]]
"""Time, predators and prey."""


class Events(NamedTuple):
    """The state after each event. A trajectory has `length` events: it ends when one species is extinct or events run out."""

    time: Float[Array, "event trajectory"]
    predators: Float[Array, "event trajectory"]
    prey: Float[Array, "event trajectory"]
    length: Int[Array, " trajectory"]


@eqx.filter_jit
def simulate(
    start: Float[Array, "trajectory 2"], *, key: PRNGKeyArray, num_events: int = 20_000, rates: Rates = RATES
) -> Events:
    """Simulate trajectories from initial numbers of predators and prey. After extinction the last state repeats."""

    def event(state: State, chance: Float[Array, "2 trajectory"]) -> tuple[State, State]:
        time, predators, prey = state
        meetings = predators * prey
        births, deaths = rates.predator_birth * meetings, rates.predator_death * predators
        prey_births, prey_deaths = rates.prey_birth * prey, rates.prey_death * meetings
        total = births + deaths + prey_births + prey_deaths
        alive = (predators > 0) & (prey > 0)
        which = chance[1] * total
        of_predators = which < births + deaths
        predators_change = jnp.where(of_predators, jnp.where(which < births, 1.0, -1.0), 0.0)
        prey_change = jnp.where(of_predators, 0.0, jnp.where(which < births + deaths + prey_births, 1.0, -1.0))
        # The chance lies in [0, 1), so log(1 - chance) is finite.
        wait = -jnp.log1p(-chance[0]) / jnp.where(alive, total, 1.0)
        state = (
            time + jnp.where(alive, wait, 0.0),
            predators + jnp.where(alive, predators_change, 0.0),
            prey + jnp.where(alive, prey_change, 0.0),
        )
        return state, state

    def block(state: State, key: PRNGKeyArray) -> tuple[State, tuple[Float[Array, "event trajectory"], ...]]:
        return jax.lax.scan(event, state, jax.random.uniform(key, (BLOCK, 2, len(start))))

    num_blocks = -(-num_events // BLOCK)
    begin = (jnp.zeros(len(start)), start[:, 0], start[:, 1])
    _, blocks = jax.lax.scan(block, begin, jax.random.split(key, num_blocks))
    time, predators, prey = (leaf.reshape(-1, len(start))[:num_events] for leaf in blocks)
    going_on = (predators > 0) & (prey > 0)
    return Events(time, predators, prey, jnp.minimum(going_on.sum(axis=0) + 1, num_events))


def sample_events(
    num_trajectories: int, num_kept: int, *, seed: int, num_events: int = 20_000, quiet: bool = True
) -> tuple[Float[np.ndarray, "trajectory kept 3"], Int[np.ndarray, " trajectory"]]:
    """Time, predators and prey at `num_kept` random events of each trajectory, drawn without replacement; and their counts.

    Trajectories with fewer events keep them all, padded with zeros.
    """
    kept = np.zeros((num_trajectories, num_kept, 3), np.float32)
    counts = np.zeros(num_trajectories, np.int32)
    chunks = range(0, num_trajectories, CHUNK)
    for first in tqdm(chunks, desc="simulating", unit="chunk", disable=True if quiet else None):
        key = jax.random.fold_in(jax.random.key(seed), first // CHUNK)
        start_key, event_key = jax.random.split(key)
        start = jnp.asarray(START) + jax.random.normal(start_key, (CHUNK, 2))
        events = jax.device_get(simulate(jnp.maximum(jnp.trunc(start), 1.0), key=event_key, num_events=num_events))
        rng = np.random.default_rng([seed, first])
        for column in range(min(CHUNK, num_trajectories - first)):
            length = int(events.length[column])
            chosen = rng.choice(length, min(num_kept, length), replace=False)
            counts[first + column] = len(chosen)
            for output, values in enumerate((events.time, events.predators, events.prey)):
                kept[first + column, : len(chosen), output] = values[chosen, column]
    return kept, counts
