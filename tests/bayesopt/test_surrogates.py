"""Surrogates: the Gaussian process against its textbook posterior, the network against its own predictions."""

import numpy as np
import pytest

from helpers.bayesopt import PROCESS
from helpers.fitted_models import fitted, of_surfaces
from mpnp.bayesopt import NeuralProcessSurrogate, Optimizer, ResamplingSurrogate, learn_kernel
from mpnp.errors import InputError
from mpnp.inference.ood import LargeContextWarning
from mpnp.inference.prediction import Prediction
from mpnp.tables.points import context_points, target_inputs
from mpnp.tasks.base import FunctionFamily
from mpnp.tasks.gaussian_process import GaussianProcessPrior, RBFPrior
from mpnp.tasks.protocol import MOST_SURFACE_INPUTS


def test_the_gaussian_process_is_the_textbook_posterior():
    rng = np.random.default_rng(0)
    x, z, candidates = rng.random((3, 6, 2)), rng.normal(size=(3, 6)), rng.random((9, 2))
    means, stds = PROCESS.moments(x, z, candidates, np.arange(3))
    draws = PROCESS.draw(*(np.repeat(part[:1], 4_000, axis=0) for part in (x, z)), candidates, np.arange(4_000))

    def kernel(a, b):
        return np.array([[np.exp(-np.sum((p - q) ** 2) / (2 * 0.15**2)) for q in b] for p in a])

    for loop in range(3):
        inverse = np.linalg.inv(kernel(x[loop], x[loop]) + 0.02**2 * np.eye(6))
        cross = kernel(candidates, x[loop])
        covariance = kernel(candidates, candidates) - cross @ inverse @ cross.T
        np.testing.assert_allclose(means[loop], cross @ inverse @ z[loop], atol=1e-9)
        np.testing.assert_allclose(stds[loop], np.sqrt(np.diag(covariance)), atol=1e-7)
        if loop == 0:
            np.testing.assert_allclose(draws.mean(axis=0), means[0], atol=0.08)
            np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.08)


def test_the_kernel_that_generated_the_tasks_is_learnt_from_them():
    family = FunctionFamily(GaussianProcessPrior(RBFPrior(length=(0.4, 0.4), scale=(0.7, 0.7)), noise_std=0.05), max_points=24)
    kernel = learn_kernel(family, num_tasks=48, seed=3)
    assert kernel.amplitude == pytest.approx(0.7, rel=0.15)
    assert kernel.length == pytest.approx(0.4 / 4, rel=0.1)  # the family's box is four wide
    assert kernel.noise == pytest.approx(0.05, rel=0.15)
    assert learn_kernel(family, num_tasks=48, seed=3) == kernel


def test_answers_do_not_depend_on_what_else_is_asked_along(network):
    rng = np.random.default_rng(1)
    x, z, candidates = rng.random((3, 4, 1)), rng.normal(size=(3, 4)), np.linspace(0, 1, 5)[:, None]
    surrogate, seeds = NeuralProcessSurrogate(network, num_samples=3), np.array([5, 6, 7])
    together = surrogate.moments(x, z, candidates, seeds)
    for loop in range(3):
        alone = surrogate.moments(*(part[loop : loop + 1] for part in (x, z)), candidates, seeds[loop : loop + 1])
        for part, whole in zip(alone, together, strict=True):
            np.testing.assert_allclose(part[0], whole[loop], rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="got 1 contexts and 2 seeds"):
        network.predictor(3).many([context_points(network.card.columns, x[0], z[0][:, None])], [candidates], seeds=[1, 2])


def test_the_network_is_asked_in_its_own_units(network):
    x, z = np.array([[[0.1], [0.4], [0.9]]]), np.array([[-1.0, 0.2, 1.1]])
    candidates = np.linspace(0, 1, 5)[:, None]
    surrogate = NeuralProcessSurrogate(network, num_samples=3)
    mean, std = surrogate.moments(x, z, candidates, np.array([7]))
    card = network.card
    low, high = card.seen.low, card.seen.high
    context = context_points(card.columns, low + x[0] * (high - low), card.columns.decode_outputs(z[0][:, None]))
    wanted = network.predictor(3)(context, target_inputs(card.columns, low + candidates * (high - low)), seed=7)
    np.testing.assert_allclose(mean[0], wanted.mean[:, 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(std[0], wanted.std[:, 0], rtol=1e-4, atol=1e-5)


def test_a_function_drawn_is_one_of_the_network_and_its_seed_decides(network):
    x, z, candidates = np.array([[[0.1], [0.9]]] * 2), np.array([[-1.0, 1.0]] * 2), np.linspace(0, 1, 5)[:, None]
    surrogate = NeuralProcessSurrogate(network, num_samples=3)
    first, second = surrogate.draw(x, z, candidates, np.array([1, 2]))
    again, other = surrogate.draw(x, z, candidates, np.array([2, 1]))
    np.testing.assert_array_equal([first, second], [other, again])
    assert np.abs(first - second).max() > 1e-3


def test_resampled_functions_differ_where_those_of_a_conditional_network_do_not():
    network = fitted("cnp")
    x, z, candidates = np.array([[[0.1], [0.9]]] * 2), np.array([[-1.0, 1.0]] * 2), np.linspace(0, 1, 5)[:, None]
    seeds = np.array([1, 2])
    own, resampled = (kind(network).draw(x, z, candidates, seeds) for kind in (NeuralProcessSurrogate, ResamplingSurrogate))
    np.testing.assert_array_equal(own[0], own[1])
    assert np.abs(resampled[0] - resampled[1]).max() > 1e-3
    (again,) = ResamplingSurrogate(network).draw(x[:1], z[:1], candidates[2:], seeds[:1])
    np.testing.assert_allclose(again, resampled[0, 2:], rtol=1e-4, atol=1e-5)  # one function, wherever it is read


def test_more_points_than_training_showed_are_warned_of(network):
    optimizer = Optimizer(network, (0, 1))
    for x in np.linspace(0, 1, 11):
        optimizer.tell(x, x)
    with pytest.warns(LargeContextWarning, match="more points than the 10"):
        optimizer.ask()


def test_a_model_of_surfaces_searches_fewer_inputs_with_the_others_at_zero(network):
    """The answer is that of the model to points whose other inputs are 0."""
    surfaces = of_surfaces()
    surrogate, rng = NeuralProcessSurrogate(surfaces, num_samples=2), np.random.default_rng(2)
    x, z, candidates = rng.random((1, 5, 2)), rng.normal(size=(1, 5)), rng.random((4, 2))
    surrogate.require_inputs(2)
    mean, std = surrogate.moments(x, z, candidates, np.array([3]))

    def padded(points):
        return np.pad(4 * points - 2, ((0, 0), (0, MOST_SURFACE_INPUTS - 2)))

    columns = surfaces.card.columns
    context, targets = context_points(columns, padded(x[0]), z[0][:, None]), target_inputs(columns, padded(candidates))
    (answer,) = surfaces.network_forecaster.predictor(2).many([context], [targets], seeds=[3])
    prediction = Prediction.decode(answer, columns)
    np.testing.assert_allclose(mean[0], prediction.mean[:, 0], atol=1e-5)
    np.testing.assert_allclose(std[0], prediction.std[:, 0], atol=1e-5)
    with pytest.raises(InputError, match="the bounds have 7 inputs, but the model reads 6"):
        surrogate.require_inputs(7)
    with pytest.raises(InputError, match="the bounds have 2 inputs, but the model reads 1"):
        NeuralProcessSurrogate(network).require_inputs(2)
