"""Attempts on Ray: imports in workers, full disks in workers, and two pipelines on one cluster."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import PATIENCE
from number_plans import make_plan, run
from strandline.engine.call.setup import PackageMissingError
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode

pytestmark = pytest.mark.usefixtures("local_ray")

TWO_PIPELINES = """
import sys, pathlib
import engine_stages
from number_plans import make_plan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig

plan = make_plan(engine_stages.Spread(), name=sys.argv[1])
config = AttemptConfig(plan, pathlib.Path(sys.argv[2]), address=sys.argv[3])
sys.exit(0 if run_attempt(config).standing.finished == 10 else 1)
"""


def test_a_stage_that_workers_cannot_import_ends_the_run_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far_away.py").write_text(
        "from strandline import Stage\n\n\n"
        "class Far(Stage):\n    def process(self, task):\n        return task\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    far = importlib.import_module("far_away").Far()

    with pytest.raises(PackageMissingError, match="'stage-0' can't be set up in a worker: it nee"):
        run(make_plan(far), tmp_path, "ray")


def test_a_full_disk_in_a_sink_worker_ends_the_run_and_loses_nothing(tmp_path: Path) -> None:
    fault = {"env_vars": {"STRANDLINE_FAULT": "output.written:enospc:3"}}

    with pytest.raises(VolumeError, match="no space is left on the volume"):
        run(make_plan(env=fault), tmp_path, "ray")

    # The next attempt runs without Ray and shows that nothing was lost.
    assert run(make_plan(env={}), tmp_path, "inline").code == ExitCode.COMPLETE


# Starts two drivers. In the first tier, test_scaler.py shows that workers wait for free CPUs.
@pytest.mark.more
def test_two_pipelines_share_a_ray_cluster_and_nothing_else(local_ray: str, tmp_path: Path) -> None:
    drivers = [
        subprocess.Popen(
            [sys.executable, "-c", TWO_PIPELINES, name, str(tmp_path), local_ray],
            cwd=Path(__file__).parent,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]

    errors = [driver.communicate(timeout=PATIENCE)[1] for driver in drivers]

    assert [driver.returncode for driver in drivers] == [0, 0], errors
    for name in ("one", "two"):
        folder = PipelineFolder.on_volume(tmp_path, "default", name)
        assert len(list(folder.output.rglob("*.txt"))) == 25
