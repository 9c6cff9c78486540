"""Jobs spread by Ray, on a local instance: the same records as one after another."""

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: make test-ray installs and tests it")

from helpers.reproduction import campaign_in  # noqa: E402
from mpnp.reproduce.executor import (  # noqa: E402
    SequentialEngine,
    find_engine,
    run_missing,
)
from mpnp.reproduce.experiments import EXPERIMENTS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, of which there are many


@pytest.fixture(scope="module", autouse=True)
def local_ray():
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_records_do_not_depend_on_the_engine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # workers have a working directory of their own
    found = {}
    for name, engine in (("here", SequentialEngine()), ("there", find_engine("ray"))):
        campaign = campaign_in(tmp_path / name)
        lines = [line for line in EXPERIMENTS["regression"].rows(campaign.budget) if (line.model, line.task) == ("cnp", "rbf")]
        said = []
        run_missing(campaign, lines, engine, said.append)
        assert len(said) == 1 and campaign.missing_runs(lines) == []
        found[name] = campaign.record(lines[0], 0)
    np.testing.assert_array_equal(found["here"].target, found["there"].target)
    assert found["here"].score["scores"] == found["there"].score["scores"]
    assert [row["task"] for row in found["here"].curve] == [row["task"] for row in found["there"].curve]
