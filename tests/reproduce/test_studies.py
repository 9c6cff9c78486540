"""Figures and studies of trained models, on runs that were never trained."""

import shutil

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

from helpers.image_files import write_digits, write_faces
from helpers.models import small_model, small_task
from helpers.reproduction import MadeUp, campaign_in, made_up_targets
from mpnp.bayesopt import GaussianProcess, Kernel, registry
from mpnp.datasets.prepared import store_of
from mpnp.datasets.registry import prepare
from mpnp.errors import InputError
from mpnp.evaluation.scoring import make_scorer
from mpnp.io.files import read_json
from mpnp.reproduce import figures
from mpnp.reproduce.executor import run_missing
from mpnp.reproduce.experiments import EXPERIMENTS
from mpnp.reproduce.pseudo_contexts import score_treatments, spread_of_draws
from mpnp.tasks.base import TEST_SEED, AbstractTaskFamily, fixed_tasks
from mpnp.training import checkpoint
from mpnp.training.rundir import RunDirectory

NUM_TASKS = 20


@pytest.fixture(scope="module", autouse=True)
def quick():
    """A kernel that need not be learnt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "pretrained_process", lambda: GaussianProcess(Kernel(0.5, 0.05, 0.02)))
        yield


def plant(campaign, lines):
    """Runs as training leaves them, without the training."""
    for line in lines:
        run = campaign.run(line, 0)
        directory, config = RunDirectory(campaign.directory(run)), run.config()
        directory.create(config)
        model = small_model(line.model, x_dim=config.dims[0], y_dim=config.dims[1], settings=line.settings)
        card = {"config": config.to_json(), "progress": {"best_step": 2, "cpu_seconds": 1.0}, "environment": {}}
        checkpoint.save(directory.best, model, card)


def write(name, campaign):
    lines = EXPERIMENTS[name].rows(campaign.budget)
    return [path for output in EXPERIMENTS[name].outputs for path in output(campaign, lines)]


# What pseudo contexts do


@pytest.fixture(scope="module")
def model():
    return small_model("mpnp")


class Same(AbstractTaskFamily):
    """One task again and again."""

    x_dim: int = eqx.field(static=True, default=1)
    y_dim: int = eqx.field(static=True, default=1)

    def sample(self, key):
        return small_task()


def test_treatments_are_what_they_say(model):
    source, task = fixed_tasks(Same(), TEST_SEED), small_task()
    treated = score_treatments(model, source, NUM_TASKS, 2)
    assert {len(values) for values in treated.values()} == {NUM_TASKS}
    scores = make_scorer(source, num_samples=2)(model, NUM_TASKS)
    np.testing.assert_allclose(treated["own pseudo contexts"], scores["target"], rtol=1e-4)
    np.testing.assert_allclose(treated["own pseudo contexts"], treated["those of another task"], rtol=1e-5)  # it is the same
    context_alone = model.decode(task.x, model.backbone.embed(task.context)).log_prob(task.y)
    np.testing.assert_allclose(treated["no pseudo context"], jnp.mean(context_alone, where=task.target_mask), rtol=1e-4)


def test_the_spread_of_the_draws_falls_with_the_number_of_pseudo_points(model):
    few, many = spread_of_draws(model, fixed_tasks(Same(), TEST_SEED), 4, 4, counts=(20, 2_000))
    assert (few["num_pseudo"], many["num_pseudo"]) == (20, 2_000)
    assert many["between_std"] < few["between_std"] / 3  # it falls with the root of their number


def test_only_generated_representations_can_be_borrowed():
    with pytest.raises(InputError, match="need a model that generates representations"):
        score_treatments(small_model("cnp"), fixed_tasks(Same(), TEST_SEED), 4, 2)


def test_the_study_of_pseudo_contexts_leaves_records_a_table_and_a_figure(tmp_path):
    campaign = campaign_in(tmp_path)
    lines = [line for line in EXPERIMENTS["pseudo-use"].rows(campaign.budget) if line.model == "mpnp"]
    assert write("pseudo-use", campaign) == []
    plant(campaign, lines)
    EXPERIMENTS["pseudo-use"].study(campaign, lines)
    treatments = read_json(campaign.folder / "pseudo-use/mpnp-rbf.json")["treatments"]
    assert treatments["own pseudo contexts"]["minus_own"]["mean"] == 0
    assert all(treatments[name]["minus_own"]["mean"] != 0 for name in list(treatments)[1:])
    table, source, figure = write("pseudo-use", campaign)
    assert table.read_text().count("| mpnp |") == 4 and r"\begin{tabular}" in source.read_text() and figure.is_file()


# Searches


def test_searches_leave_a_table_and_figures(tmp_path):
    campaign = campaign_in(tmp_path)
    lines = [line for line in EXPERIMENTS["bayesopt"].rows(campaign.budget) if line.model == "cnp"]
    assert write("bayesopt", campaign) == [] and EXPERIMENTS["bayesopt"].needs(campaign, lines) == lines
    plant(campaign, lines)
    EXPERIMENTS["bayesopt"].study(campaign, lines)
    shutil.rmtree(campaign.runs)  # which the records do not need any more
    assert EXPERIMENTS["bayesopt"].needs(campaign, lines) == []
    EXPERIMENTS["bayesopt"].study(campaign, lines)
    paths = write("bayesopt", campaign)
    table = paths[0].read_text()
    for objective in ("gramacy-lee", "forrester"):
        assert all(f"| {objective} | expected improvement | {name} |" in table for name in ("cnp", "gp", "random"))
        assert f"| {objective} | thompson | gp |" in table
    assert len(paths) == 8 and all(path.is_file() for path in paths)


# Figures


def test_posteriors_are_drawn_of_trained_models(tmp_path, monkeypatch):
    campaign, shown = campaign_in(tmp_path), []

    def draw(model, family, *, num_samples):
        shown.append((type(model.generator).__name__, family.y_dim, num_samples))
        return Figure()

    monkeypatch.setattr(figures, "plot_posterior", draw)
    plant(
        campaign,
        [line for line in EXPERIMENTS["direct"].rows(campaign.budget) if line.model in ("mpanp", "mpanp-dsi", "mpanp-dse")],
    )
    written = [path for name in ("posterior-samples", "direct") for path in write(name, campaign) if path.suffix == ".png"]
    assert [path.stem for path in written] == ["posterior-samples-mpanp-rbf", "direct-mpanp-dsi-rbf", "direct-mpanp-dse-rbf"]
    assert shown == [("ISAB", 1, 2), ("SimultaneousGenerator", 1, 2), ("SequentialGenerator", 1, 2)]


def test_digits_and_faces_are_completed_by_trained_models_and_faces_stay_out_of_the_results(folder, tmp_path):
    write_digits(folder)
    write_faces(folder, zipped=False)
    for name in ("mnist", "celeba"):
        prepare(name, folder)
    campaign = campaign_in(tmp_path)
    lines = [line for line in EXPERIMENTS["images"].rows(campaign.budget) if line.model in ("cnp", "mpanp")]
    plant(campaign, lines)
    written = figures.image_figures(campaign, lines)
    assert all(path.is_file() for path in written)
    assert [path.name for path in written if campaign.out in path.parents] == [
        "images-models-78.png",
        "images-models-196.png",
        "images-mpanp.png",
    ]
    assert [path.name for path in written if campaign.runs in path.parents] == [
        "images-celeba-models-102.png",
        "images-celeba-models-256.png",
        "images-celeba-mpanp.png",
    ]
    shutil.rmtree(store_of("celeba"))
    assert figures.image_figures(campaign, lines) == written[:3]


def test_figures_from_records_alone(tmp_path):
    campaign = campaign_in(tmp_path, num_seeds=2)
    for name in ("finite-data", "num-pseudo"):
        lines = [
            line for line in EXPERIMENTS[name].rows(campaign.budget) if line.model in ("cnp", "mpnp") and line.task == "rbf"
        ]
        run_missing(campaign, lines, MadeUp(), lambda text: None)
    written = figures.finite_data_figure(campaign, EXPERIMENTS["finite-data"].rows(campaign.budget)) + write(
        "num-pseudo", campaign
    )
    names = ["finite-data.png", "num-pseudo.md", "num-pseudo.tex", "num-pseudo-learning-curves.png"]
    assert [path.name for path in written] == names and all(path.is_file() for path in written)
    table = (campaign.folder / "tables/num-pseudo.md").read_text()
    # Two steps at rate 0.001 are the best validation of what is made up.
    assert [line.split(" | ")[:3] for line in table.splitlines()[4:]] == [[f"| {n}", "0.002", "0.002"] for n in (1, 10, 50)]


def test_scores_are_drawn_next_to_those_of_the_paper(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(figures, "save_figures", lambda campaign, named: drawn.update(named) or [])
    campaign = campaign_in(tmp_path, num_seeds=2)
    lines = EXPERIMENTS["regression"].rows(campaign.budget)
    assert figures.scores_figure("regression", campaign, lines) == [] and not drawn
    chosen = [line for line in lines if (line.model, line.task) == ("mpanp", "matern")]
    run_missing(campaign, chosen, MadeUp(), lambda text: None)
    figures.scores_figure("regression", campaign, lines)
    (panel,) = drawn["regression-scores"].axes
    marks = [(container.get_label(), float(container.lines[0].get_xdata()[0])) for container in panel.containers]
    ours = np.mean([made_up_targets(campaign.run(chosen[0], seed), 6).mean() for seed in range(2)])
    papers = [0.347, 0.337, 0.418, 0.481, 0.662, 0.663, 0.662, 0.692]  # its table 1, targets of Matérn
    assert [x for label, x in marks if label == "paper"] == papers
    assert [x for label, x in marks if label == "ours"] == [pytest.approx(float(ours))]
    assert [text.get_text() for text in panel.get_yticklabels()][-1] == "mpanp"
