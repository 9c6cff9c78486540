"""Laws of the martingale posterior itself: exchangeable generation, equal weights in the union, and what the losses mean."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.models import CONTEXT, NUM_SAMPLES, SETTINGS, TARGET, assert_trees_close, permute_points, small_model, small_task
from mpnp.models.backbones.base import Tokens
from mpnp.models.conditional import ConditionalNP
from mpnp.models.martingale import MartingaleNP, NumPseudoWarning, energy_score
from mpnp.tasks.task import PointSet, masked_mean

KEY = jax.random.key(11)
PSEUDO_ORDER = np.array([2, 0, 1])
REPRESENTATION_MODELS = ["mpnp", "mpanp"]
DIRECT_MODELS = ["mpnp-dsi", "mpnp-dse", "mpanp-dsi", "mpanp-dse"]
BOTH_KINDS = [*REPRESENTATION_MODELS, *DIRECT_MODELS]


def generate(model, context, noise):
    """The pseudo context, as tokens or as points."""
    given = model.backbone.embed(context) if isinstance(model, MartingaleNP) else context
    return model.generate(given, noise)


def log_likelihood(predictive, task):
    """Mean log-likelihood a point of a prediction by one function."""
    return masked_mean(predictive.component_log_prob(task.y)[0], task.mask)


@pytest.mark.parametrize("name", BOTH_KINDS)
def test_generated_pseudo_context_is_exchangeable(name):
    model, task = small_model(name), small_task()
    noise = model.draw_noise(task.context, NUM_SAMPLES, key=KEY)
    permuted = generate(model, task.context, jax.tree.map(lambda draws: draws[:, PSEUDO_ORDER], noise))
    straight = generate(model, task.context, noise)
    assert_trees_close(permuted, jax.tree.map(lambda rows: rows[:, PSEUDO_ORDER], straight), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BOTH_KINDS)
def test_generation_does_not_depend_on_context_order(name):
    model, task = small_model(name), small_task()
    noise = model.draw_noise(task.context, NUM_SAMPLES, key=KEY)
    order = np.random.default_rng(0).permutation(len(task.mask))
    permuted = generate(model, permute_points(task.context, order), noise)
    assert_trees_close(permuted, generate(model, task.context, noise), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BOTH_KINDS)
def test_generation_depends_on_the_context(name):
    model, task = small_model(name), small_task()
    noise = model.draw_noise(task.context, NUM_SAMPLES, key=KEY)
    other = generate(model, small_task(context=CONTEXT[:2]).context, noise)
    assert not np.allclose(jax.tree.leaves(other)[0], jax.tree.leaves(generate(model, task.context, noise))[0])


@pytest.mark.parametrize("name", REPRESENTATION_MODELS)
def test_union_weighs_every_token_equally(name):
    model, task = small_model(name), small_task()
    rng = np.random.default_rng(5)
    first, second = (
        Tokens(jnp.asarray(rng.normal(size=(n, model.backbone.token_dim)), jnp.float32), jnp.ones(n)) for n in (4, 3)
    )
    both = Tokens(jnp.concatenate([first.features, second.features]), jnp.ones(7))
    read = model.backbone.read
    np.testing.assert_allclose(read(task.x, first, second), read(task.x, both), rtol=1e-4, atol=1e-5)
    # One set more or fewer tokens than the other: a mean of the two sets' means would differ.
    halves = (read(task.x, first) + read(task.x, second)) / 2
    assert not np.allclose(read(task.x, both), halves, rtol=1e-3)


@pytest.mark.parametrize("name", REPRESENTATION_MODELS)
def test_token_of_weight_two_counts_as_two_tokens(name):
    model, task = small_model(name), small_task()
    features = jnp.asarray(np.random.default_rng(6).normal(size=(3, model.backbone.token_dim)), jnp.float32)
    repeated = Tokens(features[np.array([0, 1, 1, 2])], jnp.ones(4))
    weighted = Tokens(features, jnp.array([1.0, 2.0, 1.0]))
    np.testing.assert_allclose(
        model.backbone.read(task.x, weighted), model.backbone.read(task.x, repeated), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", REPRESENTATION_MODELS)
def test_marginal_loss_of_one_sample_is_the_log_likelihood_of_the_union(name):
    model, task = small_model(name), small_task()
    noise = model.draw_noise(task.context, 1, key=KEY)
    tokens = model.backbone.embed(task.context)
    real = np.flatnonzero(task.context_mask)
    union = jnp.concatenate([tokens.features[real], model.generate(tokens, noise).features[0]])
    predictive = model.decode(task.x, Tokens(union, jnp.ones(len(union))))
    np.testing.assert_allclose(model.loss_terms(task, noise)["marginal"], -log_likelihood(predictive, task), rtol=1e-5)


@pytest.mark.parametrize("name", DIRECT_MODELS)
def test_marginal_loss_of_one_direct_sample_is_the_log_likelihood_of_the_completed_context(name):
    model, task = small_model(name), small_task()
    noise = model.draw_noise(task.context, 1, key=KEY)
    pseudo = jax.tree.map(lambda leaf: leaf[0], model.generate(task.context, noise))
    real = np.flatnonzero(task.context_mask)
    completed = PointSet(
        jnp.concatenate([task.x[real], pseudo.x]), jnp.concatenate([task.y[real], pseudo.y]), jnp.ones(len(real) + 3, bool)
    )
    conditional = ConditionalNP(model.backbone, model.decoder)
    predictive = conditional.predict_given(completed, task.x, None)
    terms = model.loss_terms(task, noise)
    np.testing.assert_allclose(terms["marginal"], -log_likelihood(predictive, task), rtol=1e-4)
    fit = conditional.predict_given(completed, completed.x, None).component_log_prob(completed.y).mean()
    np.testing.assert_allclose(terms["amortisation"], -fit, rtol=1e-4)


@pytest.mark.parametrize("name", REPRESENTATION_MODELS)
def test_amortisation_loss_is_the_conditional_models_loss(name):
    model, task = small_model(name), small_task()
    noise = model.draw_noise(task.context, NUM_SAMPLES, key=KEY)
    conditional = ConditionalNP(model.backbone, model.decoder).loss_terms(task, None)["negative_log_likelihood"]
    np.testing.assert_allclose(model.loss_terms(task, noise)["amortisation"], conditional, rtol=1e-5)


@pytest.mark.parametrize("name", REPRESENTATION_MODELS)
def test_pseudo_loss_is_the_mean_over_samples(name):
    model, task = small_model(name), small_task()
    noise = model.draw_noise(task.context, NUM_SAMPLES, key=KEY)
    single = [model.loss_terms(task, noise[k : k + 1])["pseudo"] for k in range(NUM_SAMPLES)]
    np.testing.assert_allclose(model.loss_terms(task, noise)["pseudo"], np.mean(single), rtol=1e-5)


@pytest.mark.parametrize("name", REPRESENTATION_MODELS)
def test_marginal_loss_lies_between_the_best_and_the_mean_sample(name):
    model, task = small_model(name), small_task()
    noise = model.draw_noise(task.context, NUM_SAMPLES, key=KEY)
    single = [model.loss_terms(task, noise[k : k + 1])["marginal"] for k in range(NUM_SAMPLES)]
    assert min(single) <= model.loss_terms(task, noise)["marginal"] <= np.mean(single) + 1e-6


@pytest.mark.parametrize("name", BOTH_KINDS)
def test_prediction_from_the_pseudo_context_alone_ignores_no_draw(name):
    model, task = small_model(name), small_task()
    predictive = model.predict_pseudo_only(task.context, task.x[TARGET], key=KEY, num_samples=NUM_SAMPLES)
    assert predictive.loc.shape == (NUM_SAMPLES, len(TARGET), 1)
    assert np.all(predictive.between_std > 0)


@pytest.mark.parametrize("name", BOTH_KINDS)
def test_another_number_of_pseudo_points_warns_and_is_used(name):
    model, task = small_model(name), small_task()
    with pytest.warns(NumPseudoWarning, match="trained with num_pseudo=3, now 7: the spread between function draws depends"):
        other = model.with_num_pseudo(7)
    noise = other.draw_noise(task.context, NUM_SAMPLES, key=KEY)
    assert jax.tree.leaves(noise)[0].shape[1] == 7
    assert model.with_num_pseudo(3).num_pseudo == 3  # no warning: it is the trained number


@pytest.mark.parametrize("name", REPRESENTATION_MODELS)
def test_functions_of_the_pseudo_context_alone_agree_more_the_more_points_it_has(name):
    task = small_task()
    spreads = [
        small_model(name, settings=dataclasses.replace(SETTINGS, num_pseudo=num_pseudo))
        .predict_pseudo_only(task.context, task.x[TARGET], key=KEY, num_samples=200)
        .between_std.mean()
        for num_pseudo in (1, 10, 100)
    ]
    assert spreads[0] > spreads[1] > spreads[2]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_pseudo_points_of_a_sample_share_part_of_their_noise(correlation):
    model = small_model("mpnp", settings=dataclasses.replace(SETTINGS, noise_correlation=correlation))
    noise = np.asarray(model.draw_noise(small_task().context, 2_000, key=KEY))
    np.testing.assert_allclose(noise.var(axis=0), 1, atol=0.15)
    np.testing.assert_allclose((noise[:, 0] * noise[:, 1]).mean(axis=0), correlation, atol=0.1)
    np.testing.assert_allclose((noise[1:, 0] * noise[:-1, 0]).mean(axis=0), 0, atol=0.1)


def test_the_energy_score_is_that_of_the_definition():
    task, rng = small_task(), np.random.default_rng(4)
    functions = rng.normal(size=(4, *task.y.shape)).astype(np.float32)
    points, y = np.asarray(task.mask), np.asarray(task.y)

    def distance(one, other):
        return np.sqrt(((one - other)[points] ** 2).mean())

    errors = np.mean([distance(one, y) for one in functions])
    pairs = np.mean([distance(one, other) for one, other in itertools.permutations(functions, 2)])
    np.testing.assert_allclose(energy_score(jnp.asarray(functions), task), errors - pairs / 2, rtol=1e-4)


def test_the_energy_score_rewards_the_true_spread():
    task = small_task()

    def score(spread, key):
        outputs_key, functions_key = jax.random.split(key)
        drawn = dataclasses.replace(task, y=jax.random.normal(outputs_key, task.y.shape) * task.mask[:, None])
        return energy_score(spread * jax.random.normal(functions_key, (4, *task.y.shape)), drawn)

    keys = jax.random.split(KEY, 4_000)
    scores = [float(jax.vmap(lambda key: score(spread, key))(keys).mean()) for spread in (0.5, 1.0, 1.5)]  # noqa: B023
    assert scores[1] < scores[0] and scores[1] < scores[2]


def test_an_energy_weight_adds_that_term_and_changes_no_other():
    plain, task = small_model("mpanp"), small_task()
    weighted = dataclasses.replace(plain, energy_weight=0.5)
    noise = plain.draw_noise(task.context, NUM_SAMPLES, key=KEY)
    terms, more = plain.loss_terms(task, noise), weighted.loss_terms(task, noise)
    functions = weighted.predict_given(task.context, task.x, noise).loc
    np.testing.assert_allclose(more.pop("energy"), 0.5 * energy_score(functions, task), rtol=1e-4)
    assert_trees_close(more, terms, rtol=1e-6)
