"""A stop signal to all processes of a run, as service managers and batch systems send it."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from jobs import PATIENCE, Job
from strandline.run.insight.records import read_chain
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode
from waiting import wait_until

pytestmark = pytest.mark.first(reason="starts drivers of each engine")


def make_job(folder: Path, engine: str) -> Job:
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "stopped"},
        "spec": {
            "source": {"use": "engine_stages:Numbers", "with": {"count": 12}},
            "stages": [{"use": "child_stages:Program"}],
            "sink": {"use": "engine_stages:TextSink"},
        },
    }
    manifest = folder / "stopped.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return Job(manifest, engine, ["--workers", "2"])


def signal_all(pid: int) -> None:
    """Send SIGTERM to a process and its descendants, descendants first."""
    parent = psutil.Process(pid)
    for process in [*reversed(parent.children(recursive=True)), parent]:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    "engine",
    # Ray starts slowly, and the continued run needs a second Ray.
    ["inline", "processes", pytest.param("ray", marks=pytest.mark.more)],
)
def test_law_a_signal_to_all_is_one_request_to_stop(engine: str, tmp_path: Path) -> None:
    job, volume = make_job(tmp_path, engine), tmp_path / "volume"
    with job.started(volume) as process:
        wait_until(lambda: len(job.read_opened(volume)) > 2, PATIENCE)
        signal_all(process.pid)
        code = process.wait(PATIENCE)
    assert code == ExitCode.INTERRUPTED, job.read_log(volume)
    (record,) = read_chain(job.find_folder(volume))
    assert record.outcome is not None
    assert (record.cause, record.outcome.sources.failed) == (Cause.INTERRUPTED, 0)
    assert job.run(volume) == ExitCode.COMPLETE, job.read_log(volume)
    assert job.verify(volume)
