"""Where the time of a training step goes: the rates of the operations it is made of, at the sizes of one piece.

    python benchmarks/kernels.py

Each operation runs many times inside one compiled loop. Rates are in billions of floating-point operations a CPU-second, and
as shares of the rate of u. Written to `results/speed/kernels`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from measure import RESULTS, UNIT_FLOPS, measure_unit, seconds_each

from mpnp.pieces import ROWS
from mpnp.records import environment, write_atomically, write_json
from mpnp.reproduce.render import markdown

WIDTH, HEADS, POINTS, REPEATS = 128, 8, 50, 200
SETS = ROWS // POINTS
"""Sets of points, one a task and sample, in a piece."""


def main() -> None:
    """Measure, record, tabulate."""
    unit = measure_unit()
    rows = []
    for name, (run, arguments, flops) in operations().items():
        cpu, _ = seconds_each(repeated(run, *arguments), budget=2.0)
        rate = flops * REPEATS / cpu
        rows.append({"operation": name, "gigaflops": rate / 1e9, "share_of_unit_rate": rate * unit / UNIT_FLOPS})
    write_json(RESULTS / "kernels.json", {"kind": "kernels", "unit": unit, "rows": rows, "environment": environment()})
    header = ["operation", "10⁹ operations a CPU-s", "share of u's rate"]
    cells = [[row["operation"], f"{row['gigaflops']:.0f}", f"{row['share_of_unit_rate']:.2f}"] for row in rows]
    write_atomically(RESULTS / "kernels.md", lambda file: file.write(markdown(header, cells).encode()))
    print(markdown(header, cells))


def operations() -> dict[str, tuple[Callable[..., Any], tuple[jax.Array, ...], float]]:
    """Each operation with its arguments and its number of floating-point operations."""
    rows, weight = jnp.ones((ROWS, WIDTH)), jnp.ones((WIDTH, WIDTH))
    heads = jnp.ones((SETS, HEADS, POINTS, WIDTH // HEADS))
    scores = jnp.ones((SETS, HEADS, POINTS, POINTS))
    product = 2.0 * ROWS * WIDTH * WIDTH
    attention = 2.0 * SETS * POINTS * POINTS * WIDTH
    return {
        "a layer, forward": (lambda x, w: x @ w, (rows, weight), product),
        "its gradient in the rows": (lambda g, w: g @ w.T, (rows, weight), product),
        "its gradient in the weight": (lambda x, g: x.T @ g, (rows, rows), product),
        "attention scores, 8 heads": (lambda q, k: jnp.einsum("shqd,shkd->shqk", q, k), (heads, heads), attention),
        "attention values, 8 heads": (lambda a, v: jnp.einsum("shqk,shkd->shqd", a, v), (scores, heads), attention),
        "a rectifier (one operation a number)": (lambda x, b: jax.nn.relu(x + b), (rows, rows), 1.0 * ROWS * WIDTH),
        "an exponential (one operation a number)": (lambda a, b: jnp.exp(a - b), (scores, scores), 1.0 * scores.size),
    }


def repeated(run: Callable[..., Any], *arguments: jax.Array) -> Callable[[], Any]:
    """The operation many times over, each time on arguments that the compiler cannot know to be the same."""

    @jax.jit
    def loop(first: jax.Array, *rest: jax.Array) -> jax.Array:
        def once(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
            result = run(carry, *rest)
            # One number of the result feeds the next round, so that no round can be left out or moved out of the loop.
            return carry.at[(0,) * carry.ndim].set(1e-9 * result[(0,) * result.ndim]), None

        return jax.lax.scan(once, first, length=REPEATS)[0]

    return lambda: loop(*arguments)


if __name__ == "__main__":
    main()
