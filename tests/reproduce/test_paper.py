"""The paper's numbers, as its tables print them."""

import pytest

from helpers.reproduction import tiny_budget
from mpnp.reproduce.experiments import EXPERIMENTS
from mpnp.reproduce.paper import paper_row, paper_rows


@pytest.mark.parametrize(
    ("table", "tested_on", "model", "metric", "mean", "std"),
    [
        ("regression", "rbf", "mpanp", "target", 0.881, 0.003),
        ("regression", "periodic", "np", "context", -0.267, 0.024),
        ("regression", "t-noise", "bnp", "target", -0.619, 0.191),
        ("size-matched", "matern", "banp", "task", 1.012, 0.014),
        ("4d", "rbf-4d", "anp", "target", 0.320, 0.014),
        ("images", "celeba", "mpnp", "task", 2.407, 0.006),
        ("predator-prey", "hare-lynx", "canp", "context", -4.743, 1.119),
        ("direct", "rbf", "mpanp-dse", "target", 0.783, 0.014),
    ],
)
def test_cells_of_the_paper(table, tested_on, model, metric, mean, std):
    score = paper_row(table, tested_on, model).scores[metric]
    assert (score.mean, score.std) == (mean, std)


def test_sizes_of_the_paper():
    assert paper_row("size-matched", "rbf", "banp").parameters == 885_000
    assert paper_row("regression", "rbf", "banp").parameters is None


def test_every_row_of_the_paper_has_its_line_and_the_other_way_round(any_width):
    tables = {table for table, _, _ in paper_rows()}
    wanted = {(table, line.tested_on, line.model) for table in tables for line in EXPERIMENTS[table].rows(tiny_budget())}
    assert wanted == set(paper_rows()) and len(paper_rows()) == 108


def test_what_the_paper_prints_twice_is_the_same():
    for (table, tested_on, model), row in paper_rows().items():
        if table == "direct" and (other := paper_row("regression", tested_on, model)):
            assert row == other
