"""Shared by all benchmarks: timing, the unit u, and a fresh process for each measurement.

Times are CPU seconds, so that other load matters little, and multiples of the unit u: one product of float32
matrices of 128,000 x 128 and 128 x 128, measured in the same process.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

RESULTS = Path(__file__).parents[1] / "results" / "speed"
UNIT_FLOPS = 2 * 128_000 * 128 * 128


def seconds_each(run: Callable[[], Any], *, at_least: int = 3, budget: float = 6.0) -> tuple[float, float]:
    """Median CPU and wall seconds of a call, over as many calls as the budget allows."""
    cpu, wall = [], []
    while len(cpu) < at_least or sum(wall) < budget:
        started = time.process_time(), time.perf_counter()
        jax.block_until_ready(run())
        cpu.append(time.process_time() - started[0])
        wall.append(time.perf_counter() - started[1])
    return statistics.median(cpu), statistics.median(wall)


def measure_unit() -> float:
    """CPU seconds of the unit u, measured now."""
    rows, weight = jnp.ones((128_000, 128)), jnp.ones((128, 128))
    multiply = jax.jit(jnp.matmul)
    jax.block_until_ready(multiply(rows, weight))
    return seconds_each(lambda: multiply(rows, weight), budget=1.5)[0]


def peak_gigabytes() -> float:
    """Peak memory of this process, including Python, JAX and the compiler."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def in_fresh_process(script: str, *arguments: str, settings: Mapping[str, str] | None = None) -> Any:
    """Run `script arguments` in a new process, with its own peak memory and compile time, and read the JSON it prints last.

    The settings are added to its environment variables.
    """
    run = subprocess.run(
        [sys.executable, script, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, **(settings or {})},
    )
    return json.loads(run.stdout.splitlines()[-1])


def keeping_programs(folder: str) -> dict[str, str]:
    """Environment of a process that caches compiled programs in a folder."""
    return {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
