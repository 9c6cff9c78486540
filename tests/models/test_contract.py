"""Laws that every model obeys. A new model is one row in the registry and inherits them all."""

import dataclasses
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import models
from helpers.models import (
    CONTEXT,
    NUM_SAMPLES,
    NUM_SLOTS,
    SETTINGS,
    TARGET,
    assert_trees_close,
    loss_and_gradient,
    loss_given,
    permute_noise,
    permute_points,
    predict_given,
    small_task,
)
from mpnp.errors import InputError
from mpnp.models.bootstrap import BootstrapNP
from mpnp.models.conditional import ConditionalNP
from mpnp.models.direct import DirectMartingaleNP
from mpnp.models.neural_bootstrap import NeuralBootstrapNP
from mpnp.models.registry import BACKBONES, CONDITIONAL, LIKELIHOODS, MODELS, ModelEntry
from mpnp.tasks.task import PointSet, Task
from mpnp.training import checkpoint

KEY = jax.random.key(7)
loss_of = eqx.filter_jit(loss_given)
terms_of = eqx.filter_jit(lambda model, task, noise: model.loss_terms(task, noise))
predict_with = eqx.filter_jit(lambda model, context, x, key: model.predict(context, x, key=key, num_samples=NUM_SAMPLES))
ORDER = np.random.default_rng(3).permutation(NUM_SLOTS)
RESAMPLING = (BootstrapNP, NeuralBootstrapNP)

# A new backbone is one file and one row, and so are a new mechanism and a new likelihood.
TOY_LIKELIHOODS = {"logistic": "helpers.toy_likelihood:Logistic"}
TOY_BACKBONES = {"kernel": "helpers.toy_backbone:KernelBackbone"}
TOY_MODELS = {
    "toy-kernel": ModelEntry(CONDITIONAL, "kernel", 0, "Conditional kernel smoother", "none"),
    "toy-noise": ModelEntry("helpers.toy_mechanism:PerturbedNP.assemble", "pooled", 0, "Perturbed NP", "Gaussian noise"),
    "toy-kernel-noise": ModelEntry("helpers.toy_mechanism:PerturbedNP.assemble", "kernel", 0, "Both", "Gaussian noise"),
}

OTHER_LIKELIHOODS = [
    f"{name}+{likelihood}" for likelihood in (*LIKELIHOODS, *TOY_LIKELIHOODS) for name in ("canp", "mpanp-dse")
]

pytestmark = pytest.mark.parametrize("name", [*MODELS, *TOY_MODELS, *OTHER_LIKELIHOODS])


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    for registry, rows in ((BACKBONES, TOY_BACKBONES), (LIKELIHOODS, TOY_LIKELIHOODS), (MODELS, TOY_MODELS)):
        for row, value in rows.items():
            monkeypatch.setitem(registry, row, value)


def small_model(name, **dims):
    name, _, likelihood = name.partition("+")
    return models.small_model(name, settings=dataclasses.replace(SETTINGS, likelihood=likelihood or "gaussian"), **dims)


def draw_noise(model, task, num_samples=NUM_SAMPLES):
    return model.draw_noise(task.context, num_samples, key=KEY)


def test_prediction_does_not_depend_on_context_order(name):
    model, task = small_model(name), small_task()
    noise = draw_noise(model, task)
    straight = predict_given(model, task.context, task.x, noise)
    permuted = predict_given(model, permute_points(task.context, ORDER), task.x, permute_noise(model, noise, ORDER))
    assert_trees_close(permuted, straight, rtol=1e-4, atol=1e-5)


def test_loss_does_not_depend_on_the_order_of_points(name):
    model, task = small_model(name), small_task()
    noise = draw_noise(model, task)
    permuted = loss_and_gradient(model, permute_points(task, ORDER), permute_noise(model, noise, ORDER))
    assert_trees_close(permuted, loss_and_gradient(model, task, noise), rtol=1e-3, atol=1e-5)


def test_resampling_does_not_depend_on_context_order_in_distribution(name):
    model, task = small_model(name), small_task()
    if not isinstance(model, RESAMPLING):
        # Draws of the other mechanisms belong to no point, so the same key must give the same numbers.
        permuted = permute_points(task.context, ORDER)
        assert_trees_close(draw_noise(model, Task(task.x, task.y, permuted.mask, ~permuted.mask)), draw_noise(model, task))
        return
    num_samples = 4000
    means, errors = [], []
    for context, key in ((task.context, KEY), (permute_points(task.context, ORDER), jax.random.key(8))):
        draws = predict_given(model, context, task.x[TARGET], model.draw_noise(context, num_samples, key=key)).loc
        means.append(draws.mean(axis=0))
        errors.append(draws.var(axis=0) / num_samples)
    assert np.all(np.abs(means[0] - means[1]) <= 5 * np.sqrt(errors[0] + errors[1]) + 1e-6)


def test_the_loss_of_one_draw_is_a_sum_over_the_points_asked(name):
    model, task = small_model(name), small_task()
    noise = draw_noise(model, task, num_samples=1)
    parts = [
        task.with_loss_weights(mask) for mask in (task.context_mask, task.target_mask, task.mask, jnp.zeros_like(task.mask))
    ]
    context, target, whole, nothing = (
        {term: value * part.loss_count for term, value in terms_of(model, part, noise).items()} for part in parts
    )
    # What remains when nothing is asked, such as a latent's prior against its posterior, is in every part.
    for term in whole.keys() - ({"amortisation"} if isinstance(model, DirectMartingaleNP) else set()):
        np.testing.assert_allclose(context[term] + target[term], whole[term] + nothing[term], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("junk", [1e6, np.nan, np.inf])
def test_padded_points_have_no_effect_on_loss_or_gradient(name, junk):
    model, clean, dirty = small_model(name), small_task(), small_task(junk=junk)
    noise = draw_noise(model, clean)
    assert_trees_close(loss_and_gradient(model, dirty, noise), loss_and_gradient(model, clean, noise), rtol=0)


def test_more_padding_changes_no_number(name):
    model, tasks = small_model(name), (small_task(), small_task(num_slots=NUM_SLOTS + 5, junk=np.nan))
    noises = [draw_noise(model, task) for task in tasks]
    short, long = loss_and_gradient(model, tasks[0], noises[0])[0], loss_of(model, tasks[1], noises[1])
    np.testing.assert_allclose(long, short, rtol=1e-4)
    short, long = (predict_given(model, task.context, tasks[0].x, noise) for task, noise in zip(tasks, noises, strict=True))
    assert_trees_close(long, short, rtol=1e-4, atol=1e-5)


def test_targets_have_no_effect_on_the_prediction(name):
    model, task = small_model(name), small_task()
    noise = draw_noise(model, task)
    other = Task(task.x, task.y.at[TARGET].add(5.0), task.context_mask, task.target_mask)
    assert_trees_close(
        predict_given(model, other.context, task.x, noise), predict_given(model, task.context, task.x, noise), rtol=0
    )


def test_target_predictions_are_equivariant_and_independent_of_other_targets(name):
    model, task = small_model(name), small_task()
    noise = draw_noise(model, task)
    everything = predict_given(model, task.context, task.x, noise)
    chosen = np.array([8, 1, 5])
    some = predict_given(model, task.context, task.x[chosen], noise)
    assert_trees_close(some, jax.tree.map(lambda leaf: leaf[:, chosen], everything), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("context", [CONTEXT, CONTEXT[:1], CONTEXT[:0]], ids=["four points", "one point", "empty"])
def test_loss_and_every_gradient_are_finite(name, context):
    model, task = small_model(name), small_task(context=context)
    result = loss_and_gradient(model, task, draw_noise(model, task))
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(result))


def test_every_parameter_gets_a_gradient(name):
    model, task = small_model(name), small_task()
    _, gradient = loss_and_gradient(model, task, draw_noise(model, task))
    silent = [
        jax.tree_util.keystr(path)
        for path, leaf in jax.tree_util.tree_leaves_with_path(gradient)
        # A key's bias shifts all scores of a query alike, which softmax ignores.
        if not jnp.any(leaf) and "key_projection.bias" not in jax.tree_util.keystr(path)
    ]
    assert silent == []


def test_context_of_no_rows_predicts_as_an_empty_mask_does(name):
    model, task = small_model(name), small_task(context=CONTEXT[:0])
    nothing = PointSet.observed(np.zeros((0, 1), np.float32), np.zeros((0, 1), np.float32))
    got, wanted = (predict_with(model, context, task.x, KEY) for context in (nothing, task.context))
    assert_trees_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_compiled_batches_agree_with_one_task_at_a_time(name):
    model, tasks = small_model(name), [small_task(), small_task(context=CONTEXT[:2]), small_task(context=CONTEXT[:0])]
    noises = [draw_noise(model, task) for task in tasks]
    batch, noise_batch = (jax.tree.map(lambda *leaves: jnp.stack(leaves), *items) for items in (tasks, noises))
    batched = jax.jit(jax.vmap(lambda task, noise: loss_given(model, task, noise)))(batch, noise_batch)
    single = [loss_and_gradient(model, task, noise)[0] for task, noise in zip(tasks, noises, strict=True)]
    np.testing.assert_allclose(batched, jnp.stack(single), rtol=1e-5)


def test_the_key_decides_every_draw(name):
    model, task = small_model(name), small_task()
    first, again, other = (predict_with(model, task.context, task.x, key) for key in (KEY, KEY, jax.random.key(8)))
    assert_trees_close(again, first, rtol=0)
    assert bool(jnp.all(other.loc == first.loc)) == isinstance(model, ConditionalNP)


def test_dtype_is_preserved(name):
    dtype = jnp.float64

    def everything(model, task):
        predictive = model.predict(task.context, task.x, key=KEY, num_samples=NUM_SAMPLES)
        return (
            model.loss(task, key=KEY, num_samples=NUM_SAMPLES),
            predictive,
            loss_and_gradient(model, task, draw_noise(model, task)),
        )

    given = small_model(name), small_task()
    with jax.enable_x64(True):
        model, task = jax.tree.map(lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, given)
        results = eqx.filter_eval_shape(everything, model, task)
        assert {leaf.dtype for leaf in jax.tree.leaves(results)} == {np.dtype(dtype)}


def test_saved_and_loaded_model_gives_the_same_numbers(name, tmp_path: Path):
    model, task = small_model(name), small_task()
    checkpoint.save(tmp_path / "model.safetensors", model, {})
    loaded, _ = checkpoint.load(tmp_path / "model.safetensors", jax.tree.map(jnp.zeros_like, model))
    noise = draw_noise(model, task)
    assert_trees_close(
        predict_given(loaded, task.context, task.x, noise), predict_given(model, task.context, task.x, noise), rtol=0
    )


def test_any_dimensions_work(name):
    model = small_model(name, x_dim=4, y_dim=3)
    task = Task(jnp.zeros((6, 4)), jnp.zeros((6, 3)), jnp.arange(6) < 3, jnp.arange(6) >= 3)
    (loss, _), predictive = eqx.filter_eval_shape(
        lambda: (
            model.loss(task, key=KEY, num_samples=NUM_SAMPLES),
            model.predict(task.context, task.x, key=KEY, num_samples=NUM_SAMPLES),
        )
    )
    assert (model.x_dim, model.y_dim) == (4, 3)
    assert loss.shape == ()
    assert predictive.loc.shape == (1 if isinstance(model, ConditionalNP) else NUM_SAMPLES, 6, 3)


def test_standard_deviations_respect_their_floor(name):
    model, task = small_model(name), small_task()
    predictive = predict_given(model, task.context, 100 * task.x, draw_noise(model, task))
    assert predictive.scale.min() * predictive.distribution.std >= SETTINGS.sigma_min * (1 - 1e-6)


def test_wrong_shapes_are_named(name):
    model, task = small_model(name), small_task()
    wide = PointSet.observed(np.zeros((2, 3)), np.zeros((2, 1)))
    with pytest.raises(InputError, match="reads 1 input and 1 output dimensions, but the context has 3 and 1"):
        model.predict(wide, task.x, key=KEY)
    with pytest.raises(InputError, match=r"x_target must have shape \(targets, 1\), got \(5,\)"):
        model.predict(task.context, jnp.zeros(5), key=KEY)
    with pytest.raises(InputError, match="num_samples must be a whole number of at least 1"):
        model.predict(task.context, task.x, key=KEY, num_samples=0)
