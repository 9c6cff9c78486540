"""Are drawn functions honest? Coverage of functionals on functions with an exact posterior, by context size.

    python benchmarks/functionals.py --tasks 400                  what the records of all rows lack; then the tables
    python benchmarks/functionals.py --rows rbf/canp-rbf-low/resampled ...     of these rows

Tasks come from the family that the models were trained on, with seeds of their own. For each functional, how often does the
central 90% interval of its posterior contain that of the true, noise-free function? Beside the models stand the exact posterior
that knows the kernel, and the one that infers its parameters from the context, as the models must. One record per row in
`results/functionals`, with what was measured on each task; fewer tasks are the first ones of more.
"""

import argparse
import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mpnp.diagnostics.cases import Case, Cases
from mpnp.diagnostics.draws import NUM_DRAWS, generate_functions, resample_cases
from mpnp.diagnostics.estimate import Estimate, cluster_mean, coverage
from mpnp.diagnostics.exact import cases_from_gaussian_process
from mpnp.diagnostics.functionals import default_functionals, random_rank
from mpnp.evaluation.ceilings.gaussian import infer_parameters, uniform_gaussian_process
from mpnp.evaluation.ceilings.quadrature import quadrature_for
from mpnp.evaluation.oracle import exact_function_posterior
from mpnp.inference.model import load
from mpnp.io.compile_cache import keep_compiled_programs
from mpnp.io.files import environment, read_json, write_atomically, write_json
from mpnp.reproduce.tables import markdown
from mpnp.tasks.base import TEST_SEED, AbstractTaskFamily, fixed_tasks
from mpnp.tasks.registry import find_problem
from mpnp.tasks.task import PointSet, Task
from mpnp.training.rundir import PRETRAINED

RESULTS = Path(__file__).parents[1] / "results" / "functionals"
SEED, SAVE_EVERY = 20, 10
FUNCTIONALS = default_functionals(1)
SIZES = ((3, 5), (6, 10), (11, 20), (21, 47))
"""Groups of context sizes."""

KNOWN, INFERRED = "exact GP, kernel known", "exact GP, kernel inferred"
ROWS = (
    ("rbf", KNOWN, "drawn"),
    ("rbf", INFERRED, "drawn"),
    ("rbf", "tnp-rbf-low", "resampled"),
    ("rbf", "canp-rbf-low", "resampled"),
    ("rbf", "mpanp-rbf-low", "resampled"),
    ("rbf", "mpanp-rbf-low", "generated"),
    ("rbf", "mpanp-rbf", "resampled"),
    ("rbf", "mpanp-rbf", "generated"),
    ("matern", KNOWN, "drawn"),
    ("matern", INFERRED, "drawn"),
    ("matern", "tnp-matern-low", "resampled"),
)
"""Task family, who draws, and how."""

Row = tuple[str, str, str]
Functions = Float[np.ndarray, "draw row"]


def main() -> None:
    """Measure what has no record yet, then tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", help="FAMILY/MODEL/METHOD; default all, none if empty")
    parser.add_argument("--tasks", type=int, default=100, help="tasks per row (default 100)")
    options = parser.parse_args()
    keep_compiled_programs()
    warnings.simplefilter("ignore")  # unusual contexts count like any other here
    named_rows = ROWS if options.rows is None else [row for row in ROWS if "/".join(row) in options.rows]
    wanted = [row for row in named_rows if row[1] in (KNOWN, INFERRED) or (PRETRAINED / row[1]).exists()]
    for row in wanted:
        extend_record(row, options.tasks)
    records = [read_json(record_of(row)) for row in ROWS if record_of(row).exists()]
    for name, tabulate in (("table.md", coverage_table), ("sizes.md", size_table), ("spread.md", spread_table)):
        table = tabulate(records)
        write_atomically(RESULTS / name, lambda file, table=table: file.write(table.encode()))
        print(table)


def extend_record(row: Row, num_tasks: int) -> None:
    """Measure the tasks that the record of a row lacks, and save them every now and then."""
    path = record_of(row)
    protocol = {"draws": NUM_DRAWS, "seed": SEED}
    start = {"kind": "functionals", "row": row, "protocol": protocol, "cpu_seconds": 0.0, "tasks": []}
    record = read_json(path) if path.exists() else start
    if len(record["tasks"]) >= num_tasks:
        return
    known = len(record["tasks"])
    cases = draw_cases(row[0], SEED, num_tasks)
    lacking = dataclasses.replace(cases, items=cases.items[known:])
    started = time.process_time()
    for case, functions in zip(lacking, draw_functions(row, lacking), strict=True):
        record["tasks"].append(measure_case(case, functions))
        if len(record["tasks"]) % SAVE_EVERY == 0 or len(record["tasks"]) == num_tasks:
            cpu_seconds = record["cpu_seconds"] + time.process_time() - started
            write_json(path, record | {"cpu_seconds": cpu_seconds, "environment": environment()})


def record_of(row: Row) -> Path:
    """Where the record of a row is kept."""
    family, who, way = (part.replace(", ", "-").replace(" ", "-").lower() for part in row)
    return RESULTS / family / f"{who}-{way}.json"


def draw_cases(family: str, seed: int, num_tasks: int) -> Cases:
    """The same tasks for every row of a family; not those of training, validation, test or `mpnp check`."""
    hashed = int(np.random.SeedSequence([seed, TEST_SEED]).generate_state(1)[0])
    return cases_from_gaussian_process(fixed_tasks(find_problem(family).test, hashed), family, num_tasks)


def draw_functions(row: Row, cases: Cases) -> Iterator[Functions]:
    """Functions of each case as this row draws them."""
    family, who, way = row
    if who == KNOWN:
        rng = np.random.default_rng([SEED, len(cases)])
        return (case.exact.sample(NUM_DRAWS, rng)[..., 0] for case in cases if case.exact is not None)
    if who == INFERRED:
        return map(inferring(find_problem(family).test), cases)
    if way == "generated":
        return (prediction.loc[..., 0] for prediction in generate_functions(load(who), cases))
    return (resampled.functions.loc[..., 0] for resampled in resample_cases(load(who), cases, seed=SEED))


def inferring(family: AbstractTaskFamily) -> Callable[[Case], Functions]:
    """Draws each function with other kernel parameters, from their exact posterior."""
    prior, noise_std = uniform_gaussian_process(family)
    integrator, slots = quadrature_for(prior), SIZES[-1][1]

    @eqx.filter_jit
    def solve(context: PointSet, grid: Float[Array, "row 1"]) -> tuple[Array, Array]:
        posterior = infer_parameters(prior, noise_std, context, integrator)
        task = Task(
            jnp.concatenate([context.x, grid]),
            jnp.pad(context.y, ((0, len(grid)), (0, 0))),
            jnp.pad(context.mask, (0, len(grid))),
            jnp.ones(slots + len(grid), bool),
        )
        moments = jax.lax.map(
            lambda parameters: exact_function_posterior(prior.build(parameters), noise_std, task),
            posterior.representatives(NUM_DRAWS),
        )
        return moments[0][:, slots:], moments[1][:, slots:, slots:]

    def draw(case: Case) -> Functions:
        missing = slots - len(case.x_context)
        with jax.enable_x64(True):
            x, y = (jnp.asarray(np.pad(part, [(0, missing), (0, 0)])) for part in (case.x_context, case.y_context))
            context = PointSet(x, y, jnp.arange(slots) < slots - missing)
            mean, covariance = jax.device_get(solve(context, jnp.asarray(case.x_function)))
        roots = np.linalg.cholesky(covariance + 1e-8 * np.eye(covariance.shape[-1]))
        normal = np.random.default_rng([SEED, case.cluster]).standard_normal(mean.shape)
        return mean + np.einsum("kij,kj->ki", roots, normal)

    return draw


def measure_case(case: Case, functions: Functions) -> dict[str, Any]:
    """Ranks of the truth, widths of intervals, and the spread of the functions beside the exact one."""
    measured: dict[str, Any] = {"context": len(case.x_context)}
    rng = np.random.default_rng([SEED, case.cluster])
    for name, functional in FUNCTIONALS.items():
        truth, *values = (float(functional(case.x_function, function)) for function in (case.y_function[:, 0], *functions))
        low, high = np.quantile(values, [0.05, 0.95])
        measured[name] = {"rank": random_rank(truth, np.asarray(values), rng), "width": float(high - low)}
    exact = 0.0 if case.exact is None else float(np.sqrt(np.diag(case.exact.function_covariance).clip(0).mean()))
    return measured | {"std": float(np.sqrt(functions.var(axis=0, ddof=1).mean())), "exact_std": exact}


def of_sizes(tasks: Sequence[dict[str, Any]], low: int, high: int) -> list[dict[str, Any]]:
    """The tasks with contexts of these sizes."""
    return [task for task in tasks if low <= task["context"] <= high]


def coverage_of(tasks: Sequence[dict[str, Any]], functional: str) -> Estimate:
    """How often the 90% interval contains the truth."""
    return coverage(np.asarray([task[functional]["rank"] for task in tasks]), 0.9, np.arange(len(tasks)))


def width_of(tasks: Sequence[dict[str, Any]], functional: str) -> float:
    """Mean width of the 90% interval."""
    return float(np.mean([task[functional]["width"] for task in tasks]))


def spread_of(tasks: Sequence[dict[str, Any]]) -> Estimate:
    """Standard deviation of functions, divided by that of the exact posterior that knows the kernel."""
    std, exact = (np.asarray([task[name] for task in tasks]) for name in ("std", "exact_std"))
    ratio = float(std.sum() / exact.sum())
    return Estimate(ratio, cluster_mean((std - ratio * exact) / exact.mean(), np.arange(len(tasks))).standard_error)


def named(records: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """What was measured, with names for tables."""
    for record in records:
        family, who, way = record["row"]
        family = {"rbf": "RBF", "matern": "Matérn"}[family]
        yield f"{family}: {who}" if way == "drawn" else f"{family}: `{who}`, {way}", record["tasks"]


def coverage_table(records: Sequence[dict[str, Any]]) -> str:
    """Coverage of 90% intervals, and their width."""
    rows = [
        [
            name,
            f"{len(tasks):,}",
            *(f"{coverage_of(tasks, part).percent()}, width {width_of(tasks, part):.2f}" for part in FUNCTIONALS),
        ]
        for name, tasks in named(records)
    ]
    return markdown(["functions", "tasks", *FUNCTIONALS], rows)


def size_table(records: Sequence[dict[str, Any]]) -> str:
    """Coverage of 90% intervals by context size, without errors."""

    def cell(tasks: Sequence[dict[str, Any]]) -> str:
        return " / ".join(f"{100 * coverage_of(tasks, part).mean:.0f}" for part in FUNCTIONALS)

    return _by_size(records, cell)


def spread_table(records: Sequence[dict[str, Any]]) -> str:
    """Spread of functions beside that of the exact posterior, by context size."""
    return _by_size(records, lambda tasks: spread_of(tasks).number(2))


def _by_size(records: Sequence[dict[str, Any]], cell: Callable[[Sequence[dict[str, Any]]], str]) -> str:
    header = ["functions, by context size", *(f"{low} to {high}" for low, high in SIZES)]
    return markdown(header, [[name, *(cell(of_sizes(tasks, *size)) for size in SIZES)] for name, tasks in named(records)])


if __name__ == "__main__":
    main()
