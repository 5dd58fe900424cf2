"""After an outage longer than a driver's allowed silence, a new operator ends nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api_server import ApiServer
from guide_cluster import Driver, GuideStage, serve_driver
from kill_trials import PATIENCE, PAUSE
from kube_client import KubeClient
from kuberay_player import Troupe
from operator_process import QUICK, run_operator
from operator_stories import NAME, RUNNING, STORIES, Performance
from overlap_watch import OverlapWatch
from recordings import Json

STALL = 3.0
PROGRESS = {"/progress": {"event": "progress", "sources": {"total": 10, "finished": 4}}}
# Responses of an unrelated server at the driver's address while the driver is unreachable.
NOBODY = {"/progress": b"<html>", "/outcome": b"<html>"}


def open_story(server: ApiServer, client: KubeClient) -> Performance:
    """Start a pipeline whose driver is reachable and may be silent for a few seconds."""
    one = Performance.open(server, client, STORIES["goes well"])
    deadlines = {"spec": {"deadlines": {"stall": f"{STALL:g}s"}}}
    client.patch("CurationPipeline", NAME, deadlines, one.namespace)
    stage, programme = GuideStage(client), STORIES["goes well"].programme
    one.troupe = Troupe(stage, one.namespace, programme, begin=datetime.now(UTC))
    return one


def wait_for(is_so: Callable[[], object], meanwhile: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        meanwhile()
        time.sleep(PAUSE)


def is_running(one: Performance) -> bool:
    """Return True if KubeRay has reached the running state, according to the remaining marks."""
    players = one.troupe.players.values()
    return any(RUNNING not in player.marks for player in players)


def read_attempt(one: Performance) -> Json:
    (attempt,) = one.client.list("CurationAttempt", one.namespace)
    return dict(attempt.get("status", {}))


@pytest.mark.timeout(1800)  # the test waits for two timeouts
def test_a_run_continues_after_an_outage_longer_than_its_stall_deadline(
    api_server: ApiServer, overlap_watch: OverlapWatch, tmp_path: Path
) -> None:
    del overlap_watch  # the fixture watches for overlaps
    with closing(KubeClient(api_server.kubeconfig)) as client, serve_driver() as port:
        one = open_story(api_server, client)
        Driver.pages = PROGRESS
        limits = {**QUICK, "STRANDLINE_DRIVER_PORT": str(port), "STRANDLINE_STATUS_INTERVAL": "1"}
        with run_operator(
            api_server.kubeconfig, tmp_path, "--namespaces", one.namespace, **limits
        ) as operator:
            wait_for(lambda: is_running(one), lambda: asyncio.run(one.tick()))
            operator.wait_for(lambda: read_attempt(one).get("progress"))
            operator.kill()
            Driver.pages = NOBODY
            time.sleep(STALL + 1.0)

            asked = Driver.asked
            operator.start()
            operator.wait_for(lambda: Driver.asked >= asked + 2 * 6)  # two pages per poll
            one.look()
            assert (one.phase, read_attempt(one).get("endTime")) == ("Running", None)

            Driver.pages = PROGRESS
            wait_for(lambda: one.is_over, lambda: asyncio.run(one.tick()))
            assert (one.phase, one.causes, one.status["attempt"]) == ("Succeeded", [""], 1)
            assert operator.faults == []
