"""Tasks cut from observed curves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.fitted_models import some_curves
from mpnp.errors import InputError, RunError
from mpnp.tables.dataset import CurveDataset
from mpnp.tables.storage import load_dataset, save_dataset

NUM = 400


def draw(family, num=NUM):
    keys = jax.random.split(jax.random.key(0), num)
    return jax.device_get(jax.jit(jax.vmap(family.sample))(keys))


@pytest.fixture(scope="module", params=["random", "prefix"])
def table(request):
    return CurveDataset(some_curves(12, outputs=2, missing=True), context=request.param)


@pytest.fixture(scope="module")
def tasks(table):
    return draw(table.problem().training)


def rows_of(table):
    """Every observed output of the training curves as the network sees it: input, which output, value."""
    points = []
    for number in range(len(table.parts["train"])):
        x, y = table.parts["train"].pair(number)
        x, y = table.columns.encode_inputs(x), table.columns.encode_outputs(y)
        points.append(
            {(*np.float32(row), *np.eye(2)[j], np.float32(v[j])) for row, v in zip(x, y, strict=True) for j in (0, 1)}
        )
    return [{point for point in curve if not np.isnan(point[-1])} for curve in points]


def test_a_task_is_one_curve_whole(table, tasks):
    curves = rows_of(table)
    seen = set()
    for x, y, context, target in zip(tasks.x, tasks.y, tasks.context_mask, tasks.target_mask, strict=True):
        assert not (context & target).any() and target.any()
        points = {(*row, value[0]) for row, value in zip(x[context | target], y[context | target], strict=True)}
        (number,) = [n for n, curve in enumerate(curves) if points == curve]
        seen.add(number)
    assert seen == set(range(len(curves)))


def test_contexts_have_every_size_from_none_to_all_but_one(tasks):
    sizes = {(int(c.sum()) > 0, int(t.sum())) for c, t in zip(tasks.context_mask, tasks.target_mask, strict=True)}
    assert {size[0] for size in sizes} == {False, True} and len({size[1] for size in sizes}) > 5


def test_outputs_of_a_row_are_given_together_and_prefixes_come_first(table, tasks):
    for x, context, target in zip(tasks.x, tasks.context_mask, tasks.target_mask, strict=True):
        given, asked = set(x[context][:, 0]), set(x[target][:, 0])
        assert not given & asked
        if table.context == "prefix" and given:
            assert max(given) < min(asked)


def test_long_curves_are_seen_through_a_part_of_their_rows():
    curves = some_curves(5)
    long = CurveDataset(type(curves).from_pairs([(np.arange(300.0), np.arange(300.0))] * 4))
    family = long.problem().training
    tasks = draw(family, 20)
    assert family.max_rows == 128 and tasks.x.shape == (20, 128, 1)
    assert {len(set(x[:, 0])) for x in tasks.x} == {128} and len(np.unique(tasks.x)) == 300


def test_a_single_row_is_predicted_from_nothing():
    single = CurveDataset(type(some_curves()).from_pairs([([1.0], [2.0]), ([2.0], [1.0]), ([3.0], [4.0])]))
    tasks = draw(single.problem().training, 5)
    assert not tasks.context_mask.any() and tasks.target_mask.all()


def test_a_table_survives_its_file(table, tmp_path):
    save_dataset(tmp_path / "table.safetensors", table)
    again = load_dataset(tmp_path / "table.safetensors")
    for got, wanted in zip(jax.tree.leaves(again.problem()), jax.tree.leaves(table.problem()), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert again.curves.columns == table.curves.columns and again.parts["train"].names == table.parts["train"].names


def test_another_file_is_refused(tmp_path):
    from mpnp.training import checkpoint

    checkpoint.save(tmp_path / "other.safetensors", {"a": jnp.zeros(2)}, {})
    with pytest.raises(RunError, match="does not hold the curves of a run"):
        load_dataset(tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="unknown context 'suffix'"):
        CurveDataset(some_curves(), context="suffix")
