"""A directory in use is left to its process; a kill gives it free, and its temporary files go with the next write."""

import os
import signal
import subprocess
import sys

import pytest

from mpnp.errors import RunError
from mpnp.io import locks
from mpnp.io.files import write_atomically
from mpnp.io.locks import exclusive

HOLD = """
from pathlib import Path
from mpnp.io.locks import exclusive

with exclusive(Path({path!r})):
    print(flush=True)
    input()
"""

WRITE = """
from pathlib import Path
from mpnp.io.files import write_atomically

def write(file):
    file.write(b"half")
    file.flush()
    print(flush=True)
    input()

write_atomically(Path({path!r}), write)
"""


@pytest.fixture
def process():
    """Start a process that stops where it waits for input."""
    started = []

    def start(code, path):
        child = subprocess.Popen(
            [sys.executable, "-c", code.format(path=str(path))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(child)
        assert child.stdout.readline() == b"\n"
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def kill(child):
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def test_a_directory_has_one_process_until_it_ends_or_is_killed(process, tmp_path):
    child = process(HOLD, tmp_path)
    with pytest.raises(RunError, match=f"{tmp_path} is in use by another process"), exclusive(tmp_path):
        pass
    kill(child)
    with exclusive(tmp_path):
        assert list(tmp_path.iterdir()) == []
    assert not tmp_path.exists()


def test_a_lock_makes_its_directory_and_keeps_what_is_in_it(tmp_path):
    with exclusive(tmp_path / "new" / "run"):
        (tmp_path / "new" / "run" / "file").touch()
    assert (tmp_path / "new" / "run" / "file").exists()


def test_a_directory_that_was_removed_while_it_was_being_locked_is_made_and_locked_again(tmp_path, monkeypatch):
    directory, lock = tmp_path / "run", locks.lock

    def lock_what_is_removed(handle):
        monkeypatch.setattr(locks, "lock", lock)
        directory.rmdir()
        lock(handle)

    monkeypatch.setattr(locks, "lock", lock_what_is_removed)
    with exclusive(directory):
        assert directory.is_dir()
        with pytest.raises(RunError, match="in use by another process"), exclusive(directory):
            pass


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"cannot write .*file/run: Not a directory"), exclusive(tmp_path / "file" / "run"):
        pass


def test_what_a_killed_write_left_goes_with_the_next_one_but_not_what_is_being_written(process, tmp_path):
    path = tmp_path / "file"
    killed, living = (process(WRITE, path) for _ in range(2))
    kill(killed)
    assert len(os.listdir(tmp_path)) == 2
    write_atomically(path, lambda file: file.write(b"whole"))
    assert len(os.listdir(tmp_path)) == 2 and path.read_bytes() == b"whole"
    living.communicate(b"\n")
    assert living.returncode == 0 and os.listdir(tmp_path) == ["file"] and path.read_bytes() == b"half"
