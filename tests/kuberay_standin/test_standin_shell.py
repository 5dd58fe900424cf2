"""The shell carries out the core's decisions, and survives rejections by the server."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kuberay_standin.kubelet import render_running
from kuberay_standin.objects import Json, format_time
from kuberay_standin.scene import JobAnswer
from kuberay_standin.shell.loop import Loop, Outside
from memory_server import MemoryServer
from recordings import read_recording

RAYJOB: Json = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    **json.loads((Path(__file__).parent / "s-k-success-made.json").read_text(encoding="utf-8"))[
        "submitted"
    ],
}
NOW = datetime(2026, 11, 21, 10, 25, 49, tzinfo=UTC)


class Scenery:
    """The clocks, a dashboard, and a log of a test."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.answer = JobAnswer(is_reached=False)
        self.asked: list[tuple[str, str]] = []
        self.stopped: list[tuple[str, str]] = []
        self.lines: list[str] = []

    def ask(self, address: str, job: str, _token: str) -> JobAnswer:
        self.asked.append((address, job))
        return self.answer

    def open(self) -> Outside:
        return Outside(
            read_time=lambda: NOW,
            read_seconds=lambda: self.seconds,
            draw=lambda: "x4r7b",
            ask=self.ask,
            stop=lambda address, job, _: self.stopped.append((address, job)),
            report=self.lines.append,
        )


@pytest.fixture
def scenery() -> Scenery:
    return Scenery()


@pytest.fixture
def server() -> MemoryServer:
    server = MemoryServer()
    server.create(RAYJOB)
    return server


@pytest.fixture
def loop(server: MemoryServer, scenery: Scenery) -> Loop:
    return Loop(server, scenery.open())


def settle(loop: Loop) -> None:
    for _ in range(20):
        if not loop.turn():
            return
    raise AssertionError("it does not come to rest")


def test_a_refused_action_is_logged_once_and_retried(
    server: MemoryServer, loop: Loop, scenery: Scenery
) -> None:
    server.refusals["create Job"] = 403
    make_ready(server, loop)
    settle(loop)
    assert [line for line in scenery.lines if "failed" in line] == [
        "rj: make Job rj failed: 403: no",
    ]
    server.refusals.clear()
    settle(loop)
    assert server.find("RayJob", "rj")["status"]["jobDeploymentStatus"] == "Running"


def read_failures(server: MemoryServer) -> list[tuple[str, str]]:
    """Return reason and message of the condition that a pod could not be created."""
    (cluster,) = server.list("RayCluster")
    found = (
        condition
        for condition in cluster["status"]["conditions"]
        if condition["type"] == "ReplicaFailure"
    )
    return [(one["reason"], one["message"]) for one in found if one["status"] == "True"]


def test_a_rejected_head_is_reported_as_recorded(
    server: MemoryServer, loop: Loop, scenery: Scenery
) -> None:
    recording = read_recording("v-quota-on-pods")
    recorded = [
        step.status for step in recording.steps if step.kind == "RayCluster" and step.status
    ]
    found = {condition["type"]: condition for condition in recorded[-1]["conditions"]}
    failure = found["ReplicaFailure"]
    sentence = failure["message"].partition("\n")[2]
    server.refusals["create Pod"], server.sentence = 403, sentence
    settle(loop)
    assert [(failure["reason"], failure["message"])] == read_failures(server)
    (cluster,) = server.list("RayCluster")
    mine = {
        condition["type"]: (condition["status"], condition["reason"])
        for condition in cluster["status"]["conditions"]
    }
    assert mine == {name: (one["status"], one["reason"]) for name, one in found.items()}
    # No worker is created, because it would have no head to join.
    assert [line for line in scenery.lines if "failed" in line] == [
        f"rj: make Pod rj-x4r7b-head- failed: 403: {sentence}"
    ]
    server.refusals.clear()
    settle(loop)
    assert not server.list("Pod")  # the retry is not due
    scenery.seconds += 1
    settle(loop)
    assert len(server.list("Pod")) == 2
    assert read_failures(server) == []


def test_a_rejected_worker_is_reported(server: MemoryServer, loop: Loop) -> None:
    settle(loop)
    (worker,) = [place for place in server.objects if "worker" in place[1]]
    del server.objects[worker]
    server.refusals["create Pod"] = 403
    settle(loop)
    assert read_failures(server) == [("FailedCreateWorkerPod", "FailedCreateWorkerPod\nno")]


def test_a_refused_action_is_retried_less_and_less_often(
    server: MemoryServer, loop: Loop, scenery: Scenery
) -> None:
    """Check the recorded pauses: many tries in the first second, then doubling pauses."""
    server.refusals["create Pod"] = 403
    tried = []
    for tick in range(6000):
        scenery.seconds = tick / 100
        before = server.calls.count("create Pod")
        settle(loop)
        if server.calls.count("create Pod") > before:
            tried.append(scenery.seconds)
    pauses = [later - earlier for earlier, later in itertools.pairwise(tried)]
    assert len([one for one in tried if one < 1]) >= 6
    assert pauses[-3:] == pytest.approx([5.12, 10.24, 20.48], abs=0.1)


def test_a_deleted_raycluster_is_recreated_with_its_name(server: MemoryServer, loop: Loop) -> None:
    bring_up(server, loop)
    (before,) = server.list("RayCluster")
    server.delete("RayCluster", "default", before["metadata"]["name"])
    settle(loop)
    (after,) = server.list("RayCluster")
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert server.find("RayJob", "rj")["status"]["jobDeploymentStatus"] == "Running"


def test_a_running_rayjob_has_a_service_with_its_name(server: MemoryServer, loop: Loop) -> None:
    settle(loop)
    assert [one["metadata"]["name"] for one in server.list("Service")] == ["rj-x4r7b-head-svc"]
    bring_up(server, loop)
    names = {one["metadata"]["name"] for one in server.list("Service")}
    assert names == {"rj-x4r7b-head-svc", "rj-head-svc"}


@pytest.mark.parametrize("status", [404, 409])
def test_conflicts_with_newer_objects_are_ignored(
    server: MemoryServer, loop: Loop, scenery: Scenery, status: int
) -> None:
    server.refusals["put RayJob"] = status
    settle(loop)
    assert "status" not in server.find("RayJob", "rj")
    assert not [line for line in scenery.lines if "failed" in line]


def test_a_failing_list_is_survived(server: MemoryServer, loop: Loop, scenery: Scenery) -> None:
    server.refusals["list"] = 503
    assert not loop.turn()
    assert scenery.lines == ["the API server refuses to list: 503: no"]


def test_a_dashboard_is_polled_every_three_seconds_at_the_heads_address(
    server: MemoryServer, loop: Loop, scenery: Scenery
) -> None:
    bring_up(server, loop)
    for scenery.seconds in (0.0, 1.0, 2.9, 3.0, 4.0):
        settle(loop)
    assert scenery.asked == [("10.0.0.7:8265", "rj-x4r7b")] * 2


def bring_up(server: MemoryServer, loop: Loop) -> None:
    """Make all pods ready, and let the RayJob run."""
    make_ready(server, loop)
    assert server.find("RayJob", "rj")["status"]["jobDeploymentStatus"] == "Running"


def make_ready(server: MemoryServer, loop: Loop) -> None:
    """Make all pods ready."""
    settle(loop)
    for body in server.list("Pod"):
        body["status"] = render_running(body, format_time(NOW), "10.0.0.7")
    settle(loop)
