"""If a driver must stop during long calls, it reports its outcome in time."""

from __future__ import annotations

import json
import signal
import socket
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_plane import find_free_ports
from jobs import Job
from strandline.cli.commands.runs.leave import post
from strandline.run.insight.records import read_chain
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.outcome.reader_token import NOTICE_VARIABLE, derive_notice_token, digest_token
from waiting import wait_until

WORKERS = 2
PATIENCE = 120.0


def make_manifest(path: Path, checkpoint: dict[str, Any]) -> Path:
    """Write a pipeline that finishes a few sources and then keeps all workers busy for an hour."""
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "stopped"},
        "spec": {
            "source": {"use": "engine_stages:Numbers", "with": {"count": 400}},
            "stages": [{"use": "stop_stages:Long", "resources": {"cpu": 0.5}}],
            "sink": {"use": "engine_stages:TextSink", "resources": {"cpu": 0.1}},
            "checkpoint": checkpoint,
        },
    }
    path.write_text(yaml.safe_dump(document))
    return path


def stop_in_the_middle(job: Job, volume: Path) -> tuple[int, float]:
    """Request a stop in the middle of long calls. Return the exit code and the seconds taken."""
    with job.started(volume, options=["--workers", str(WORKERS)]) as process:
        end = time.monotonic() + PATIENCE
        # Outputs do not show this moment, because a quick task can share a call with a long task.
        while len(job.read_opened(volume)) < WORKERS:
            assert process.poll() is None, job.read_log(volume)
            assert time.monotonic() < end, job.read_log(volume)
            time.sleep(0.2)
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE), time.monotonic() - asked


@pytest.mark.more
def test_a_head_with_notice_of_its_nodes_end_saves_its_work_and_ends(tmp_path: Path) -> None:
    manifest = make_manifest(tmp_path / "stopped.yaml", {"gracePeriod": "20m"})
    job, volume, port = Job(manifest), tmp_path / "volume", find_free_ports(1)[0]
    token = derive_notice_token(b"key", "a-uid")
    options = ["--workers", str(WORKERS), "--serve", str(port)]
    with job.started(volume, {NOTICE_VARIABLE: digest_token(token)}, options=options) as process:
        wait_until(lambda: len(job.read_opened(volume)) >= WORKERS, PATIENCE)
        elsewhere = {"node": "192.0.2.77", "seconds": 30, "why": "elsewhere"}
        assert post("127.0.0.1", port, token, elsewhere) == 0
        assert post("127.0.0.1", port, "guessed", elsewhere) is None
        here = socket.gethostbyname(socket.gethostname())
        post("127.0.0.1", port, token, {"node": here, "seconds": 30})
        wait_until(lambda: ask_outcome(port) == ExitCode.INTERRUPTED, PATIENCE)
        assert process.wait(PATIENCE) == ExitCode.INTERRUPTED, job.read_log(volume)


def ask_outcome(port: int) -> int | None:
    """Return the exit code that a driver reports at its end, or None before the end."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", "/outcome")
        answer = json.loads(connection.getresponse().read())
        code: int | None = answer.get("exitCode")
        return code


@pytest.mark.more
def test_law_calls_that_cannot_end_in_time_are_not_awaited(tmp_path: Path) -> None:
    manifest = make_manifest(tmp_path / "stopped.yaml", {"gracePeriod": "20m"})
    job, volume = Job(manifest), tmp_path / "volume"

    code, _ = stop_in_the_middle(job, volume)  # must not use up the grace period

    assert code == ExitCode.INTERRUPTED, job.read_log(volume)
    (record,) = read_chain(job.find_folder(volume))
    assert record.outcome is not None
    assert record.cause is Cause.INTERRUPTED
    published = json.loads((job.find_folder(volume).latest / "manifest.json").read_text())
    assert published["facts"]["sources"]["finished"] == record.outcome.sources.finished > 0
