"""What one expects of objects: short names, pairs of mean and standard deviation, figures of tasks, bounded memory."""

import numpy as np
import pandas as pd
import pytest

from helpers.fitted_models import fitted, renamed, some_curves
from mpnp.errors import InputError
from mpnp.inference import predictor
from mpnp.inference.posterior import Draws


@pytest.fixture(scope="module")
def model():
    return fitted("mpnp")


def test_objects_say_what_they_are_in_a_line(model):
    posterior = model.condition([12.0, 30.0], [300.0, 310.0])
    assert repr(model) == "FittedModel(mpnp: y given x)"
    assert repr(posterior) == "Posterior(mpnp: y given x; 2 observed rows)"
    assert repr(Draws(np.arange(11.0))) == "Draws(11 draws; mean 5, 90% interval 0.5 to 9.5)"
    assert repr(Draws(np.zeros((4, 2)))) == "Draws(4 draws of shape (2,))"
    assert repr(Draws(np.array([np.nan]))) == "Draws(1 draws)"


def test_mean_and_standard_deviation_come_as_a_pair(model):
    posterior = model.condition([12.0, 30.0], [300.0, 310.0])
    mean, std = posterior.predict([20.0, 40.0], return_std=True)
    np.testing.assert_array_equal(mean, posterior.predict([20.0, 40.0]))
    np.testing.assert_array_equal(std, posterior.predict([20.0, 40.0], "std"))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_figure_shows_several_tasks_with_one_legend():
    model = fitted("cnp", renamed(some_curves(outputs=2), ("x",), ("a", "b"), "task"))
    frame = pd.DataFrame({"task": ["u", "u", "v"], "x": [12.0, 20.0, 30.0], "a": 300.0, "b": 300.0})
    figure = model.figure(frame, num_draws=2)
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title() for ax in shown] == ["u", "u", "v", "v"] and len(figure.legends) == 1
    assert len(model.figure([([12.0], [[300.0, 310.0]])] * 3, most=2, num_draws=2).axes) == 6
    with pytest.raises(InputError, match="no task to plot"):
        model.figure([])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_plot_has_a_legend(model):
    assert model.condition([12.0], [300.0]).plot(num_draws=2).get_legend() is not None


def test_chunks_agree_with_the_whole(model):
    """Predictions of many rows are those of the rows one part after another."""
    context = ([12.0, 30.0], [300.0, 310.0])
    x = np.linspace(11, 47, 5_000)
    whole = model.condition(*context).prediction(x)
    assert model.predictor(32).targets_at_once == predictor.ROWS_AT_ONCE // 32 < len(x)
    for rows in (slice(0, 100), slice(2_000, 2_100), slice(4_900, None)):
        part = model.condition(*context).prediction(x[rows])
        np.testing.assert_allclose(part.mixture.loc, whole.mixture.loc[:, rows], atol=1e-4)
        np.testing.assert_allclose(part.quantiles([0.1, 0.9]), whole.quantiles([0.1, 0.9])[rows], rtol=1e-4)
