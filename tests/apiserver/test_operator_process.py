"""The operator as a process, on a real API server with a simulated KubeRay.

Stories of operator_stories.py run concurrently under one operator until all have ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from api_server import ApiServer
from kill_trials import PATIENCE, PAUSE, judge
from kube_client import KubeClient
from operator_process import QUICK, OperatorProcess, run_operator
from operator_stories import NAME, STORIES, Performance, Story, apply_pipeline
from overlap_watch import OverlapWatch
from recordings import Json

EVICTED = Story(["j-suspend-resume", "s-k-success"], "Succeeded", ["Interrupted", ""])
# Stories of this module. Other tests run the remaining stories, with kills of the operator.
TOLD = ("goes well", "bad spec", "out of memory", "head preempted", "cancelled", "suspended")
# Wait longer for evidence: with eight concurrent stories, the player's last report comes late.
LIMITS = {**QUICK, "STRANDLINE_SETTLE": "3", "STRANDLINE_OUTCOME": "6"}
DONE = {"Succeeded": ("True", "Completed"), "StorageReady": ("True", "ClaimBound")}
ENDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "bad spec": {
        "Succeeded": ("False", "InvalidSpec"),
        "Stalled": ("True", "InvalidSpec"),
        "StorageReady": ("True", "ClaimBound"),
    },
    "cancelled": {
        "Succeeded": ("False", "UserCancelled"),
        "Stalled": ("True", "UserCancelled"),
        "StorageReady": ("True", "ClaimBound"),
    },
    "deleted": {},
}
PHASES: Mapping[str, list[str]] = {
    "goes well": ["Pending", "Running", "Succeeded"],
    "suspended": ["Pending", "Running", "Suspended", "Pending", "Running", "Succeeded"],
    "deleted": ["Pending", "Running", "Deleting", "gone"],
}


async def play(performances: Mapping[str, Performance], operator: OperatorProcess) -> None:
    """Play until all stories are over."""
    end = time.monotonic() + PATIENCE
    while left := [performance for performance in performances.values() if not performance.is_over]:
        assert operator.is_alive
        assert time.monotonic() < end, [
            (performance.namespace, performance.status) for performance in left
        ]
        for performance in left:
            await performance.tick()
        await asyncio.sleep(PAUSE)


def test_pipelines_reach_their_expected_ends(
    api_server: ApiServer, overlap_watch: OverlapWatch, tmp_path: Path
) -> None:
    with closing(KubeClient(api_server.kubeconfig)) as client:
        stories = {name: STORIES[name] for name in (*TOLD, "deleted")}
        stories["evicted by a queue"] = EVICTED
        performances = {
            name: Performance.open(api_server, client, story) for name, story in stories.items()
        }
        places = ",".join(performance.namespace for performance in performances.values())
        with run_operator(
            api_server.kubeconfig, tmp_path, "--namespaces", places, **LIMITS
        ) as operator:
            asyncio.run(play(performances, operator))
            overlap_watch.catch_up()
            for name, performance in performances.items():
                assert judge(performance, overlap_watch, None) == [], name
                assert find_conditions(performance) == ENDS.get(name, DONE), name
            for name, phases in PHASES.items():
                assert drop_doubtful(performances[name].phases) == phases
            check_events(performances["out of memory"])
            check_applying_again(performances["goes well"])
            assert operator.faults == []


def find_conditions(performance: Performance) -> Mapping[str, tuple[str, str]]:
    """Return the final conditions except SpecApplied. Conditions of earlier states must be gone."""
    conditions: Mapping[str, tuple[str, str]] = performance.end["conditions"]
    return {name: told for name, told in conditions.items() if name != "SpecApplied"}


def drop_doubtful(phases: list[str]) -> list[str]:
    """Return the phases without those that may be too short to observe."""
    kept = [phase for phase in phases if phase not in {"", "Waiting"}]
    return [one for at, one in enumerate(kept) if kept[at - 1 : at] != [one]]


def check_events(performance: Performance) -> None:
    """Check the events that `kubectl describe` shows."""
    events = performance.client.list("Event", performance.namespace)
    reasons = {event["reason"] for event in events}
    assert {"AttemptStarted", "RetryScheduled", "MemoryRaised", "RunSucceeded"} <= reasons


def check_applying_again(performance: Performance) -> None:
    """Check that applying the same file again changes nothing."""
    before = read_version(performance.pipeline)
    apply_pipeline(performance.client, performance.namespace)
    time.sleep(3.0)
    performance.look()
    assert read_version(performance.pipeline) == before


def read_version(body: Json | None) -> str:
    assert body is not None
    assert body["metadata"]["name"] == NAME
    return str(body["metadata"]["resourceVersion"])
