"""Completed pictures: they depend on the pixels shown alone, and are drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from helpers.image_files import DIGITS
from helpers.models import SETTINGS
from mpnp.errors import InputError
from mpnp.inference.completion import Completion, choose_pixels, complete, completion_figure, read_keep
from mpnp.models.build import build
from mpnp.nn.likelihoods.predictive import Predictive


@pytest.mark.parametrize("text, count", [("10%", 78), ("80", 80), ("0.5%", 4)])
def test_how_much_to_keep_is_a_share_or_a_number(text, count):
    assert read_keep(text, 784) == count


@pytest.mark.parametrize("text", ["0", "100%", "-3", "half", "", "%", "785", "inf%", "nan%"])
def test_a_share_that_makes_no_sense_is_refused(text):
    with pytest.raises(InputError, match="--keep must"):
        read_keep(text, 784)


@pytest.mark.parametrize("name", ["cnp", "mpanp"])
def test_a_completion_depends_on_the_pixels_shown_alone(name):
    model = build(name, key=jax.random.key(0), x_dim=2, y_dim=1, settings=SETTINGS)
    shown = choose_pixels(28, 28, 78, 0)
    image, other = DIGITS[0][..., None], np.where(shown, DIGITS[0], 255 - DIGITS[0])[..., None]
    first, second = (complete(model, picture, shown, num_samples=3) for picture in (image, other))
    np.testing.assert_array_equal(first.mean, second.mean)
    assert first.mean.shape == (28, 28, 1) and first.std.shape == (28, 28)
    np.testing.assert_allclose(first.draws.shape, (model.num_components(3), 28, 28, 1))
    figure = completion_figure({"a": first, "b": second})
    assert len(figure.axes) == 2 * (4 + (0 if name == "cnp" else 3))


def test_the_likelihood_of_pixels_shown_is_that_of_the_gaussians_predicted_there():
    shown, image = np.array([[True, False], [False, True]]), np.array([[[255], [7]], [[9], [0]]], np.uint8)
    predictive = Predictive(jnp.array([[[0.5], [9.0], [9.0], [-0.5]]]), jnp.array([[[0.1], [9.0], [9.0], [0.2]]]))
    expected = np.mean(norm.logpdf([0.5, -0.5], [0.5, -0.5], [0.1, 0.2]))
    np.testing.assert_allclose(Completion(image, shown, predictive).log_likelihood, expected, rtol=1e-6)


@pytest.mark.parametrize("height, width", [(8, 8), (4, 16)])
def test_a_figure_is_as_high_as_its_rows(height, width):
    """Panels fill the figure but for titles and labels, whatever the proportions."""
    image, shown = np.zeros((height, width, 1), np.uint8), choose_pixels(height, width, 5, 0)
    predictive = Predictive(jnp.zeros((3, height * width, 1)), jnp.ones((3, height * width, 1)))
    figure = completion_figure(dict.fromkeys("abc", Completion(image, shown, predictive)))
    figure.draw_without_rendering()
    panels = [ax.get_position() for ax in figure.axes]
    assert min(panel.y0 for panel in panels) < 0.08
    gaps = {round(above.y0 - below.y1, 3) * figure.get_figheight() for above, below in zip(panels, panels[7:], strict=False)}
    assert 0 < max(gaps) < 0.2
