"""Compiled programs are kept where the user wants them, and a second process uses them."""

import os
import subprocess
import sys

import pytest

from mpnp.io.compile_cache import cache_directory

COMPILE = """
import jax
from mpnp.io.compile_cache import keep_compiled_programs
keep_compiled_programs()
if {watch}:
    def watched(event, **_):
        if event == "/jax/compilation_cache/cache_hits":
            print("hit")
    jax.monitoring.register_event_listener(watched)
jax.jit(lambda x: jax.numpy.sin(x) @ x)(jax.numpy.ones((3, 3)))
"""


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=200
    ).stdout


def test_a_second_process_finds_what_the_first_compiled(tmp_path):
    run_python(COMPILE.format(watch=False), MPNP_CACHE=str(tmp_path / "programs"))
    assert any((tmp_path / "programs").iterdir())
    assert "hit" in run_python(COMPILE.format(watch=True), MPNP_CACHE=str(tmp_path / "programs"))


def test_a_cache_that_the_user_chose_for_jax_is_kept(tmp_path):
    code = COMPILE.format(watch=False) + "print(jax.config.values['jax_compilation_cache_dir'])"
    chosen = str(tmp_path / "chosen")
    assert run_python(code, JAX_COMPILATION_CACHE_DIR=chosen, MPNP_CACHE=str(tmp_path / "other")).strip() == chosen
    assert not (tmp_path / "other").exists()


def test_without_a_place_to_write_nothing_is_kept_and_nothing_fails(tmp_path):
    (tmp_path / "file").write_text("")
    code = COMPILE.format(watch=False) + "print(jax.config.values['jax_compilation_cache_dir'])"
    assert run_python(code, MPNP_CACHE=str(tmp_path / "file" / "below")).strip() == "None"


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"MPNP_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/mpnp"),
        ({"HOME": "/c"}, "/c/.cache/mpnp"),
    ],
)
def test_the_place_follows_the_user(environment, wanted, monkeypatch):
    for name in ("MPNP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(cache_directory()) == wanted


def test_the_cache_can_be_turned_off():
    code = COMPILE.format(watch=False) + "print(jax.config.values['jax_compilation_cache_dir'])"
    assert run_python(code, MPNP_CACHE="off").strip() == "None"
