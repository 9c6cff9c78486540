"""Logs of a run: damaged lines cost nothing but themselves, and a full disk is an error that says so."""

import os

import pytest

from helpers.training import with_recipe
from mpnp.errors import RunError
from mpnp.training.loop import train

TIMING = '{"step": 0, "cpu_seconds": 1.0, "wall_seconds": 1.0}\n{"step": 2, "cpu_seconds": 2.0, "wall_seconds": 2.0}\n'
METRICS = '{"step": 0, "validation": {"task": -1.0}}\n{"step": 2, "validation": {"task": -0.5}}\n'

DAMAGED = {
    "not UTF-8": b'{"step": 3, "cpu_seconds": \xff\xfe}\n',
    "cut short": b'{"step": 3, "cpu_sec',
    "no step": b'{"cpu_seconds": 3.0, "validation": {}}\n',
    "a step that is no number": b'{"step": "three", "cpu_seconds": 3.0, "validation": {}}\n',
    "a step of 400 digits": b'{"step": 1' + b"0" * 400 + b', "cpu_seconds": 3.0, "validation": {}}\n',
    "nothing but a step": b'{"step": 3}\n',
    "a list": b"[3]\n",
    "brackets": b"[" * 200_000 + b"\n",
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED)
def test_damaged_lines_are_left_out(run, line):
    run.path.mkdir()
    for log, content in ((run.timing, TIMING), (run.metrics, METRICS)):
        log.write_bytes(content.encode() + line)
    assert run.cpu_seconds() == 2.0
    assert [row["task"] for row in run.learning_curve()] == [-1.0, -0.5]
    run.rewind_logs(2)
    assert (run.timing.read_text(), run.metrics.read_text()) == (TIMING, METRICS)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("log", ["metrics", "timing"])
def test_a_full_disk_while_logging_is_an_error_that_says_so(run, log):
    run.path.mkdir()
    getattr(run, log).symlink_to("/dev/full")
    with pytest.raises(RunError, match=rf"cannot write .*{log}.jsonl: No space left on device; make room, then resume"):
        train(with_recipe(steps=1), run.path, quiet=True)
