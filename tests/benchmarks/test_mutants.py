"""The list of mutants fits the code, and each fate is told from the others."""

import dataclasses
import math
import re
from pathlib import Path

import pytest
from mutants import BROKEN, KILLED, ROOT, SICK, STALE, SURVIVED, Laboratory, Mutant, read_mutants, try_all

MUTANTS = read_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_of_the_code_and_names_tests_that_exist(mutant):
    source = (ROOT / "src" / "mpnp" / mutant.file).read_text()
    assert source.count(mutant.old) == 1 and mutant.applied_to(source) != source
    for test in mutant.tests:
        path, _, function = re.sub(r"\[.*", "", test).partition("::")
        assert f"def {function}" in (ROOT / path).read_text()


def test_names_are_unique_and_all_parts_of_the_core_are_there():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
    parts = {mutant.file.split("/")[0] for mutant in MUTANTS}
    assert parts >= {
        "nn",
        "models",
        "tasks",
        "datasets",
        "tables",
        "training",
        "evaluation",
        "inference",
        "reproduce",
        "bayesopt",
    }


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory):
    """A package of one function, and a test of it."""
    root = tmp_path_factory.mktemp("project")
    (root / "copy" / "adder").mkdir(parents=True)
    (root / "copy" / "adder" / "__init__.py").write_text("def add(a, b):\n    return a + b\n")
    (root / "test_adder.py").write_text("import adder\n\n\ndef test_add():\n    assert adder.add(1, 0) == 1\n")
    return Laboratory(root, root / "copy", "adder")


@pytest.mark.parametrize(
    ("old", "new", "tests", "verdict"),
    [
        ("a + b", "a * b", ["test_adder.py"], KILLED),
        ("a + b", "a - b", ["test_adder.py"], SURVIVED),
        ("a / b", "a - b", ["test_adder.py"], STALE),
        ("a", "b", ["test_adder.py"], STALE),
        ("a + b", "a * b", ["test_adder.py::test_gone"], BROKEN),
    ],
)
def test_fates_are_told_apart_and_the_copy_is_whole_again(laboratory, old, new, tests, verdict):
    copy = Path(laboratory.source / "adder" / "__init__.py")
    before = copy.read_text()
    got, _ = laboratory.run(Mutant("some", "__init__.py", old, new, tests, "a mistake"))
    assert (got, copy.read_text()) == (verdict, before)


def test_the_last_line_counts_and_says_where_to_go_on(laboratory, capsys):
    mutants = [Mutant(name, "__init__.py", "a + b", "a * b", ["test_adder.py"], "a mistake") for name in ("one", "two")]
    assert try_all(laboratory, mutants, math.inf) == {"one": KILLED, "two": KILLED}
    assert capsys.readouterr().out.splitlines()[-1] == "2 killed of 2 tried, 2 wanted"
    assert try_all(laboratory, mutants, -1) == {}
    assert capsys.readouterr().out == "0 killed of 0 tried, 2 wanted (time is up; go on with --first one)\n"
    survivor = dataclasses.replace(mutants[1], new="a - b")
    assert try_all(laboratory, [mutants[0], survivor], math.inf) == {"one": KILLED, "two": SURVIVED}
    assert capsys.readouterr().out.splitlines()[-1] == "1 killed of 2 tried, 2 wanted"


def test_tests_that_fail_anyway_kill_nothing(laboratory, capsys):
    (laboratory.root / "test_wrong.py").write_text("def test_wrong():\n    assert False\n")
    mutant = Mutant("one", "__init__.py", "a + b", "a * b", ["test_wrong.py"], "a mistake")
    assert try_all(laboratory, [mutant], math.inf) == {"one": SICK}
    assert "test_wrong.py fails without any mutant" in capsys.readouterr().out
