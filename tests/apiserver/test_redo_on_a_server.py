"""The number of redone sources, from a driver's page to `kubectl get` and an event."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api_server import ApiServer
from guide_cluster import Driver, GuideStage, serve_driver
from kube_client import KubeClient
from kuberay_player import Troupe
from operator_process import QUICK, run_operator
from operator_stories import STORIES, Performance
from overlap_watch import OverlapWatch
from recordings import Json
from strandline.cli.views.running.snapshot import Pace, take_snapshot
from strandline.cli.views.running.snapshot_json import render_snapshot
from test_operator_outage import is_running, read_attempt, wait_for
from tuning import FILES, Tuning, add, below

REASON = "from the output of 'add', because 'below' changed"


def redo_for_real(folder: Path) -> list[Json]:
    """Run a changed pipeline, and return the driver's progress pages."""
    tuning, pages = Tuning(folder), list[Json]()
    tuning.run(add(1, keep=True), below(50))
    tuning.write(FILES, range(5))
    tuning.run(
        add(1, keep=True),
        below(10),
        report=lambda seen: pages.append(render_snapshot(take_snapshot(seen, 1.0, Pace()))),
    )
    return pages


def list_told(one: Performance) -> list[str]:
    events = one.client.list("Event", one.namespace)
    return [event["message"] for event in events if event["reason"] == "Redoing"]


@pytest.mark.timeout(1800)  # the test waits for several polls
def test_redone_sources_are_in_the_status_and_reported_once(
    api_server: ApiServer, overlap_watch: OverlapWatch, tmp_path: Path
) -> None:
    del overlap_watch  # the fixture watches for overlaps
    pages = redo_for_real(tmp_path)
    with closing(KubeClient(api_server.kubeconfig)) as client, serve_driver() as port:
        one = Performance.open(api_server, client, STORIES["goes well"])
        programme = STORIES["goes well"].programme
        one.troupe = Troupe(GuideStage(client), one.namespace, programme, begin=datetime.now(UTC))
        Driver.pages = {"/progress": pages[0]}  # the driver works on new sources first
        limits = {**QUICK, "STRANDLINE_DRIVER_PORT": str(port), "STRANDLINE_STATUS_INTERVAL": "1"}
        with run_operator(
            api_server.kubeconfig, tmp_path, "--namespaces", one.namespace, **limits
        ) as operator:
            wait_for(lambda: is_running(one), lambda: asyncio.run(one.tick()))
            operator.wait_for(lambda: read_attempt(one).get("progress"))
            assert "redone" not in read_attempt(one)["progress"]
            Driver.pages = {"/progress": pages[-1]}
            operator.wait_for(lambda: list_told(one))
            one.look()
            assert one.status["state"] == f"attempt 1: Running, {FILES} sources processed again"
            wait_for(lambda: one.is_over, lambda: asyncio.run(one.tick()))
            assert one.phase == "Succeeded"
            assert one.status["progress"]["redone"] == FILES
            assert [f"{FILES} of {FILES + 1} sources are processed again {REASON}"] == list_told(
                one
            )
            assert operator.faults == []
