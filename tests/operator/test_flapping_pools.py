"""Spot nodes that appear and disappear before the driver runs: the wait for nodes still ends."""

from __future__ import annotations

from typing import Any

import pytest

from node_bodies import end_by_shutdown
from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.outcome.causes import Cause
from strandline_api.status.enums import PipelinePhase
from strandline_operator.model.plan import Resource
from test_droughts import FULL, HOUR, NO_SUCH_NODE, newest, place, start_dry, unplace
from test_spot_fallback import is_on_spot, newest_spec, spot

DAY = 24 * HOUR


def start_flapping(words: str = FULL, **fallback: Any) -> SimulatedCluster:
    wanted = spot(**fallback) if fallback else {"preset": "gke"}
    ray = {"head": {"spot": wanted}, "workerGroups": [{"name": "cpu", "spot": wanted}]}
    return start_dry(words, ray=ray)


def replace_pod(cluster: SimulatedCluster, ending: str, words: str, count: int) -> None:
    """Remove a pod with its node, and add a replacement that finds no node."""
    for pod in cluster.list_of(Resource.POD):
        name = pod["metadata"]["name"]
        if f"-{ending}" in name:
            cluster.gone_pods.append(cluster.objects.pop((Resource.POD, name)) | {"status": LOST})
            number = pod["metadata"]["labels"]["strandline.dev/attempt"]
            made = f"corpus-{number}-{ending}-{count}"
            cluster.add_pod(made, pod["metadata"]["labels"])
            cluster.objects[Resource.POD, made]["spec"] = {"nodeName": ""}
            unplace(cluster, f"{ending}-{count}", words)
    cluster.gone_pods = cluster.gone_pods[-10:]


LOST = end_by_shutdown()


def flap(
    cluster: SimulatedCluster,
    seconds: float,
    words: str = FULL,
    *,
    dry: float = 600.0,
    alive: float = 300.0,
    restarts: bool = False,
) -> int:
    """Add and remove nodes for some time, and return the number of lost heads."""
    end, count = cluster.time + seconds, 0
    while cluster.time < end:
        cluster.advance(dry)
        start_next(cluster, words)
        place(cluster, "")
        cluster.settle()
        if restarts:
            cluster.restart(0.0)
        cluster.advance(alive)
        start_next(cluster, words)
        count += 1
        # No controller replaces the pods of an ended attempt.
        is_over = list(cluster.attempts.values())[-1][1].end_time is not None
        for ending in () if is_over else ("head", "cpu"):
            replace_pod(cluster, ending, words, count)
        cluster.settle()
    return count


def start_next(cluster: SimulatedCluster, words: str) -> None:
    """Tear an ended attempt down, and make the next attempt's pods, as KubeRay does."""
    for _ in range(4):
        cluster.sweep()
        cluster.advance(1.0)
    if any("status" not in rayjob for rayjob in cluster.list_of(Resource.RAYJOB)):
        cluster.start_rayjob()
        cluster.end_rayjob("Initializing", "")
        unplace(cluster, "", words)
        cluster.settle()


@pytest.mark.parametrize("words", [FULL, NO_SUCH_NODE])
@pytest.mark.parametrize(
    ("dry", "alive"), [(600.0, 300.0), (60.0, 300.0), (900.0, 30.0), (300.0, 1200.0)]
)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_flapping_pool_triggers_the_fallback(
    words: str, dry: float, alive: float, restarts: bool
) -> None:
    cluster = start_flapping(words, afterNoRoom="20m")
    while cluster.time < 1_000_000.0 + HOUR and not newest_spec(cluster).get("onDemand"):
        flap(cluster, 1.0, words, dry=dry, alive=alive, restarts=restarts)
    assert not is_on_spot(cluster)
    assert not is_on_spot(cluster, "cpu")
    assert cluster.status.retries is not None
    assert (cluster.status.retries.retries, cluster.status.retries.disruptions) == (0, 0)


def test_a_node_that_stays_until_the_driver_runs_ends_the_wait() -> None:
    cluster = start_flapping(afterNoRoom="20m")
    cluster.advance(900.0)
    place(cluster, "")
    cluster.set_pod("", phase="Running")
    cluster.end_rayjob("Running", "RUNNING")
    cluster.advance(60.0)
    assert [group.name for group in cluster.status.spot] == ["head", "cpu"]
    cluster.advance(300.0)
    assert [group.name for group in cluster.status.spot] == []
    cluster.set_pod("head", **LOST)
    cluster.end_rayjob("Failed", "FAILED", reason="AppFailed", message="lost")
    cluster.finish_teardown()
    cluster.advance(60.0)
    start_next(cluster, FULL)
    cluster.advance(900.0)
    assert newest(cluster).end_time is None
    cluster.advance(600.0)
    start_next(cluster, FULL)
    assert not is_on_spot(cluster)


def test_an_attempt_without_a_running_driver_does_not_restart_the_wait() -> None:
    """The user's start deadline (15 min) is shorter than the wait before the fallback (20 min)."""
    cluster = start_flapping(afterNoRoom="20m")
    cluster.edit(deadlines={"preRunning": "15m"})
    for _ in range(25):
        cluster.advance(60.0)
        start_next(cluster, FULL)
    assert newest_spec(cluster)["onDemand"] == ["head", "cpu"]


def test_an_attempt_whose_heads_lose_their_nodes_ends_as_a_disruption() -> None:
    """Five minutes on each of six nodes use up the start deadline of half an hour."""
    cluster = start_flapping()
    while cluster.attempts["corpus-1"][1].end_time is None:
        flap(cluster, 1.0)
        assert cluster.time < 1_000_000.0 + 3 * HOUR
    status = cluster.attempts["corpus-1"][1]
    assert status.end_time is not None
    assert status.end_time - 1_000_000.0 > 1.4 * HOUR
    for _ in range(8):
        start_next(cluster, FULL)
    status = cluster.attempts["corpus-1"][1]
    assert status.cause is Cause.PREEMPTED
    assert (
        status.message == "the driver did not start within 1800 s: its head lost its node 5 times"
    )
    assert cluster.status.retries is not None
    assert cluster.status.retries.retries == 0
    assert [(group.name, group.disruptions) for group in cluster.status.spot] == [("head", 5)]


@pytest.mark.parametrize("restarts", [False, True])
def test_heads_that_are_lost_before_the_driver_runs_count_for_the_fallback(restarts: bool) -> None:
    """The losses count toward the fallback although no driver has run in this attempt."""
    cluster = start_flapping(afterDisruptions=3)
    for lost in (1, 2):
        flap(cluster, 1.0, restarts=restarts)
        if restarts:
            cluster.gone_pods.clear()
        assert newest(cluster).start_losses == lost
        assert newest(cluster).end_time is None
    flap(cluster, 1.0)
    assert newest(cluster).end_time is not None
    words = "head lost its node 3 times, so the next attempt uses on-demand nodes"
    assert words in [record.message for record in newest(cluster).evidence]
    start_next(cluster, FULL)
    assert not is_on_spot(cluster)
    assert is_on_spot(cluster, "cpu")
    (head,) = [group for group in cluster.status.spot if group.name == "head"]
    assert (head.disruptions, head.reason) == (3, "lost its node 3 times")
    assert cluster.status.retries is not None
    assert (cluster.status.retries.retries, cluster.status.retries.disruptions) == (0, 0)


def test_a_loss_before_the_driver_runs_adds_to_losses_of_earlier_attempts() -> None:
    cluster = start_flapping(afterDisruptions=2)
    place(cluster, "")
    cluster.set_pod("", phase="Running")
    cluster.end_rayjob("Running", "RUNNING")
    cluster.settle()
    cluster.set_pod("head", **LOST)
    cluster.end_rayjob("Failed", "FAILED", reason="AppFailed", message="lost")
    cluster.finish_teardown()
    cluster.advance(60.0)
    start_next(cluster, FULL)
    assert is_on_spot(cluster)
    flap(cluster, 1.0)
    start_next(cluster, FULL)
    assert not is_on_spot(cluster)


def test_two_days_on_a_pool_that_flaps_end_no_run_and_cost_no_retry() -> None:
    cluster = start_flapping()
    flap(cluster, 2 * DAY, dry=2400.0, alive=900.0)
    assert cluster.status.phase is not PipelinePhase.FAILED
    assert cluster.status.retries is not None
    assert cluster.status.retries.retries == 0
    assert cluster.status.retries.disruptions > 10
    (head,) = [group for group in cluster.status.spot if group.name == "head"]
    assert head.disruptions > 15


def test_flapping_workers_of_a_running_driver_trigger_the_fallback() -> None:
    cluster = SimulatedCluster()
    groups = [{"name": "cpu", "minReplicas": 0, "maxReplicas": 4, "spot": spot(afterNoRoom="20m")}]
    cluster.edit(ray={"workerGroups": groups})
    cluster.launch()
    cluster.settle()
    unplace(cluster, "cpu", FULL)
    cluster.advance(600.0)
    for count in range(1, 5):
        ending = "cpu" if count == 1 else f"cpu-{count - 1}"
        place(cluster, ending)
        started = {"running": {"startedAt": format_time(cluster.time)}}
        cluster.set_pod(
            ending, phase="Running", containerStatuses=[{"name": "a", "state": started}]
        )
        cluster.advance(120.0)
        replace_pod(cluster, "cpu", FULL, count)
        cluster.advance(300.0)
    assert newest(cluster).end_time is not None
    assert [group.name for group in cluster.status.spot] == ["cpu"]
