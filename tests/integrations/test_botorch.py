"""The BoTorch model: coherence, gradients and conditioning are laws; the loop is run on a function of the literature."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("botorch", reason="needs the extra: make test-botorch")
pytestmark = pytest.mark.filterwarnings("default")  # torch and BoTorch warn about themselves

import torch
from botorch.acquisition import (
    qKnowledgeGradient,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms.input import Normalize
from botorch.optim import optimize_acqf
from botorch.posteriors.ensemble import EnsemblePosterior
from botorch.sampling.normal import SobolQMCNormalSampler
from scipy.stats import laplace, norm

from helpers.documents import code_blocks
from helpers.fitted_models import fitted, some_curves
from mpnp.errors import InputError
from mpnp.inference.model import FittedModel
from mpnp.inference.ood import LargeContextWarning
from mpnp.integrations.botorch import FunctionSampler, NeuralProcessModel
from mpnp.nn.likelihoods.gaussian import Gaussian
from mpnp.nn.likelihoods.laplace import Laplace

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


@pytest.mark.parametrize("distribution, standard", [(Gaussian(), norm), (Laplace(), laplace)], ids=["gaussian", "laplace"])
def test_without_bounds_it_says_what_the_fitted_model_says(network, distribution, standard):
    decoder = dataclasses.replace(network.network.decoder, distribution=distribution)
    network = FittedModel(eqx.tree_at(lambda model: model.decoder, network.network, decoder), network.card)
    rng = np.random.default_rng(3)
    x, y, asked = rng.uniform(12, 48, (6, 2)), rng.uniform(280, 320, (6, 1)), rng.uniform(12, 48, (7, 2))
    many = 400
    ours = NeuralProcessModel(network, torch.tensor(x), torch.tensor(y), num_samples=many).posterior(torch.tensor(asked))
    theirs = network.condition(x, y, num_samples=many).prediction(asked)
    # The same functions, each at a distance from its mean that is the same at all points.
    distances = (ours.values.numpy() - theirs.loc) / theirs.scale
    np.testing.assert_allclose(distances, np.broadcast_to(distances[:, :1], distances.shape), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(np.sort(distances[:, 0, 0]), standard.ppf((np.arange(many) + 0.5) / many), atol=0.05)
    # So mean and standard deviation are those of the mixture.
    np.testing.assert_allclose(ours.mean.numpy(), theirs.mean, atol=0.05 * theirs.std.max())
    np.testing.assert_allclose(ours.variance.sqrt().numpy(), theirs.std, rtol=0.1)


def test_neither_the_units_of_the_box_nor_those_of_the_outputs_matter(network):
    x, y, asked = draw(5, 2), draw(5, 1, seed=1), draw(3, 2, seed=2)
    plain = NeuralProcessModel(network, x, y, bounds=UNIT, num_samples=SOME).posterior(asked).values
    low, width = torch.tensor([-3.0, 400.0]), torch.tensor([0.5, 70.0])
    there = NeuralProcessModel(
        network, low + width * x, 1e4 + 250 * y, bounds=torch.stack([low, low + width]), num_samples=SOME
    ).posterior(low + width * asked)
    torch.testing.assert_close((there.values - 1e4) / 250, plain, rtol=1e-3, atol=1e-3)


def test_gradients_agree_with_finite_differences(network):
    """In double precision, because differences of single precision say little."""
    with jax.enable_x64(True):
        weights = jax.tree.map(lambda leaf: leaf.astype(jnp.float64) if eqx.is_array(leaf) else leaf, network.network)
        model = believe(FittedModel(weights, network.card))

        def everything(x, x_seen, y_seen):
            """All that a gradient may have to reach: targets, and the points of a fantasy."""
            return model.condition_on_observations(x_seen, y_seen).posterior(x, observation_noise=True).values

        points = draw(3, 2, 2, seed=4), draw(3, 1, 2, seed=5), 100 * draw(3, 1, 1, seed=6)
        assert torch.autograd.gradcheck(everything, [part.requires_grad_() for part in points], eps=1e-6, atol=1e-4)


def test_conditioning_is_the_same_as_having_known(network):
    x, y = draw(9, 2), 100 * draw(9, 1, seed=1)
    asked = draw(3, 2, seed=2)
    whole = NeuralProcessModel(network, x, y, num_samples=SOME).posterior(asked).values
    parts = NeuralProcessModel(network, x[:4], y[:4], num_samples=SOME).condition_on_observations(x[4:], y[4:])
    assert_close(parts.posterior(asked).values, whole)
    with_bounds = NeuralProcessModel(network, x[:4], y[:4], bounds=UNIT, num_samples=SOME)
    assert with_bounds.condition_on_observations(x[4:], y[4:])._y_scale is with_bounds._y_scale


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


def test_a_sobol_sampler_chooses_functions_the_same_in_all_batches(network):
    model, x = believe(network), draw(3, 2, 2, seed=8)
    sampler = SobolQMCNormalSampler(torch.Size([SOME * 4]), seed=0)
    posterior = model.posterior(x)
    samples = sampler(posterior)
    assert samples.shape == (SOME * 4, 3, 2, 1)
    chosen = [int((posterior.values == sample[:, None]).all(dim=(0, 2, 3)).nonzero().item()) for sample in samples]
    assert sorted(set(chosen)) == list(range(SOME)) and max(map(chosen.count, chosen)) <= 6
    assert_close(sampler(model.posterior(x[:1])), samples[:, :1])
    assert model.fantasize(x, sampler).batch_shape == (SOME * 4, 3)


def test_a_posterior_is_scaled_by_botorchs_transform(network):
    model, x = believe(network), draw(3, 2, 2, seed=8)
    transform = ScalarizedPosteriorTransform(weights=torch.tensor([-2.0], dtype=torch.float64), offset=3.0)
    assert_close(model.posterior(x, posterior_transform=transform).values, 3 - 2 * model.posterior(x).values)


def test_an_input_transform_comes_before_everything_else(network):
    transform = Normalize(2, bounds=torch.tensor([[0.0, -10.0], [2.0, 10.0]], dtype=torch.float64))
    raw = transform.untransform(draw(4, 2))
    model = NeuralProcessModel(network, raw, 100 * draw(4, 1, seed=1), bounds=UNIT, input_transform=transform, num_samples=SOME)
    x = draw(3, 2, 2, seed=8)
    assert_close(model.posterior(transform.untransform(x)).values, believe(network).posterior(x).values)
    more, y = draw(1, 2, seed=5), draw(1, 1, seed=6)
    later = model.condition_on_observations(transform.untransform(more), y).posterior(transform.untransform(x))
    assert_close(later.values, believe(network).condition_on_observations(more, y).posterior(x).values)


def test_noise_is_independent_from_point_to_point_and_the_same_in_every_call(network):
    model, x = believe(network), draw(2, 3, 2, seed=2)
    noisy = model.posterior(x, observation_noise=True).values
    loc, scale = model._functions(x)
    multiples = (noisy - loc) / scale
    torch.testing.assert_close(multiples[0], multiples[1], rtol=1e-3, atol=1e-3)
    assert multiples[0].std(dim=1).min() > 0.1
    assert_close(model.posterior(x[:, :2], observation_noise=True).values, noisy[..., :2, :])


def test_a_model_of_one_function_has_the_spread_of_its_band():
    conditional = fitted("canp")
    x, y, asked = 12 + 30 * draw(3, 1), 300 + draw(3, 1, seed=1), 12 + 30 * draw(2, 1)
    posterior = NeuralProcessModel(conditional, x, y, num_samples=SOME).posterior(asked)
    assert posterior.values.shape == (SOME, 2, 1)
    spread = posterior.variance.sqrt()[:, 0] * np.sqrt((SOME - 1) / SOME)  # BoTorch divides by one less
    np.testing.assert_allclose(spread, conditional.condition(x.numpy(), y.numpy()).predict(asked.numpy(), "std"), rtol=1e-4)


def test_nothing_known_is_a_context_too(network):
    nothing = NeuralProcessModel(network, torch.empty(0, 2), torch.empty(0, 1), bounds=UNIT, num_samples=SOME)
    assert nothing.posterior(draw(2, 2)).values.isfinite().all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bounds": UNIT.flip(0)}, "lower bound must be below the upper"),
        ({"bounds": UNIT[:, :1]}, "the bounds have 1 inputs, but the model reads 2"),
        ({"bounds": UNIT[0]}, "bounds must have shape"),
        ({"train_X": draw(4, 3)}, "the model reads 2 inputs"),
        ({"train_Y": draw(4)}, "Y must have shape"),
        ({"train_Y": draw(4, 1) * np.nan}, "leave out evaluations that failed"),
        ({"num_samples": 0}, "num_samples must be a whole number of at least 1"),
        ({"model": fitted("mpanp", some_curves(outputs=2))}, "choose a model with one output"),
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
}
KNOWN = torch.tensor([[0.05], [0.3], [0.6], [0.95]], dtype=torch.float64)


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_acquisitions_of_batches_are_climbed(name):
    bounds = UNIT[:, :1]
    model = NeuralProcessModel("mpanp-rbf", KNOWN, forrester(KNOWN), bounds=bounds, num_samples=16)
    acquisition = ACQUISITIONS[name](model, forrester(KNOWN))
    pairs = draw(32, 2, 1)
    values = acquisition(pairs).detach()
    starts = pairs[values.topk(2).indices]
    new, value = optimize_acqf(
        acquisition, bounds, q=2, num_restarts=2, batch_initial_conditions=starts, options={"maxiter": 6}
    )
    assert new.shape == (2, 1) and ((new >= bounds[0]) & (new <= bounds[1])).all()
    assert value >= values.max() - 1e-4
    torch.testing.assert_close(acquisition(new[None])[0], value, rtol=1e-3, atol=1e-3)


def test_the_knowledge_gradient_is_climbed_through_its_fantasies():
    bounds, num_fantasies = UNIT[:, :1], 4
    model = NeuralProcessModel("mpanp-rbf", KNOWN, forrester(KNOWN), bounds=bounds, num_samples=16)
    acquisition = qKnowledgeGradient(model, num_fantasies)  # with BoTorch's Sobol sampler
    starts = draw(4, 1 + num_fantasies, 1).requires_grad_()
    values = acquisition(starts)
    (slopes,) = torch.autograd.grad(values.sum(), starts)
    assert (slopes[:, 0] != 0).all()  # the candidate matters through what would be observed there
    options = {"maxiter": 8}
    candidate, value = optimize_acqf(
        acquisition, bounds, q=1, num_restarts=4, batch_initial_conditions=starts.detach(), options=options
    )
    assert candidate.shape == (1, 1) and value > values.max()


def test_the_batch_of_the_docs_is_chosen():
    (block,) = code_blocks("docs/botorch.md", "python")
    names = {}
    exec(block, names)
    candidates = names["candidates"]
    assert candidates.shape == (2, 1) and candidates.min() >= 0 and candidates.max() <= 1
