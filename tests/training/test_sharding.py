"""A run spread over several devices, or over several processes, is the run of one device up to rounding."""

import json
import os
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from mpnp.cli import main
from mpnp.training import checkpoint, sharding
from mpnp.training.rundir import RunDirectory, load_model

TRAIN = [
    *("train", "--model", "mpnp", "--task", "rbf", "--steps", "3", "--batch-size", "8", "--num-samples", "2"),
    *("--validate-every", "3", "--validation-tasks", "4", "--checkpoint-every", "3", "--width", "8", "--num-heads", "2"),
    *("--encoder-depth", "1", "--decoder-depth", "1", "--num-pseudo", "2"),
]


def start(out, *options, host_devices=1, settings=()):
    """A real process: the number of host devices is fixed when JAX starts."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={host_devices}"
    # Devices of one host wait for each other in threads of one pool, which must therefore hold more than all of them.
    environment = {**os.environ, "XLA_FLAGS": flags, "NPROC": "8", "JAX_PLATFORMS": "cpu", **dict(settings)}
    command = [sys.executable, "-m", "mpnp", *TRAIN, "--out", str(out), *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(*processes):
    try:
        outputs = [process.communicate(timeout=240)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output
    return outputs


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    directory = tmp_path_factory.mktemp("alone") / "run"
    finish(start(directory))
    return RunDirectory(directory)


def assert_same_run(run, other):
    rows, others = ([json.loads(line) for line in r.metrics.read_text().splitlines()] for r in (run, other))
    assert [row["step"] for row in rows] == [row["step"] for row in others]
    for row, expected in zip(rows, others, strict=True):
        flat, wanted = (np.array([*r.get("validation", r).values()]) for r in (row, expected))
        np.testing.assert_allclose(flat, wanted, rtol=1e-4)
    (model, *_), (expected, *_) = load_model(run.path), load_model(other.path)
    for leaf, wanted in zip(jax.tree.leaves(model), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(leaf, wanted, rtol=1e-3, atol=1e-5)
    assert checkpoint.read_card(run.last)["progress"]["step"] == 3


def test_four_devices_train_as_one_does(alone, tmp_path):
    (output,) = finish(start(tmp_path / "run", host_devices=4))
    assert "training on 4 x cpu\n" in output
    assert_same_run(RunDirectory(tmp_path / "run"), alone)


def test_two_processes_train_as_one_does(alone, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    shared = ["--coordinator", address, "--num-processes", "2"]
    outputs = finish(*(start(tmp_path / "run", *shared, "--process-id", str(number)) for number in range(2)))
    assert all("training on 2 x cpu in 2 processes\n" in output for output in outputs)
    assert_same_run(RunDirectory(tmp_path / "run"), alone)


def slurm_job():
    """A job number, from which JAX derives the port that the processes meet at, so that this port is free."""
    for job in range(1, 100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", 61_440 + job)) != 0:
                return job
    raise RuntimeError("all ports are taken")


def test_processes_of_a_slurm_job_find_each_other(alone, tmp_path):
    job = {"SLURM_JOB_ID": str(slurm_job()), "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}
    ranks = [{**job, "SLURM_PROCID": str(number)} for number in range(2)]
    outputs = finish(*(start(tmp_path / "run", "--distributed", settings=rank) for rank in ranks))
    assert all("training on 2 x cpu in 2 processes\n" in output for output in outputs)
    assert_same_run(RunDirectory(tmp_path / "run"), alone)


COUNT_DEVICES = """
import sys
from mpnp.training import sharding

sharding._num_cores = lambda: int(sys.argv[1])
sharding.split_cpu(int(sys.argv[2]))

import jax

print(jax.device_count())
"""


@pytest.mark.parametrize(
    ("cores", "batch_size", "settings", "expected"),
    [
        (2, 256, {}, 2),
        (8, 256, {}, 4),
        (8, 64, {}, 1),
        (1, 256, {}, 1),
        (2, 256, {"JAX_NUM_CPU_DEVICES": "3"}, 3),
        (2, 256, {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}, 3),
    ],
    ids=["a core each", "enough tasks each", "a small batch", "one core", "JAX was told", "XLA was told"],
)
def test_cores_become_devices_where_a_batch_is_large_enough(cores, batch_size, settings, expected):
    command = [sys.executable, "-c", COUNT_DEVICES, str(cores), str(batch_size)]
    run = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=True, timeout=200)
    assert int(run.stdout) == expected


def test_cores_stay_as_they_are_once_jax_has_started(monkeypatch):
    before = jax.device_count(), os.environ.get("NPROC")
    monkeypatch.setattr(sharding, "_num_cores", lambda: 2 * before[0])
    sharding.split_cpu(1_024)
    assert (jax.device_count(), os.environ.get("NPROC")) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--coordinator", "localhost:1"], "--process-id together"),
        (["--coordinator", "localhost:1", "--distributed"], "leave out --coordinator"),
        (["--distributed"], "the other processes of this job were not found"),
        (["--coordinator", "localhost:1", "--num-processes", "2", "--process-id", "2"], "process_id must lie between 0 and"),
    ],
)
def test_processes_that_make_no_sense_are_refused(options, message, tmp_path, capsys):
    assert main([*TRAIN, "--out", str(tmp_path / "run"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
