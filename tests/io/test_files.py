"""Files are written whole or not at all, and a full disk is an error that names the file."""

import os
import resource

import pytest

from mpnp.errors import RunError
from mpnp.io.files import MOST_BYTES, read_json, write_atomically, write_json

LIMIT = 100_000


@pytest.fixture
def full_disk():
    """Writing beyond the limit fails as on a full disk, and leaves the rest of the process alone."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("chunk", [1000, 3 * LIMIT], ids=["from a buffer", "at once"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(chunk, tmp_path, full_disk):
    path = tmp_path / "record.json"
    write_json(path, {"score": 1})
    before = path.read_bytes()
    with pytest.raises(RunError, match=r"cannot write .*record.json: File too large"):
        write_atomically(path, lambda file: file.writelines([bytes(chunk)] * (3 * LIMIT // chunk)))
    assert os.listdir(tmp_path) == ["record.json"] and path.read_bytes() == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_noticed_even_if_all_fits_into_the_buffer(tmp_path, monkeypatch):
    monkeypatch.setattr("mpnp.io.files._open_temporary", lambda path: (os.open("/dev/full", os.O_WRONLY), str(path) + ".tmp"))
    with pytest.raises(RunError, match=r"cannot write .*record.json: No space left on device"):
        write_json(tmp_path / "record.json", {"score": 1})


def test_pipes_devices_and_directories_are_not_replaced(tmp_path):
    """Root may replace anything, and then /dev/null is a file on the whole machine."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/null")
    (tmp_path / "directory").mkdir()
    before = {path.name: os.lstat(path).st_ino for path in tmp_path.iterdir()}
    for name in before:
        with pytest.raises(RunError, match=f"cannot write .*{name}: it is not a file"):
            write_json(tmp_path / name, {"score": 1})
    assert {path.name: os.lstat(path).st_ino for path in tmp_path.iterdir()} == before


def test_what_might_never_end_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "device.json").symlink_to("/dev/zero")
    (tmp_path / "large.json").touch()
    os.truncate(tmp_path / "large.json", MOST_BYTES + 1)  # a hole, which takes no room
    for name, reason in {"pipe": "is not a file", "device": "is not a file", "large": "more than the 268,435,456"}.items():
        with pytest.raises(RunError, match=f"{name}.json .*{reason}"):
            read_json(tmp_path / f"{name}.json")
