"""Where the time of a training step goes: the operations of the compiled program by kind, from a trace of one step.

    python benchmarks/step_profile.py

Each model is traced in its own process on one core, so that the time of an operation is its cost. Rates are in
billions of floating-point operations per second, for products only. Written to `results/speed/profile`.
"""

import argparse
import collections
import gzip
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
from measure import RESULTS, in_fresh_process
from training_speed import training_step

from mpnp.io.files import environment, write_atomically, write_json
from mpnp.models.registry import MODELS
from mpnp.reproduce.tables import markdown
from mpnp.training.config import RECIPES, RunConfig

PROFILED = ("cnp", "mpnp", "canp", "mpanp")
CONTAINERS = ("while", "conditional", "call")
"""Operations that are only made of others."""

LINE = re.compile(
    r"\s+(?:ROOT )?%(?P<name>\S+) = (?P<type>\(.*?\)|\S+) (?P<verb>[\w\-]+)\((?P<operands>[^)]*)\)(?P<details>.*)"
)


class Instruction(NamedTuple):
    """One line of a compiled program."""

    name: str
    shape: tuple[int, ...]
    verb: str
    operands: tuple[str, ...]
    details: str


class Operation(NamedTuple):
    """What is traced as one: an instruction, or several that were fused."""

    kind: str
    flops: float


def main() -> None:
    """Profile the models asked for, or one of them for the parent process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), help="only these: print their table, write nothing")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(profile(options.one[0], Path(options.one[1]))))
        return
    rows = []
    for model in options.models or PROFILED:
        print(model, file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            flags = f"--xla_cpu_enable_xprof_traceme=true --xla_dump_to={folder} --xla_dump_hlo_as_text"
            rows += in_fresh_process(__file__, "--one", model, folder, settings={"XLA_FLAGS": flags})
    if options.models:
        print(tabulate(rows))
        return
    write_json(RESULTS / "profile.json", {"kind": "step-profile", "rows": rows, "environment": environment()})
    write_atomically(RESULTS / "profile.md", lambda file: file.write(tabulate(rows).encode()))


def profile(name: str, folder: Path) -> list[dict[str, Any]]:
    """Time and arithmetic of each kind of operation in one step of the paper's recipe."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    step = training_step(RunConfig(name, recipe=RECIPES["paper"]))
    jax.block_until_ready(step())
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level, options.python_tracer_level = 3, 0
    with jax.profiler.trace(str(folder), profiler_options=options):
        jax.block_until_ready(step())
    program = read_program(next(folder.glob("*jit_descend*after_optimizations.txt")).read_text())
    seconds, flops = collections.Counter(), collections.Counter()
    for event in json.loads(gzip.decompress(next(folder.rglob("*.trace.json.gz")).read_bytes()))["traceEvents"]:
        if event.get("ph") == "X" and (operation := program.get(event["name"])) is not None:
            seconds[operation.kind] += event["dur"] / 1e6
            flops[operation.kind] += operation.flops
    return [
        {"model": name, "kind": kind, "share": spent / seconds.total(), "gigaflops": flops[kind] / spent / 1e9}
        for kind, spent in seconds.most_common()
    ]


def read_program(text: str) -> dict[str, Operation]:
    """The operations of a compiled program, by their names."""
    computations: dict[str, list[Instruction]] = collections.defaultdict(list)
    name = ""
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith(" "):
            name = line.removeprefix("ENTRY ").split(" ")[0].lstrip("%")
        elif (match := LINE.match(line)) is not None:
            sizes = re.search(r"\[([\d,]*)\]", match["type"])
            shape = tuple(map(int, filter(None, sizes[1].split(",")))) if sizes else ()
            operands = tuple(operand.strip().lstrip("%") for operand in match["operands"].split(","))
            computations[name].append(Instruction(match["name"], shape, match["verb"], operands, match["details"]))
    operations = {}
    for computation in list(computations.values()):
        for instruction in computation:
            fused = re.search(r"calls=%?([\w.\-]+)", instruction.details)
            body = computations[fused[1]] if fused else None
            if instruction.verb not in CONTAINERS:
                operations[instruction.name] = describe(body or [instruction], body or computation)
    return operations


def describe(parts: Sequence[Instruction], computation: Sequence[Instruction]) -> Operation:
    """What kind of operation these instructions are together, and how many multiplications and additions it takes."""
    products = [part for part in parts if part.verb == "dot"]
    verbs = {part.verb for part in parts}
    if products:
        shapes = {instruction.name: instruction.shape for instruction in computation}
        return Operation(kind_of_product(products[0]), sum(product_flops(part, shapes) for part in products))
    if verbs & {"reduce", "reduce-window"}:
        return Operation("sums", 0)
    return Operation("copies and transposes" if verbs & {"copy", "transpose"} else "pointwise", 0)


def kind_of_product(product: Instruction) -> str:
    """Which of the products of a network it is."""
    if "lhs_batch_dims" in product.details:
        return "products inside attention"
    return "gradients of weights" if "lhs_contracting_dims={0}" in product.details else "layers, and gradients of their rows"


def product_flops(product: Instruction, shapes: dict[str, tuple[int, ...]]) -> float:
    """Two operations for each number of the result and each number summed over."""
    summed = re.search(r"lhs_contracting_dims=\{([\d,]+)\}", product.details)
    left = shapes[product.operands[0]]
    return 2.0 * math.prod(product.shape) * math.prod(left[int(axis)] for axis in summed[1].split(",")) if summed else 0.0


def tabulate(rows: list[dict[str, Any]]) -> str:
    """A Markdown table of the record."""
    models, kinds = (list(dict.fromkeys(row[part] for row in rows)) for part in ("model", "kind"))
    found = {(row["model"], row["kind"]): row for row in rows}

    def cell(model: str, kind: str) -> str:
        row = found.get((model, kind))
        if row is None:
            return "-"
        return f"{row['share']:.0%}" + (f" at {row['gigaflops']:.0f}" if row["gigaflops"] else "")

    return markdown(["part of a step's time", *models], [[kind, *(cell(model, kind) for model in models)] for kind in kinds])


if __name__ == "__main__":
    main()
