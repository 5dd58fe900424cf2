"""`kubectl get` shows the obstacle of a pipeline in short form, and the advice with `-o wide`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.schema.crd import PIPELINE_COLUMNS, PIPELINE_WIDE_COLUMNS
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.run.report.conditions import report
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import PassState, Verdict
from strandline_operator.model.view import Refusal

DETAIL = "head corpus-1-abc: what the cluster says of it"
PATHS = {column.name: column.path for column in (*PIPELINE_COLUMNS, *PIPELINE_WIDE_COLUMNS)}
# Condition reasons that do not describe an obstacle.
NO_OBSTACLES = {
    *("Pending", "Queued", "Starting", "Running", "Draining", "Held", "TearingDown"),
    *("WaitingToRetry", "RetriesHeldBack", "DispatchStopped", "Suspended", "Deleting"),
    *("Completed", "EvidenceComplete", "Applied", "WaitsForNextAttempt", "WaitsForNextRun"),
    *("OperatorIsOlder", "ClaimBound", "PreflightFailed", "PreflightUnknown"),
}
OBSTACLES = [reason for reason in Reason if reason not in NO_OBSTACLES]


def show(status: PipelineStatus, column: str) -> str:
    shown: Any = status.model_dump(by_alias=True)
    for name in PATHS[column].removeprefix(".status.").split("."):
        shown = (shown or {}).get(name)
    return "" if shown is None else str(shown)


def begin() -> SimulatedCluster:
    cluster = SimulatedCluster()
    cluster.pass_once()
    return cluster


def start() -> SimulatedCluster:
    cluster = begin()
    cluster.settle()
    return cluster


def wait_to_retry() -> SimulatedCluster:
    cluster = start()
    cluster.start_rayjob()
    cluster.settle()
    cluster.fail_attempt()
    cluster.settle()
    cluster.finish_teardown()
    cluster.settle()
    return cluster


def meet(cluster: SimulatedCluster, block: Block | None) -> PipelineStatus:
    """Return the status after a pass that meets the given obstacle."""
    view = cluster.view()
    assert view.pipeline.spec is not None
    given = Pass(view, view.pipeline.spec, cluster.limits, cluster.time, 0.0)
    status = report(given, PassState(view, Verdict(block=block))).status
    assert status is not None
    return status


@pytest.mark.parametrize("make", [begin, start, SimulatedCluster.running, wait_to_retry])
@pytest.mark.parametrize("reason", OBSTACLES, ids=str)
def test_each_obstacle_is_an_actionable_line(
    reason: Reason, make: Callable[[], SimulatedCluster]
) -> None:
    status = meet(make(), Block(reason, DETAIL))
    summary = status.find_condition(ConditionType.SUCCEEDED)
    assert summary is not None
    assert summary.reason == reason
    state = show(status, "Details")
    assert DETAIL in state
    assert "\n" not in state
    advice = reason.advice
    if not advice.startswith("Nothing") and reason is not Reason.NO_ROOM:
        assert advice in state


def test_a_missing_kuberay_is_shown_until_it_is_installed() -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    cluster.refusals = (Refusal("rayjobs.ray.io", "corpus-1", 404, "the server could not find it"),)
    cluster.pass_once()
    assert "Install KubeRay" in show(cluster.status, "Details")
    assert show(cluster.status, "State") == "attempt 1: the cluster has no resource type RayJob"
    cluster.settle()
    assert "Install KubeRay" not in show(cluster.status, "Details")


def test_a_past_obstacle_does_not_replace_the_retry_message() -> None:
    cluster = wait_to_retry()
    before = show(cluster.status, "State")
    assert before.startswith("retry 1 of ")
    assert before == show(cluster.status, "Details")
    cluster.status = meet(cluster, Block(Reason.CODE_MISSING, DETAIL))
    assert DETAIL in show(cluster.status, "Details")
    state = show(meet(cluster, None), "State")
    assert state.startswith("next attempt at ")
    assert state.endswith(" after ApplicationError")


def test_the_current_run_is_shown() -> None:
    cluster = SimulatedCluster(time=1_790_000_000.0)
    cluster.edit(schedule={"cron": "0 * * * *"})
    cluster.settle()
    assert show(cluster.status, "Run") == "first"
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish()
    cluster.advance(3600)
    assert show(cluster.status, "Run") == cluster.status.run != "first"


def test_a_predecessor_without_a_run_is_described_without_an_empty_name() -> None:
    other, cluster = SimulatedCluster(), SimulatedCluster()
    other.pipeline["metadata"] |= {"name": "raw", "uid": "uid-raw"}
    other.edit(sink={"use": "NO"})  # the spec is invalid, so no run starts
    other.settle()
    cluster.others["raw"] = other
    cluster.edit(after=[{"name": "raw"}])
    cluster.settle()
    assert show(cluster.status, "State") == "waits for raw (its first run has not started)"


def test_a_due_scheduled_run_is_no_retry() -> None:
    cluster = SimulatedCluster(time=1_790_000_000.0)
    cluster.edit(schedule={"cron": "0 * * * *"})
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish()
    cluster.time += 3600
    cluster.pass_once()
    summary = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert summary is not None
    assert (cluster.status.phase, summary.reason) == ("Pending", "Pending")
    assert cluster.status.run in show(cluster.status, "State")
