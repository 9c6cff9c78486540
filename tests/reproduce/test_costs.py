"""Expected costs of runs: those of recorded runs are met exactly, and others scale with points and functions."""

import dataclasses
import json

import pytest

from mpnp.models.config import ModelSettings
from mpnp.reproduce.costs import Costs
from mpnp.reproduce.rows import Run
from mpnp.training.config import Recipe

RECIPE = Recipe(steps=100, batch_size=8, num_samples=4)


def run(model, task="rbf", **changes):
    return Run(model, task, 0, dataclasses.replace(RECIPE, **changes), ModelSettings())


def keep(out, made, seconds):
    path = out / "hours" / "records" / f"{made.name}" / f"{made.task}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"config": dataclasses.asdict(made), "curve": [{"cpu_seconds": seconds}]}))


def test_recorded_runs_cost_what_they_did(tmp_path):
    made = run("mpanp", core_share=0.6)
    keep(tmp_path, run("canp"), 10.0)
    keep(tmp_path, made, 50.0)
    assert Costs.read(tmp_path).seconds(made) == pytest.approx(50.0)
    assert Costs.read(tmp_path).seconds(run("mpanp")) == pytest.approx((50.0 - 0.6 * 10.0) / 0.4)


def test_costs_scale_with_steps_tasks_points_and_functions(tmp_path):
    keep(tmp_path, run("canp"), 10.0)
    keep(tmp_path, run("anp"), 10.0)
    costs = Costs.read(tmp_path)
    assert costs.seconds(run("canp", steps=300, batch_size=16)) == pytest.approx(60.0)
    assert costs.seconds(run("canp", task="mnist")) == pytest.approx(40.0)
    assert costs.seconds(run("anp", num_samples=8)) == pytest.approx(20.0)
    assert costs.seconds(run("canp", num_samples=8)) == pytest.approx(10.0)


def test_nothing_is_claimed_of_models_without_a_record(tmp_path):
    keep(tmp_path, run("canp"), 10.0)
    (tmp_path / "hours" / "records" / "rbf" / "damaged").mkdir()
    (tmp_path / "hours" / "records" / "rbf" / "damaged" / "rbf.json").write_text("{}")
    assert Costs.read(tmp_path).seconds(run("np")) is None
