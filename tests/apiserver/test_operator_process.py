"""The operator as a process of its own, on a real API server, with KubeRay played.

Several pipelines run at once under one operator; whoever watches never sees two attempts of one
pipeline with pods. Another operator is killed ten times, and the run is the same as without.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from api_server import ApiServer
from kube_client import KubeClient, ServerStage
from kuberay_player import Troupe
from recordings import Json
from strandline_api.labels import ATTEMPT_LABEL
from waiting import wait_until

PATIENCE = 150.0
PAUSE = 0.02
LIMITS = {"SETTLE": "1", "OUTCOME": "2", "PULL_INTERVAL": "1", "RESYNC": "2", "LOG_FORMAT": "text"}
KILLS = 10


class Story(NamedTuple):
    """Recordings in order, and what the pipeline comes to."""

    programme: Sequence[str]
    phase: str
    causes: Sequence[str]


STORIES = {
    "goes-well": Story(["s-k-success"], "Succeeded", [""]),
    "bad-spec": Story(["s-k-exit-64"], "Failed", ["InvalidSpec"]),
    "hungry": Story(
        ["c2-worker-container-oom-kernel", "s-k-success"], "Succeeded", ["OOMKilled", ""]
    ),
    "preempted": Story(
        ["s-k-head-preempted-linger", "s-k-success"], "Succeeded", ["Preempted", ""]
    ),
    "no-image": Story(["h-image-pull", "s-k-success"], "Succeeded", ["ImagePullFailure", ""]),
    "suspended": Story(["j-suspend-resume", "s-k-success"], "Succeeded", ["Interrupted", ""]),
    "no-head": Story(["s-k-head-deleted", "s-k-success"], "Succeeded", ["Interrupted", ""]),
}


@dataclass
class Stage:
    """A pipeline in a namespace of its own, its KubeRay, and what a watcher has seen of both."""

    client: KubeClient
    namespace: str
    troupe: Troupe
    most_attempts: int = 0
    uids: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def open(cls, server: ApiServer, programme: Sequence[str]) -> Stage:
        client, namespace = server.client, server.make_namespace("run")
        apply(client, namespace)
        stage = ServerStage(client)
        return cls(client, namespace, Troupe(stage, namespace, programme, begin=datetime.now(UTC)))

    async def tick(self) -> None:
        await self.troupe.tick()
        pods = self.client.list("Pod", self.namespace)
        numbers = {pod["metadata"]["labels"].get(ATTEMPT_LABEL) for pod in pods}
        self.most_attempts = max(self.most_attempts, len(numbers))
        for kind in ("RayJob", "CurationAttempt"):
            for body in self.client.list(kind, self.namespace):
                metadata = body["metadata"]
                name = f"{kind}/{metadata['name']}"
                self.uids.setdefault(name, set()).add(metadata["uid"])

    @property
    def status(self) -> Json:
        found = self.client.get("CurationPipeline", "corpus", self.namespace)
        return dict((found or {}).get("status", {}))

    @property
    def is_over(self) -> bool:
        return self.status.get("phase") in {"Succeeded", "Failed"}

    @property
    def causes(self) -> list[str]:
        return [one.get("cause", "") for one in self.status.get("attempts", [])]


def apply(client: KubeClient, namespace: str) -> Json:
    """Apply the pipeline as `kubectl apply --server-side` does."""
    body = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "corpus"},
        "spec": {
            "source": {"use": "files"},
            "sink": {"use": "jsonl"},
            "retry": {"jitter": "none", "delay": "1s"},
            "ray": {"workerGroups": [{"name": "cpu", "resources": {"memory": "8Gi"}}]},
        },
    }
    text = yaml.safe_dump(body).encode()
    return client.apply(text, "CurationPipeline", "corpus", namespace, fieldManager="somebody")


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """The operator's process, which can be killed and started again."""

    def __init__(self, kubeconfig: Path, log: Path, namespaces: Sequence[str]) -> None:
        limits = {f"STRANDLINE_{name}": value for name, value in LIMITS.items()}
        ports = {"STRANDLINE_METRICS_PORT": "0", "STRANDLINE_LIVENESS_PORT": str(find_port())}
        places = {"KUBECONFIG": str(kubeconfig), "STRANDLINE_NAMESPACES": ",".join(namespaces)}
        self._environment = {**os.environ, **limits, **ports, **places}
        self.log = log
        self.starts = 0
        self.start()

    @property
    def is_up(self) -> bool:
        """Whether the last start has come so far that it looks at pipelines."""
        return self.log.read_text(encoding="utf-8").count(" starts\n") == self.starts

    def start(self) -> None:
        self.starts += 1
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "strandline_operator"],
                env=self._environment,
                stdout=log,
                stderr=log,
            )

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> int:
        self._process.send_signal(sent)
        return self._process.wait(timeout=60)


@contextmanager
def run_operator(server: ApiServer, log: Path, stages: Sequence[Stage]) -> Iterator[Process]:
    process = Process(server.kubeconfig, log, [stage.namespace for stage in stages])
    try:
        yield process
    finally:
        process.stop()


async def play(stages: Sequence[Stage], process: Process) -> None:
    """Play until all runs are over."""
    end = time.monotonic() + PATIENCE
    while not all(stage.is_over for stage in stages):
        assert time.monotonic() < end, [(one.namespace, one.status) for one in stages]
        for stage in stages:
            await stage.tick()
        await asyncio.sleep(PAUSE)


async def play_and_kill(stage: Stage, process: Process, drawn: random.Random) -> int:
    """Kill the operator at drawn moments of the run, which goes on without it; how often."""
    kills = 0
    while kills < KILLS and not stage.is_over:
        for _ in range(drawn.randrange(4, 30)):
            await stage.tick()
            await asyncio.sleep(PAUSE)
        process.stop(signal.SIGKILL)
        kills += 1
        for _ in range(drawn.choice([0, 0, 3, 12])):
            await stage.tick()
        process.start()
        wait_until(lambda: process.is_up)
    await play([stage], process)
    return kills


def test_pipelines_come_to_their_ends(api_server: ApiServer, tmp_path: Path) -> None:
    stages = {name: Stage.open(api_server, story.programme) for name, story in STORIES.items()}
    with run_operator(api_server, tmp_path / "log", list(stages.values())) as process:
        asyncio.run(play(list(stages.values()), process))
        for name, story in STORIES.items():
            stage = stages[name]
            assert (stage.status["phase"], stage.causes) == (story.phase, list(story.causes)), name
            assert stage.most_attempts <= 1
            assert all(len(found) == 1 for found in stage.uids.values())
        check_events(stages["hungry"])
        check_applying_again(stages["goes-well"])
        assert "Traceback" not in process.log.read_text(encoding="utf-8")


def check_events(stage: Stage) -> None:
    """What `kubectl describe` tells."""
    reasons = {one["reason"] for one in stage.client.list("Event", stage.namespace)}
    assert {"AttemptStarted", "RetryScheduled", "MemoryRaised", "RunSucceeded"} <= reasons


def check_applying_again(stage: Stage) -> None:
    """`kubectl apply` of the same file again changes nothing."""
    before = stage.client.get("CurationPipeline", "corpus", stage.namespace)
    apply(stage.client, stage.namespace)
    time.sleep(3.0)
    after = stage.client.get("CurationPipeline", "corpus", stage.namespace)
    assert before is not None
    assert after is not None
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_a_pipeline_that_is_deleted_in_a_run_ends_it_and_goes(
    api_server: ApiServer, tmp_path: Path
) -> None:
    stage = Stage.open(api_server, ["s-k-success"])
    client = api_server.client

    async def run() -> None:
        end = time.monotonic() + PATIENCE
        while stage.status.get("phase") != "Running":
            assert time.monotonic() < end, stage.status
            await stage.tick()
        client.delete("CurationPipeline", "corpus", stage.namespace)
        while client.get("CurationPipeline", "corpus", stage.namespace) is not None:
            assert time.monotonic() < end, stage.status
            await stage.tick()

    with run_operator(api_server, tmp_path / "log", [stage]):
        asyncio.run(run())
    assert client.list("Pod", stage.namespace) == []
    assert client.get("PersistentVolumeClaim", "corpus-ledger", stage.namespace) is not None


@pytest.mark.parametrize("seed", [1])
def test_an_operator_that_is_killed_ten_times_makes_no_other_run(
    seed: int, api_server: ApiServer, tmp_path: Path
) -> None:
    programme = ["b-app-failure", "s-k-head-preempted-linger", "s-k-success"]
    stage, drawn = Stage.open(api_server, programme), random.Random(seed)
    with run_operator(api_server, tmp_path / "log", [stage]) as process:
        wait_until(lambda: process.is_up)
        kills = asyncio.run(play_and_kill(stage, process, drawn))
    assert kills == KILLS
    assert stage.status["phase"] == "Succeeded"
    assert [one["number"] for one in stage.status["attempts"]] == [1, 2, 3]
    assert stage.status["retries"]["attempts"] == 3
    assert stage.most_attempts == 1
    assert {name: len(found) for name, found in stage.uids.items()} == {
        f"{kind}/corpus-{number}": 1
        for kind in ("RayJob", "CurationAttempt")
        for number in (1, 2, 3)
    }
