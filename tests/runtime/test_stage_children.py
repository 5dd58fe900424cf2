"""Processes that a stage starts neither delay a run nor outlive the run."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
import yaml

import child_stages as children
from jobs import PATIENCE, Job, find_driver
from number_plans import make_plan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode
from waiting import wait_until

pytestmark = pytest.mark.first(reason="starts drivers and workers")

GONE_SECONDS = 30.0


def run(
    folder: Path, kinds: Sequence[str], engine: str = "processes", *, is_killed: bool
) -> AttemptResult:
    stage = children.Parent(kinds=tuple(kinds), folder=str(folder), is_killed=is_killed)
    return run_attempt(AttemptConfig(make_plan(stage), folder / "volume", engine=engine, workers=2))


def find_children(folder: Path) -> list[psutil.Process]:
    """Return the living children of a stage."""
    pids = [int(path.read_text()) for path in folder.glob("child-*")]
    return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]


def list_left(folder: Path) -> list[psutil.Process]:
    """Return the children that have not ended after a while."""
    return psutil.wait_procs(find_children(folder), timeout=GONE_SECONDS)[1]


@pytest.mark.parametrize("kind", ["fork", "session", "native"])
def test_law_a_child_of_a_killed_worker_does_not_delay_the_run(kind: str, tmp_path: Path) -> None:
    outcome = run(tmp_path, [kind], is_killed=True)
    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, 10)
    assert len(outcome.incidents) == 1
    assert list_left(tmp_path) == []


@pytest.mark.usefixtures("local_ray")
def test_law_a_fork_of_a_killed_worker_on_ray_does_not_delay_the_run(tmp_path: Path) -> None:
    outcome = run(tmp_path, ["fork"], "ray", is_killed=True)
    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, 10)
    for left in find_children(tmp_path):
        left.kill()


def test_law_no_child_of_a_worker_outlives_the_run(tmp_path: Path) -> None:
    assert run(tmp_path, [*children.STARTS], is_killed=False).code is ExitCode.COMPLETE
    assert len(list(tmp_path.glob("child-*"))) == len(children.STARTS)
    assert list_left(tmp_path) == []


def make_job(folder: Path, engine: str, kinds: Sequence[str], *, is_hanging: bool) -> Job:
    parent = {"kinds": list(kinds), "folder": str(folder), "is_hanging": is_hanging}
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "children"},
        "spec": {
            "source": {"use": "engine_stages:Numbers", "with": {"count": 10}},
            "stages": [{"use": "child_stages:Parent", "with": parent}],
            "sink": {"use": "engine_stages:TextSink"},
        },
    }
    manifest = folder / "children.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return Job(manifest, engine)


@pytest.mark.parametrize(
    ("engine", "victims"),
    [("inline", "driver"), ("processes", "driver"), ("processes", "both")],
)
def test_law_children_of_a_killed_driver_do_not_block_the_next_run(
    engine: str, victims: str, tmp_path: Path
) -> None:
    job, volume = make_job(tmp_path, engine, ["native"], is_hanging=True), tmp_path / "volume"
    with job.started(volume) as process:
        wait_until(lambda: len(find_children(tmp_path)) > 0, PATIENCE)
        kill(process, victims)
        process.wait(PATIENCE)
        assert list_left(tmp_path) == []
    assert job.run(volume) == ExitCode.COMPLETE, job.read_log(volume)


def kill(process: subprocess.Popen[bytes], victims: str) -> None:
    driver = find_driver(process.pid)
    assert driver is not None
    if victims == "both":
        process.send_signal(signal.SIGKILL)
    driver.kill()


def test_law_no_child_outlives_a_command_that_completes(tmp_path: Path) -> None:
    job, volume = make_job(tmp_path, "inline", [*children.STARTS], is_hanging=False), tmp_path / "v"
    assert job.run(volume) == ExitCode.COMPLETE, job.read_log(volume)
    assert list_left(tmp_path) == []
