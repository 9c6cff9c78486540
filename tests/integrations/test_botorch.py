"""The BoTorch model: coherence, gradients and conditioning are laws; the loop is run on a function of the literature."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("botorch", reason="needs the extra: make test-botorch")
pytestmark = pytest.mark.filterwarnings("default")  # torch and BoTorch warn about themselves

import torch
from botorch.acquisition import (
    PosteriorMean,
    qKnowledgeGradient,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
)
from botorch.exceptions.errors import UnsupportedError
from botorch.optim import optimize_acqf
from botorch.posteriors.ensemble import EnsemblePosterior

from fitted_models import fitted, some_curves
from mpnp.errors import InputError
from mpnp.fitted import FittedModel, LargeContextWarning
from mpnp.integrations.botorch import FunctionSampler, NeuralProcessModel

SOME = 5
"""Functions that stand for a posterior."""

UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


@pytest.fixture(scope="module")
def network():
    """A tiny network of random weights and two inputs, in units far from normalised ones."""
    return fitted("mpanp", some_curves(inputs=2))


def draw(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def believe(model, *, bounds=UNIT, **options):
    return NeuralProcessModel(model, draw(4, 2), 100 * draw(4, 1, seed=1), bounds=bounds, num_samples=SOME, **options)


def assert_close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


def test_points_lie_on_the_same_functions_together_and_alone_and_in_any_batch(network):
    model, x = believe(network), draw(3, 2, 2, seed=2)
    together = model.posterior(x)
    assert isinstance(together, EnsemblePosterior) and together.values.shape == (3, SOME, 2, 1)
    assert together.values.std(dim=1).min() > 0  # the functions differ, or the law would be empty
    for batch in range(3):
        for point in range(2):
            alone = model.posterior(x[batch, point : point + 1]).values
            assert_close(together.values[batch, :, point], alone[:, 0])
    assert_close(model.posterior(draw(50, 2, 2, seed=2)[:3]).values, model.posterior(draw(50, 2, 2, seed=2)).values[:3])


def test_every_batch_is_judged_by_the_same_functions_each_as_often_as_any_other(network):
    posterior = believe(network).posterior(draw(3, 2, 2, seed=2))
    samples = FunctionSampler(torch.Size([2 * SOME]))(posterior)
    torch.testing.assert_close(samples[:SOME], posterior.values.transpose(0, 1))
    torch.testing.assert_close(samples[:SOME], samples[SOME:])
    torch.testing.assert_close(samples.mean(dim=0), posterior.mean)


def test_without_bounds_it_says_what_the_fitted_model_says(network):
    rng = np.random.default_rng(3)
    x, y, asked = rng.uniform(12, 48, (6, 2)), rng.uniform(280, 320, (6, 1)), rng.uniform(12, 48, (7, 2))
    ours = NeuralProcessModel(network, torch.tensor(x), torch.tensor(y), num_samples=SOME).posterior(torch.tensor(asked))
    theirs = network.condition(x, y, num_samples=SOME)
    np.testing.assert_allclose(ours.mean[:, 0], theirs.predict(asked), rtol=1e-5)
    spread = theirs.between_std(asked) * np.sqrt(SOME / (SOME - 1))  # BoTorch divides by one less
    np.testing.assert_allclose(ours.variance[:, 0].sqrt(), spread, rtol=1e-4, atol=1e-4)


def test_neither_the_units_of_the_box_nor_those_of_the_outputs_matter(network):
    x, y, asked = draw(5, 2), draw(5, 1, seed=1), draw(3, 2, seed=2)
    plain = NeuralProcessModel(network, x, y, bounds=UNIT, num_samples=SOME).posterior(asked).values
    low, width = torch.tensor([-3.0, 400.0]), torch.tensor([0.5, 70.0])
    there = NeuralProcessModel(
        network, low + width * x, 1e4 + 250 * y, bounds=torch.stack([low, low + width]), num_samples=SOME
    ).posterior(low + width * asked)
    torch.testing.assert_close((there.values - 1e4) / 250, plain, rtol=1e-3, atol=1e-3)


def test_gradients_agree_with_finite_differences():
    """In double precision, because differences of single precision say little."""
    with jax.enable_x64(True):
        single = fitted("mpanp", some_curves(inputs=2))
        double = jax.tree.map(lambda leaf: leaf.astype(jnp.float64) if eqx.is_array(leaf) else leaf, single.network)
        model = believe(FittedModel(double, single.card))

        def everything(x, x_seen, y_seen):
            """All that a gradient may have to reach: targets, and the points of a fantasy."""
            posterior = model.condition_on_observations(x_seen, y_seen).posterior(x, observation_noise=True)
            return posterior.values

        points = draw(3, 2, 2, seed=4), draw(3, 1, 2, seed=5), 100 * draw(3, 1, 1, seed=6)
        assert torch.autograd.gradcheck(everything, tuple(part.requires_grad_() for part in points), eps=1e-6, atol=1e-4)


def test_in_single_precision_the_gradient_is_that_of_a_small_step(network):
    model, x = believe(network), draw(4, 2, seed=7).requires_grad_()
    (slope,) = torch.autograd.grad(model.posterior(x).mean.sum(), x)
    step = 1e-2
    for place in np.ndindex(*x.shape):
        ahead, behind = x.detach().clone(), x.detach().clone()
        ahead[place] += step
        behind[place] -= step
        difference = (model.posterior(ahead).mean - model.posterior(behind).mean).sum() / (2 * step)
        assert slope[place].item() == pytest.approx(difference.item(), rel=0.1, abs=0.5)


def test_conditioning_is_the_same_as_having_known(network):
    x, y = draw(9, 2), 100 * draw(9, 1, seed=1)
    asked = draw(3, 2, seed=2)
    whole = NeuralProcessModel(network, x, y, num_samples=SOME).posterior(asked).values
    parts = NeuralProcessModel(network, x[:4], y[:4], num_samples=SOME).condition_on_observations(x[4:], y[4:])
    assert_close(parts.posterior(asked).values, whole)
    with_bounds = NeuralProcessModel(network, x[:4], y[:4], bounds=UNIT, num_samples=SOME)
    assert with_bounds.condition_on_observations(x[4:], y[4:]).units is with_bounds.units


def test_fantasies_are_a_batch_of_models_each_with_its_own_observations(network):
    model, x, asked = believe(network), draw(3, 1, 2, seed=8), draw(4, 3, 2, 2, seed=9)
    fantasies = model.fantasize(x, FunctionSampler(torch.Size([4])))
    assert fantasies.batch_shape == (4, 3)
    values = fantasies.posterior(asked).values
    assert values.shape == (4, 3, SOME, 2, 1)
    imagined = model.posterior(x, observation_noise=True).values
    for fantasy, batch in np.ndindex(4, 3):
        alone = model.condition_on_observations(x[batch], imagined[batch, fantasy]).posterior(asked[fantasy, batch])
        assert_close(values[fantasy, batch], alone.values)
    assert_close(fantasies.posterior(asked[0, 0]).values[1, 2], fantasies.posterior(asked[:1, :1]).values[1, 2])


def test_noise_is_each_functions_own_and_the_same_in_every_call(network):
    model, x = believe(network), draw(2, 3, 2, seed=2)
    quiet, noisy = (model.posterior(x, observation_noise=noise).values for noise in (False, True))
    _, scale = model._functions(x)
    multiples = (noisy - quiet) / scale
    torch.testing.assert_close(multiples[0], multiples[1], rtol=1e-3, atol=1e-3)
    assert_close(model.posterior(x[:, :2], observation_noise=True).values, noisy[..., :2, :])
    assert multiples.std() > 0.3


def test_a_model_of_one_function_has_no_spread():
    model = NeuralProcessModel(fitted("canp"), draw(3, 1), draw(3, 1, seed=1), bounds=UNIT[:, :1])
    assert model.posterior(draw(2, 1)).values.shape == (1, 2, 1)
    assert (model.posterior(draw(2, 1)).variance == 0).all()


def test_nothing_known_is_a_context_too(network):
    nothing = NeuralProcessModel(network, torch.empty(0, 2), torch.empty(0, 1), bounds=UNIT, num_samples=SOME)
    assert nothing.posterior(draw(2, 2)).values.isfinite().all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bounds": UNIT.flip(0)}, "lower bound must be below the upper"),
        ({"bounds": UNIT[:, :1]}, "bounds are of 1 inputs, but the model reads 2"),
        ({"bounds": UNIT[0]}, "bounds must have shape"),
        ({"train_X": draw(4, 3)}, "the model reads 2 inputs"),
        ({"train_Y": draw(4)}, "Y must have shape"),
        ({"train_Y": draw(4, 1) * np.nan}, "leave out evaluations that failed"),
        ({"num_samples": 0}, "num_samples must be at least 1"),
        ({"model": fitted("mpanp", some_curves(outputs=2))}, "choose a model of one output"),
    ],
)
def test_what_it_cannot_read_it_refuses(network, arguments, message):
    given = {"model": network, "train_X": draw(4, 2), "train_Y": draw(4, 1), "bounds": UNIT}
    with pytest.raises(InputError, match=message):
        NeuralProcessModel(**{**given, **arguments})


def test_it_has_one_output_and_knows_its_own_noise(network):
    model = believe(network)
    assert model.num_outputs == 1 and model.subset_output([0]) is model
    with pytest.raises(InputError, match="one output"):
        model.posterior(draw(2, 2), output_indices=[1])
    with pytest.raises(UnsupportedError, match="observation_noise=True"):
        model.posterior(draw(2, 2), observation_noise=draw(2, 1))
    with pytest.warns(LargeContextWarning, match="more than the 10"):
        model.condition_on_observations(draw(7, 2), draw(7, 1))


# The loop


def forrester(x):
    return -((6 * x - 2) ** 2) * torch.sin(12 * x - 4)


ACQUISITIONS = {
    "qLogEI": lambda model, y: qLogExpectedImprovement(model, best_f=y.max()),
    "qLogNEI": lambda model, y: qLogNoisyExpectedImprovement(model, model.train_X),
    "qKG": lambda model, y: qKnowledgeGradient(model, num_fantasies=4, sampler=FunctionSampler(torch.Size([4]))),
}


@pytest.mark.parametrize(("name", "q"), [("qLogEI", 2), ("qLogNEI", 2), ("qKG", 1)])
def test_the_maximum_is_found_sooner_than_by_chance(name, q):
    torch.manual_seed(0)
    bounds = UNIT[:, :1]
    x = torch.tensor([[0.05], [0.3], [0.95]], dtype=torch.float64)
    budget = 6
    while len(x) < 3 + budget:
        model = NeuralProcessModel("mpanp-rbf", x, forrester(x), bounds=bounds, num_samples=16)
        acquisition = ACQUISITIONS[name](model, forrester(x))
        new, _ = optimize_acqf(acquisition, bounds, q=q, num_restarts=2, raw_samples=16, options={"maxiter": 8})
        x = torch.cat([x, new])
    by_chance = forrester(draw(2_000, budget, 1)).amax(dim=1).mean()
    assert forrester(x).max() > by_chance
    # Where the model now expects the maximum, there it is: at 0.7572, where the function is 6.0207.
    model = NeuralProcessModel("mpanp-rbf", x, forrester(x), bounds=bounds, num_samples=16)
    best, _ = optimize_acqf(PosteriorMean(model), bounds, q=1, num_restarts=2, raw_samples=16)
    assert best.item() == pytest.approx(0.7572, abs=0.05)
