"""Wrong types for seeds and counts are our own errors, as users see them: without the checks of shapes that tests run with."""

import json
import subprocess
import sys

CALLS = """
import json
import mpnp
import jax
from mpnp.inference.completion import choose_pixels
from mpnp.inference.predictor import Predictor
from mpnp.tables.curves import Curves
from mpnp.tables.split import split_curves
from mpnp.training.evaluate import evaluate_run
from mpnp.bayesopt import Optimizer, minimize

model = mpnp.load("cnp-rbf")
curves = Curves.from_pairs([([0.0, 1.0, 2.0], [0.1, 0.2, 0.3])] * 8)
posterior = model.condition([0.0], [1.0])
calls = {
    "num_samples": [
        lambda value: model.condition([0.0], [1.0], num_samples=value),
        lambda value: model.predict_tasks([([0.0], [1.0])], [[0.5]], num_samples=value),
        lambda value: Predictor(model.network, num_samples=value),
        lambda value: evaluate_run("cnp-rbf", num_tasks=2, num_samples=value),
    ],
    "seed": [
        lambda value: posterior.sample([0.5], 2, value),
        lambda value: posterior.joint_log_prob([0.5], [0.1], seed=value),
        lambda value: Predictor(model.network, seed=value),
        lambda value: Optimizer("random", (0, 1), seed=value),
        lambda value: model.recalibrate(curves, seed=value),
        lambda value: split_curves(curves, seed=value),
        lambda value: choose_pixels(4, 4, 2, value),
        lambda value: mpnp.RunConfig("cnp", seed=value),
    ],
    "n": [
        lambda value: posterior.sample([0.5], value),
        lambda value: posterior.functional(max, [0.5], n=value),
        lambda value: posterior.to_arviz([0.5], value),
        lambda value: Optimizer("random", (0, 1)).ask(value),
    ],
    "fn": [lambda value: posterior.functional(value, [0.5])],
    "num_draws": [lambda value: posterior.plot(num_draws=value), lambda value: posterior.figure(num_draws=value)],
    "count": [lambda value: choose_pixels(4, 4, value, 0)],
    "x_dim": [lambda value: mpnp.build("cnp", key=jax.random.key(0), x_dim=value)],
    "y_dim": [lambda value: mpnp.build("cnp", key=jax.random.key(0), y_dim=value)],
    "num_tasks": [
        lambda value: evaluate_run("cnp-rbf", num_tasks=value),
        lambda value: mpnp.RunConfig("cnp", num_tasks=value),
    ],
    "num_pseudo": [lambda value: mpnp.load("mpnp-rbf").network.with_num_pseudo(value)],
    "num_future": [lambda value: posterior.sample([0.5], 2, num_future=value)],
    "num_orders": [lambda value: posterior.joint_log_prob([0.5], [0.1], num_orders=value)],
    "num_initial": [lambda value: Optimizer("random", (0, 1), num_initial=value)],
    "num_iterations": [lambda value: minimize(abs, (0, 1), model="random", num_iterations=value)],
}
wrong = [float("nan"), float("inf"), 2.5, "3", [3], {}, b"3", 1j, object(), True, -1, 10**400]
answers = []
for name, asks in calls.items():
    for number, ask in enumerate(asks):
        for value in wrong:
            try:
                ask(value)
                answers.append((name, number, type(value).__name__, "answered"))
            except mpnp.InputError as error:
                if not str(error).startswith(name + " must"):
                    answers.append((name, number, type(value).__name__, str(error)))
            except Exception as error:
                answers.append((name, number, type(value).__name__, type(error).__name__))
print(json.dumps(answers))
"""


def test_wrong_types_are_refused_by_name():
    done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
