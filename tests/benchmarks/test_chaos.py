"""The chaos campaign sees what it must see, and its kills come where they should."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from chaos import ChaosError, contents, require_same

from mpnp.io.tensors import save_named

KILLED = """
import sys
from pathlib import Path
from chaos_child import killer

place = Path(sys.argv[1])
sys.addaudithook(killer(int(sys.argv[2]), place, [0]))
for number in range(4):
    (place.parent / "elsewhere").write_text("")
    (place / str(number)).write_text("")
"""


@pytest.fixture
def place(tmp_path):
    save_named(tmp_path / "weights.safetensors", {"w": np.ones(3)}, {"step": 1, "cpu_seconds": 2.0})
    (tmp_path / "table.md").write_text("| model | score | CPU-s |\n| cnp | 1 | 3 |\n")
    (tmp_path / "table.tex").write_text("cnp & 1 & 3 \\\\\n")
    (tmp_path / "record.json").write_text(json.dumps({"score": 1, "wall_seconds": 3.0, "parts": [{"cpu_seconds": 1}]}))
    return tmp_path


def test_times_make_no_difference(place):
    before = contents(place)
    save_named(place / "weights.safetensors", {"w": np.ones(3)}, {"step": 1, "cpu_seconds": 9.0})
    (place / "record.json").write_text(json.dumps({"score": 1, "wall_seconds": 4.0, "parts": [{"cpu_seconds": 5}]}))
    (place / "table.md").write_text("| model | score | CPU-s |\n| cnp | 1 | 4 |\n")
    (place / "table.tex").write_text("cnp & 1 & 4 \\\\\n")
    require_same(contents(place), before)


FAULTS = {
    "a lost file": (lambda place: (place / "record.json").unlink(), "record.json is missing"),
    "a leftover": (lambda place: (place / ".record.json.x.tmp").touch(), ".record.json.x.tmp is left over"),
    "a number": (lambda place: (place / "record.json").write_text('{"score": 2}'), "record.json differs"),
    "a score": (
        lambda place: (place / "table.md").write_text("| model | score | CPU-s |\n| cnp | 2 | 3 |\n"),
        "table.md differs",
    ),
    "a weight": (lambda place: save_named(place / "weights.safetensors", {"w": np.zeros(3)}, {"step": 1}), "weights.* differs"),
}


@pytest.mark.parametrize(("fault", "message"), FAULTS.values(), ids=FAULTS)
def test_every_fault_is_named(fault, message, place):
    before = contents(place)
    fault(place)
    with pytest.raises(ChaosError, match=message):
        require_same(contents(place), before)


@pytest.mark.parametrize(("change", "left"), [(1, []), (3, ["0", "1"]), (9, ["0", "1", "2", "3"])])
def test_a_process_is_killed_just_before_a_change_of_its_directory(change, left, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", KILLED, str(place), str(change)], env=environment, timeout=200)
    assert done.returncode == (0 if change == 9 else -signal.SIGKILL) and sorted(os.listdir(place)) == left
