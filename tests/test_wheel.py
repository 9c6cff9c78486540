"""The package as users install it: a wheel, in an environment that has no source of mpnp."""

import json
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile

import pytest

from helpers.documents import ROOT

MOST_BYTES = 12_000_000

TRIAL = """
import json, warnings
from importlib.metadata import version
import mpnp
from mpnp.explore.document import render
posterior = mpnp.load("cnp-rbf").condition([0.0, 1.0], [0.5, -0.5])
print(json.dumps([version("mpnp"), mpnp.__file__, float(posterior.predict([0.0])[0]), len(render({}, alone=True))]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = f"from hatchling.build import build_wheel; build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """An empty environment with the wheel. Its requirements are those of this one, which are found after its own packages."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    python = folder / "bin" / "python"
    install = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "requirements.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def run(environment, *command):
    settings = {"PATH": "", "MPNP_CACHE": "off", "HOME": str(environment)}
    done = subprocess.run(
        [environment / "bin" / command[0], *command[1:]], cwd=environment, env=settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_small(wheel):
    assert wheel.stat().st_size < MOST_BYTES


def test_the_extras_are_those_that_the_page_of_installation_lists(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        metadata = archive.read(name).decode()
    listed = (line.split("|")[1] for line in (ROOT / "docs" / "install.md").read_text().splitlines() if line.startswith("| `"))
    assert set(re.findall(r"^Provides-Extra: (.+)$", metadata, flags=re.MULTILINE)) == set(
        re.findall(r"`(\w+)`", "".join(listed))
    )


def test_the_installed_package_has_its_models_and_its_page(environment, wheel):
    version, file, value, page = json.loads(run(environment, "python", "-c", TRIAL).splitlines()[-1])
    assert version in wheel.name and file.startswith(str(environment))
    assert abs(value) < 2 and page > 10_000


def test_the_installed_command_starts(environment):
    assert run(environment, "mpnp", "--version").startswith("mpnp 0.")
    assert "curves" in run(environment, "mpnp", "info", "curves")
