"""Pictures: one panel for each thing to see, drawn from the model and the family alone, and written whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg

from helpers.models import small_model
from mpnp.bayesopt.figures import regret_figure
from mpnp.errors import InputError, RunError
from mpnp.plotting.posterior import PosteriorCurve, draw_posterior, tasks_figure
from mpnp.plotting.style import save_figure
from mpnp.plotting.tasks import CONTEXT_SIZES, plot_posterior
from mpnp.tasks.base import TEST_SEED, AbstractProcess, AbstractTaskFamily, FunctionFamily, fixed_tasks
from mpnp.tasks.task import Task


class Trials(AbstractTaskFamily):
    """Something a user might have: four measurements to go by and three to come, of an effect that grows with its dose."""

    x_dim: int = 1
    y_dim: int = 1

    def sample(self, key):
        dose_key, effect_key = jax.random.split(key)
        dose = jax.random.uniform(dose_key, (7, self.x_dim))
        effect = jax.random.normal(effect_key) * dose.sum(axis=1, keepdims=True)
        is_context = jnp.arange(7) < 4
        return Task(dose, effect, is_context, ~is_context)


class Circles(AbstractProcess):
    """Points on a circle of random size: a function with two outputs."""

    def __call__(self, x, key):
        return jax.random.normal(key) * jnp.concatenate([jnp.cos(x), jnp.sin(x)], axis=1)


TRIALS = Trials()
CIRCLES = FunctionFamily(process=Circles(), y_dim=2)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def draw(name, family, **options):
    model = small_model(name, x_dim=family.x_dim, y_dim=family.y_dim)
    return plot_posterior(model, family, num_samples=2, **options)


def grid(figure):
    """The panels as the figure arranges them."""
    spec = figure.axes[0].get_gridspec()
    assert len(figure.axes) == spec.nrows * spec.ncols
    return np.reshape(figure.axes, (spec.nrows, spec.ncols))


def pixels(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())


def labels(ax):
    return ax.get_legend_handles_labels()[1]


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("cnp", ["posterior"]),
        ("mpnp", ["posterior", "from the pseudo context alone"]),
        ("mpnp-dsi", ["posterior", "from the pseudo context alone", "generated points (x′, y′)"]),
    ],
)
def test_a_model_has_a_column_for_everything_it_can_show(name, titles):
    panels = grid(draw(name, TRIALS))
    assert [ax.get_title() for ax in panels[0]] == titles
    assert len(panels) == len(CONTEXT_SIZES) == 3
    draws = 2 if name != "cnp" else 0
    assert sum(line.get_color() == "#f16913" for line in panels[0, 0].lines) == draws
    assert ("function draws" in labels(panels[0, 0])) == bool(draws)


def curves(ax):
    """What the lines of a panel run through, by their labels."""
    return {line.get_label(): np.asarray(line.get_xydata(), np.float32) for line in ax.lines}


def test_a_panel_shows_a_test_task_and_the_models_prediction_of_it():
    panels = grid(draw("cnp", TRIALS))
    assert [ax.get_ylabel() for ax in panels[:, 0]] == ["4 context points"] * 3
    for number, ax in enumerate(panels[:, 0]):
        task = TRIALS.sample(fixed_tasks(TRIALS, TEST_SEED).task_key(jnp.asarray(number)))
        shown = curves(ax)
        for label, mask in (("context", task.context_mask), ("truth", task.target_mask)):
            np.testing.assert_allclose(shown[label], np.concatenate([task.x[mask], task.y[mask]], axis=1), rtol=1e-6)
        predictive = small_model("cnp").predict(task.context, jnp.asarray(shown["mean"][:, :1]), key=jax.random.key(0))
        np.testing.assert_allclose(shown["mean"][:, 1:], predictive.mean, rtol=1e-4, atol=1e-5)


def test_each_output_has_a_row_of_its_own():
    panels = grid(draw("cnp", CIRCLES))
    wanted = [f"{size} context points\noutput {output}" for size in CONTEXT_SIZES for output in (1, 2)]
    assert [ax.get_ylabel() for ax in panels[:, 0]] == wanted
    cosine, sine = (curves(ax)["truth"] for ax in panels[:2, 0])
    np.testing.assert_allclose(np.tan(cosine[:, 0]), sine[:, 1] / cosine[:, 1], rtol=1e-3)


def test_many_inputs_are_drawn_as_prediction_against_truth():
    panels = grid(draw("cnp", Trials(x_dim=4)))
    assert panels.shape == (3, 1)
    for ax in panels[:, 0]:
        assert ax.get_xlabel() == "truth"
        assert set(labels(ax)) == {"mean ± 2 std", "equal"}
        (bars,) = ax.containers
        assert bars[0].get_xydata().shape == (3, 2)


def test_the_seed_decides_every_pixel():
    first, again, other = (pixels(draw("mpnp", TRIALS, seed=seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("ending", ["png", "PNG"])
def test_a_saved_picture_shows_what_was_drawn(ending, tmp_path):
    path = tmp_path / "new" / f"picture.{ending}"
    save_figure(draw("cnp", TRIALS), path)
    image = plt.imread(path, format="png")
    assert image.ndim == 3 and min(image.shape[:2]) > 300
    ink = (image[..., :3] < 0.9).any(axis=-1)
    assert 0.01 < ink.mean() < 0.9
    assert list(path.parent.iterdir()) == [path]
    assert not plt.get_fignums()


@pytest.mark.parametrize("name", ["picture.xyz", "picture", "png"])
def test_an_ending_that_names_no_format_is_refused(name, tmp_path):
    with pytest.raises(InputError, match=r"must end in one of .*\.png"):
        save_figure(plt.figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"cannot write .*picture.png"):
        save_figure(plt.figure(), tmp_path / "file" / "picture.png")


NAMES = ["price in $ per $", r"$\bad$", "$", "a_b^c", r"\$\frac"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_columns_are_shown_as_they_are(name):
    """Between dollar signs, matplotlib expects mathematics, which it refuses if it does not understand it."""
    line = np.linspace(0, 1, 5)
    curve = PosteriorCurve(line, line, line - 1, line + 1, np.zeros((0, 5)), (line[:2], line[:2]), (name, name))
    assert pixels(tasks_figure({name: [curve]})).any()
    ax = draw_posterior(curve, plt.figure().add_subplot())  # a figure of the user's, with its own style
    assert ax.get_xlabel() == ax.get_ylabel() == name and pixels(ax.figure).any()


@pytest.mark.parametrize("name", NAMES)
def test_names_of_models_are_shown_as_they_are_beside_powers_of_ten(name):
    record = {
        "simple_regret": [[1.0, 0.1, 0.001]],
        "settings": {"objective": "forrester", "acquisition": "thompson", "num_trials": 1},
    }
    assert pixels(regret_figure({name: record})).any()
