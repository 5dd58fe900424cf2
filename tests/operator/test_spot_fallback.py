"""The fallback to on-demand nodes for the rest of a run, after losses or without capacity.

The fallback costs no retry.
"""

from __future__ import annotations

from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause
from strandline_api.status.enums import Trigger
from strandline_operator.model.nodes.capacity import NodeSize
from strandline_operator.model.plan import Resource
from test_droughts import (
    BACKOFF,
    HOUR,
    NEVER,
    NO_SUCH_NODE,
    STOCK_OUT,
    newest,
    place,
    play_dry,
    run_with_dry_workers,
    unplace,
    wait,
)
from test_render import pods_of

LABEL = "cloud.google.com/gke-spot"


def spot(**fallback: Any) -> dict[str, Any]:
    return {"preset": "gke", "fallback": fallback}


def start(
    head: dict[str, Any] | None = None, cpu: dict[str, Any] | None = None
) -> SimulatedCluster:
    """Return a pipeline whose first attempt is running."""
    cluster = SimulatedCluster()
    group = {"name": "cpu"} | ({"spot": cpu} if cpu else {})
    cluster.edit(ray={"head": {"spot": head} if head else {}, "workerGroups": [group]})
    cluster.launch()
    cluster.settle()
    return cluster


def preempt(cluster: SimulatedCluster, ending: str) -> None:
    """Reclaim the node of a pod. The loss of the head's node ends the attempt."""
    target = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    cluster.set_pod(ending, phase="Failed", conditions=[target])
    cluster.settle()
    if ending == "head":
        cluster.end_rayjob("Failed", "FAILED", reason="AppFailed", message="lost")
        cluster.finish_teardown()


def is_on_spot(cluster: SimulatedCluster, pod: str = "head") -> bool:
    rayjob = cluster.list_of(Resource.RAYJOB)[-1]
    return LABEL in pods_of(rayjob)[pod]["spec"].get("nodeSelector", {})


def test_a_head_that_lost_two_spot_nodes_gets_one_on_demand() -> None:
    cluster = start(head=spot(afterDisruptions=2))
    preempt(cluster, "head")
    cluster.run_next()
    assert is_on_spot(cluster)
    preempt(cluster, "head")
    cluster.run_next()
    assert not is_on_spot(cluster)
    assert newest_spec(cluster)["onDemand"] == ["head"]
    (group,) = cluster.status.spot
    assert (group.name, group.disruptions, group.reason) == ("head", 2, "lost its node 2 times")
    assert group.on_demand_since is not None
    (event,) = [event for event in cluster.events if event.reason == "SpotFallback"]
    words = "head uses on-demand nodes for the rest of the run: lost its node 2 times"
    assert event.message == words


def newest_spec(cluster: SimulatedCluster) -> dict[str, Any]:
    spec: dict[str, Any] = cluster.attempts[max(cluster.attempts)][0]["spec"]
    return spec


def test_the_next_run_is_on_spot_nodes_again() -> None:
    cluster = start(head=spot(afterDisruptions=1))
    preempt(cluster, "head")
    cluster.run_next()
    assert not is_on_spot(cluster)
    cluster.finish()
    cluster.edit(runId="second")
    cluster.settle()
    assert cluster.status.spot == ()
    assert is_on_spot(cluster)


def test_other_losses_do_not_count_as_spot_losses() -> None:
    cluster = start(cpu=spot(afterDisruptions=1))
    preempt(cluster, "head")
    cluster.run_next()
    assert cluster.status.spot == ()
    # The attempt continues without the worker, so the loss does not count for the fallback.
    preempt(cluster, "cpu")
    assert cluster.status.spot == ()
    assert is_on_spot(cluster, "cpu")


def test_an_attempt_recreated_for_a_worker_counts_for_its_group() -> None:
    cluster = start(cpu=spot(afterDisruptions=1))
    cluster.edit(onWorkerLoss={"disruption": "Recreate"})
    preempt(cluster, "cpu")
    cluster.finish_teardown()
    cluster.run_next()
    assert not is_on_spot(cluster, "cpu")
    assert [group.name for group in cluster.status.spot] == ["cpu"]


def dry(head: dict[str, Any] | None = None, cpu: dict[str, Any] | None = None) -> SimulatedCluster:
    """Return a pipeline whose first attempt finds no capacity."""
    cluster = start(head, cpu)
    cluster.edit(runId="second")
    cluster.finish()
    cluster.settle()
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    unplace(cluster, "")
    cluster.settle()
    return cluster


def test_after_a_long_shortage_the_next_attempt_is_on_demand_for_free() -> None:
    cluster = dry(head=spot(afterNoRoom="20m"), cpu=spot(afterNoRoom="20m"))
    before = cluster.status.retries
    wait(cluster, 1140.0, step=60.0)
    assert newest(cluster).end_time is None
    cluster.advance(120.0)
    assert newest(cluster).end_time is not None
    cluster.finish_teardown()
    cluster.settle()
    assert not is_on_spot(cluster)
    assert not is_on_spot(cluster, "cpu")
    assert newest_spec(cluster)["trigger"] == Trigger.RESUME
    assert {group.name: group.reason for group in cluster.status.spot} == {
        "head": "no room for 20m",
        "cpu": "no room for 20m",
    }
    after = cluster.status.retries
    assert before is not None
    assert after is not None
    assert (after.retries, after.disruptions) == (before.retries, before.disruptions)
    # Without on-demand capacity, the usual time limit of a wait applies.
    play_dry(cluster, 3 * HOUR)
    assert len(cluster.attempts) == 3


SHORTAGES: dict[str, tuple[str, tuple[str, str] | None]] = {
    "a pool at zero": (NO_SUCH_NODE, None),
    "no node at all": ("no nodes available to schedule pods", None),
    "nodes of others": (
        "0/2 nodes are available: 2 node(s) had untolerated taint {team: other}.",
        None,
    ),
    "nodes in other zones": (
        "0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
        None,
    ),
    "never, by an autoscaler": (NO_SUCH_NODE, ("NotTriggerScaleUp", NEVER)),
    "never, by Karpenter": (
        NO_SUCH_NODE,
        ("FailedScheduling", "Failed to schedule pod, no instance type met all requirements"),
    ),
    "too large, by Karpenter": (
        NO_SUCH_NODE,
        ("FailedScheduling", "Failed to schedule pod, no instance type has enough resources"),
    ),
    "the limit of all nodes": (
        NO_SUCH_NODE,
        ("NotTriggerScaleUp", "pod didn't trigger scale-up: max total nodes in cluster reached"),
    ),
    "the limit of a pool": (NO_SUCH_NODE, ("NotTriggerScaleUp", BACKOFF)),
    "a stock-out": (NO_SUCH_NODE, ("FailedScaleUp", STOCK_OUT)),
}


def report(cluster: SimulatedCluster, notice: tuple[str, str] | None) -> None:
    """Record the autoscaler's report about each pod without a node."""
    for pod in cluster.list_of(Resource.POD):
        if notice is not None and not pod.get("spec", {}).get("nodeName"):
            cluster.warn("Pod", pod["metadata"]["name"], *notice)


def wait_dry(cluster: SimulatedCluster, notice: tuple[str, str] | None, seconds: float) -> None:
    end = cluster.time + seconds
    while cluster.time < end:
        report(cluster, notice)
        cluster.notices = cluster.notices[-10:]
        cluster.advance(min(200.0, end - cluster.time))


@pytest.mark.parametrize("name", SHORTAGES)
def test_fallback_works_for_every_report_of_a_shortage(name: str) -> None:
    words, notice = SHORTAGES[name]
    cluster = dry(head=spot(afterNoRoom="50m"), cpu=spot(afterNoRoom="50m"))
    cluster.sizes = (NodeSize("regular", 2**40, 512.0),)
    unplace(cluster, "", words)
    before = cluster.status.retries
    # The fallback replaces the operator's limits: 30 minutes for a start, 5 for pods that never
    # fit.
    wait_dry(cluster, notice, 2940.0)
    assert newest(cluster).end_time is None
    wait_dry(cluster, notice, 120.0)
    cluster.finish_teardown()
    cluster.settle()
    assert not is_on_spot(cluster)
    assert not is_on_spot(cluster, "cpu")
    assert newest_spec(cluster)["trigger"] == Trigger.RESUME
    after = cluster.status.retries
    assert before is not None
    assert after is not None
    assert (after.retries, after.disruptions) == (before.retries, before.disruptions)


@pytest.mark.parametrize("name", SHORTAGES)
def test_workers_fall_back_for_every_report_of_a_shortage(name: str) -> None:
    words, notice = SHORTAGES[name]
    cluster = start(cpu=spot(afterNoRoom="20m"))
    unplace(cluster, "cpu", words)
    wait_dry(cluster, notice, 1260.0)
    cluster.finish_teardown()
    cluster.settle()
    assert not is_on_spot(cluster, "cpu")


@pytest.mark.parametrize("name", SHORTAGES)
def test_a_drought_after_a_preemption_triggers_the_fallback(name: str) -> None:
    words, notice = SHORTAGES[name]
    cluster = start(head=spot(afterNoRoom="20m"))
    preempt(cluster, "head")
    cluster.time = max(cluster.time, cluster.status.next_attempt_time or cluster.time)
    cluster.settle()
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    unplace(cluster, "head", words)
    wait_dry(cluster, notice, 1320.0)
    cluster.finish_teardown()
    cluster.settle()
    assert not is_on_spot(cluster)


@pytest.mark.parametrize(
    "words",
    [
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        'persistentvolumeclaim "corpus" not found',
        "the words of another scheduler",
        "Scheduling is blocked due to non-empty scheduling gates",
    ],
)
def test_a_wait_for_something_other_than_a_node_triggers_no_fallback(words: str) -> None:
    cluster = dry(head=spot(afterNoRoom="20m"), cpu=spot(afterNoRoom="20m"))
    unplace(cluster, "", words)
    wait_dry(cluster, None, 2400.0)
    cluster.finish_teardown()
    assert cluster.attempts["corpus-2"][1].cause is Cause.SCHEDULING_TIMEOUT
    assert [group.on_demand_since for group in cluster.status.spot] == [None, None]


def test_a_pod_unfit_for_on_demand_nodes_ends_in_time() -> None:
    cluster = dry(head=spot(afterNoRoom="20m"), cpu=spot(afterNoRoom="20m"))
    unplace(cluster, "", NO_SUCH_NODE)
    wait_dry(cluster, None, 1260.0)
    cluster.finish_teardown()
    cluster.settle()
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    unplace(cluster, "", NO_SUCH_NODE)
    wait_dry(cluster, ("NotTriggerScaleUp", NEVER), 420.0)
    assert newest(cluster).cause is Cause.SCHEDULING_TIMEOUT


def test_a_pod_without_a_fallback_ends_the_attempt_in_time() -> None:
    """The head waits only for spot nodes, but the worker group waits for other nodes."""
    cluster = dry(head=spot(afterNoRoom="2h"))
    unplace(cluster, "", NO_SUCH_NODE)
    wait_dry(cluster, ("NotTriggerScaleUp", NEVER), 800.0)
    assert newest(cluster).cause is Cause.SCHEDULING_TIMEOUT
    assert "cpu" in newest(cluster).message


def test_an_unplaced_submitter_falls_back_with_its_head() -> None:
    cluster = start(head=spot(afterNoRoom="20m"))
    cluster.edit(runId="second")
    cluster.finish()
    cluster.settle()
    cluster.start_rayjob()
    labels = cluster.objects[Resource.POD, "corpus-2-head"]["metadata"]["labels"]
    cluster.add_pod("corpus-2-xyz", {**labels, "strandline.dev/role": "submitter"})
    cluster.end_rayjob("Initializing", "")
    unplace(cluster, "xyz", NO_SUCH_NODE)
    wait_dry(cluster, None, 1320.0)
    cluster.finish_teardown()
    cluster.settle()
    assert not is_on_spot(cluster, "submitter")


def test_the_wait_for_a_coming_node_is_limited() -> None:
    cluster = dry(head=spot(afterNoRoom="20m"))
    place(cluster, "cpu")
    notice = ("TriggeredScaleUp", "pod triggered scale-up: [{spot 0->1 (max: 9)}]")
    wait_dry(cluster, notice, 1800.0)
    assert newest(cluster).end_time is None
    wait_dry(cluster, notice, 600.0)
    cluster.finish_teardown()
    cluster.settle()
    assert not is_on_spot(cluster)


def test_a_group_that_has_room_stays_on_spot_nodes() -> None:
    cluster = dry(head=spot(afterNoRoom="20m"), cpu=spot(afterNoRoom="20m"))
    place(cluster, "head")
    wait(cluster, 1500.0)
    cluster.finish_teardown()
    cluster.settle()
    assert is_on_spot(cluster)
    assert not is_on_spot(cluster, "cpu")


def test_without_the_fallback_setting_spot_nodes_are_awaited() -> None:
    cluster = dry(head=spot(afterDisruptions=1), cpu=spot(afterDisruptions=1))
    wait(cluster, 3 * HOUR)
    assert newest(cluster).end_time is None


def test_a_coming_node_delays_the_fallback() -> None:
    cluster = dry(head=spot(afterNoRoom="20m"))
    place(cluster, "cpu")
    wait(cluster, 1140.0, step=60.0)
    name = next(
        pod["metadata"]["name"]
        for pod in cluster.list_of(Resource.POD)
        if "head" in pod["metadata"]["name"]
    )
    cluster.warn("Pod", name, "TriggeredScaleUp", "pod triggered scale-up: [{spot 0->1}]")
    wait(cluster, 600.0, step=60.0)
    assert newest(cluster).end_time is None
    # The announced node has not appeared.
    wait(cluster, 900.0, step=60.0)
    assert newest(cluster).end_time is not None


def test_workers_that_never_come_while_the_driver_runs_fall_back_too() -> None:
    cluster = run_with_dry_workers()
    wait(cluster, 1500.0)
    assert newest(cluster).end_time is None
    ray = dict(cluster.spec["ray"])
    ray["workerGroups"] = [ray["workerGroups"][0] | {"spot": spot(afterNoRoom="20m")}]
    cluster.edit(ray=ray)
    cluster.settle()
    assert newest(cluster).end_time is not None
    assert newest(cluster).evidence[0].source == "no-room"


@pytest.mark.parametrize("cut_at", range(1, 30))
def test_an_operator_killed_at_any_call_decides_the_same(cut_at: int) -> None:
    cluster = dry(head=spot(afterNoRoom="20m"), cpu=spot(afterNoRoom="20m"))
    wait(cluster, 1140.0, step=60.0)
    cluster.cut_at = cluster.calls + cut_at
    cluster.advance(120.0)
    cluster.finish_teardown()
    cluster.settle()
    assert newest_spec(cluster)["onDemand"] == ["head", "cpu"]
    assert newest_spec(cluster)["number"] == 3
    assert not is_on_spot(cluster)
    assert newest(cluster).cause is None


def test_the_cause_of_an_attempt_ended_for_a_fallback_is_no_failure() -> None:
    cluster = dry(head=spot(afterNoRoom="20m"))
    place(cluster, "cpu")
    wait(cluster, 1500.0)
    assert newest(cluster).cause is Cause.INTERRUPTED
    assert newest(cluster).message == (
        "head found no room for 20m, so the next attempt uses on-demand nodes"
    )


def test_a_head_lost_on_demand_is_no_spot_loss() -> None:
    cluster = start(head=spot(afterDisruptions=1))
    preempt(cluster, "head")
    cluster.run_next()
    preempt(cluster, "head")
    assert [group.disruptions for group in cluster.status.spot] == [1]


def test_workers_lost_with_the_head_do_not_count() -> None:
    cluster = start(head=spot(afterDisruptions=2), cpu=spot(afterDisruptions=1))
    target = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    cluster.set_pod("cpu", phase="Failed", conditions=[target])
    preempt(cluster, "head")
    assert [(group.name, group.disruptions) for group in cluster.status.spot] == [("head", 1)]


def test_a_driver_reporting_its_interruption_has_lost_its_node_too() -> None:
    cluster = start(head=spot(afterDisruptions=1))
    target = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    cluster.set_pod("head", phase="Failed", conditions=[target])
    cluster.finish(75)
    assert [(group.name, group.disruptions) for group in cluster.status.spot] == [("head", 1)]


def test_a_suspension_does_not_count_as_a_loss() -> None:
    cluster = start(head=spot(afterDisruptions=1))
    cluster.edit(suspend=True)
    cluster.finish_teardown()
    cluster.edit(suspend=False)
    cluster.settle()
    assert cluster.status.spot == ()
    assert is_on_spot(cluster)
