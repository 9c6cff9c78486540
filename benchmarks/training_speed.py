"""Cost of one training step of the paper's recipe, for every model.

    python benchmarks/training_speed.py             the step as `mpnp train` takes it
    python benchmarks/training_speed.py --whole     the same loss computed naively, on the whole batch at once

Each model is measured in its own process; the record and its table go to `results/speed`.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from measure import RESULTS, UNIT_FLOPS, in_fresh_process, keeping_programs, measure_unit, peak_gigabytes, seconds_each

from mpnp.io.files import environment, write_atomically, write_json
from mpnp.models.registry import MODELS
from mpnp.reproduce.model_groups import PAPER_MODELS
from mpnp.reproduce.tables import markdown
from mpnp.tasks.base import TaskSource
from mpnp.tasks.registry import find_problem
from mpnp.training import sharding
from mpnp.training.config import RECIPES, RunConfig


def main() -> None:
    """Measure the models asked for, or one of them for the parent process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), help="only these: print their table, write nothing")
    parser.add_argument("--whole", action="store_true", help="the whole batch at once, for comparison")
    parser.add_argument("--one", metavar="MODEL", help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    flags = ["--whole"] if options.whole else []
    if options.one is not None:
        what = measure_memory if options.memory else measure
        print(json.dumps(what(options.one, whole_batch if options.whole else training_step)))
        return
    rows = []
    for model in options.models or (PAPER_MODELS if options.whole else MODELS):
        with tempfile.TemporaryDirectory() as programs:
            row, memory = (
                in_fresh_process(__file__, "--one", model, *flags, *more, settings=keeping_programs(programs))
                for more in ([], ["--memory"])
            )
        rows.append({**row, **memory})
        print(f"{model}: {row['units']:.1f} u", file=sys.stderr)
    if options.models:
        print(tabulate(rows))
        return
    name = "training-whole" if options.whole else "training"
    write_json(RESULTS / f"{name}.json", {"kind": "training-speed", "rows": rows, "environment": environment()})
    write_atomically(RESULTS / f"{name}.md", lambda file: file.write(tabulate(rows).encode()))


def training_step(config: RunConfig, number: int = 0) -> Callable[[], Any]:
    """The step of `mpnp train`, by default the first one, over and over."""
    from mpnp.training.step import initial_state, make_step

    mesh = sharding.batch_mesh(config.recipe.batch_size)
    family = find_problem(config.task).training
    step, state = make_step(config, family, mesh), sharding.replicate(mesh, initial_state(config, family))
    indices = np.arange(config.recipe.batch_size, dtype=np.uint32)
    return lambda: step(state, indices, number)


def whole_batch(config: RunConfig) -> Callable[[], Any]:
    """`jax.vmap` over the batch, one gradient, Adam."""
    model, optimizer = config.build_model(), optax.adam(1e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    gradient = batch_gradient(config)

    @eqx.filter_jit
    def step(model: Any, state: Any) -> Any:
        updates, state = optimizer.update(gradient(model), state)
        return eqx.apply_updates(model, updates), state

    return lambda: step(model, state)


def batch_gradient(config: RunConfig) -> Callable[[Any], Any]:
    """The gradient of a batch of tasks, drawn anew."""
    recipe, source = config.recipe, TaskSource(find_problem(config.task).training, jax.random.key(1))

    @eqx.filter_grad
    def gradient(model: Any) -> jax.Array:
        tasks, keys = source.batch(jnp.arange(recipe.batch_size)), jax.random.split(jax.random.key(0), recipe.batch_size)
        return jax.vmap(lambda task, key: model.loss(task, key=key, num_samples=recipe.num_samples)[0])(tasks, keys).mean()

    return gradient


def paper_run(name: str, way: Callable[[RunConfig], Callable[[], Any]]) -> RunConfig:
    """The paper's recipe, with the devices that `mpnp train` would take for its step."""
    config = RunConfig(name, recipe=RECIPES["paper"])
    if way is training_step:
        sharding.split_cpu(config.recipe.batch_size)
    return config


def measure(name: str, way: Callable[[RunConfig], Callable[[], Any]]) -> dict[str, Any]:
    """Cost of one step of the paper's recipe."""
    config = paper_run(name, way)
    flops = eqx.filter_jit(batch_gradient(config)).lower(config.build_model()).lowered.cost_analysis()["flops"]
    before = measure_unit()
    step = way(config)
    started = time.perf_counter()
    jax.block_until_ready(step())
    first = time.perf_counter() - started
    cpu, wall = seconds_each(step)
    unit = (before + measure_unit()) / 2
    return {
        "model": name,
        "unit": unit,
        "cpu_seconds": cpu,
        "wall_seconds": wall,
        "units": cpu / unit,
        "first_step_seconds": first,
        "padded_gigaflops": flops / 1e9,
        "share_of_unit_rate": flops / cpu * unit / UNIT_FLOPS,
        "compiling_peak_gigabytes": peak_gigabytes(),
    }


def measure_memory(name: str, way: Callable[[RunConfig], Callable[[], Any]]) -> dict[str, Any]:
    """Peak memory of steps whose program is in the compilation cache."""
    step = way(paper_run(name, way))
    for _ in range(3):
        jax.block_until_ready(step())
    return {"training_peak_gigabytes": peak_gigabytes()}


def tabulate(rows: list[dict[str, Any]]) -> str:
    """A Markdown table of the record."""
    header = ["model", "CPU-s per step", "wall / CPU", "u per step", "first step, s", "share of u's rate", "peak memory, GB"]
    header += ["with the compiler, GB"]
    return markdown(
        header,
        [
            [
                row["model"],
                f"{row['cpu_seconds']:.2f}",
                f"{row['wall_seconds'] / row['cpu_seconds']:.2f}",
                f"{row['units']:.1f}",
                f"{row['first_step_seconds']:.0f}",
                f"{row['share_of_unit_rate']:.2f}",
                f"{row['training_peak_gigabytes']:.2f}",
                f"{row['compiling_peak_gigabytes']:.2f}",
            ]
            for row in rows
        ],
    )


if __name__ == "__main__":
    main()
