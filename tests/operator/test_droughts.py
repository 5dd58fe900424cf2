"""Waits for capacity are reported and cost no retry. A pod that fits no node ends the attempt."""

from __future__ import annotations

from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.outcome.causes import Cause
from strandline_api.status.enums import PipelinePhase
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.model.nodes.capacity import NodeSize
from strandline_operator.model.plan import Resource

GIB = 1024**3
HOUR = 3600.0
FULL = "0/3 nodes are available: 3 Insufficient cpu."
NO_SUCH_NODE = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
BACKOFF = "pod didn't trigger scale-up: 1 in backoff after failed scale-up"
NEVER = "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 1 Insufficient cpu"
STOCK_OUT = (
    "Node scale up in zones us-central1-c associated with this pod failed: GCE out of resources. "
    "Pod is at risk of not being scheduled."
)
SIZES = (NodeSize("small", 16 * GIB, 4.0),)


def unplace(cluster: SimulatedCluster, ending: str, words: str = FULL) -> None:
    """Mark pods with this name ending as unschedulable, with the scheduler's message."""
    placed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    for pod in cluster.list_of(Resource.POD):
        if pod["metadata"]["name"].endswith(ending):
            pod["spec"] = pod.get("spec", {}) | {"nodeName": ""}
            pod["metadata"]["creationTimestamp"] = format_time(cluster.time)
            pod["status"] = {"phase": "Pending", "conditions": [{**placed, "message": words}]}


def place(cluster: SimulatedCluster, ending: str) -> None:
    """Place the pods on a node. Their containers are starting."""
    for pod in cluster.list_of(Resource.POD):
        if pod["metadata"]["name"].endswith(ending):
            pod["spec"] |= {"nodeName": "node-1"}
            pod["status"] = {"phase": "Pending"}


def wait(cluster: SimulatedCluster, seconds: float, step: float = 300.0) -> None:
    end = cluster.time + seconds
    while cluster.time < end:
        cluster.advance(min(step, end - cluster.time))


def start_dry(words: str = FULL, ending: str = "", **spec: Any) -> SimulatedCluster:
    """Return an attempt whose pods find no node."""
    cluster = SimulatedCluster()
    cluster.edit(**spec)
    cluster.launch("Initializing")
    unplace(cluster, ending, words)
    cluster.settle()
    return cluster


def summary(cluster: SimulatedCluster) -> tuple[str, str]:
    condition = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert condition is not None
    return condition.reason, condition.message


def newest(cluster: SimulatedCluster) -> Any:
    return cluster.attempts[max(cluster.attempts)][1]


def play_dry(cluster: SimulatedCluster, seconds: float) -> None:
    """Make the pods of each new attempt as KubeRay does, without nodes for the pods."""
    end = cluster.time + seconds
    while cluster.time < end:
        cluster.advance(60.0)
        cluster.sweep()
        cluster.settle()
        if any("status" not in rayjob for rayjob in cluster.list_of(Resource.RAYJOB)):
            cluster.start_rayjob()
            cluster.end_rayjob("Initializing", "")
            unplace(cluster, "")
            cluster.settle()


def test_two_hours_and_eighteen_minutes_without_capacity_end_nothing() -> None:
    cluster = start_dry()
    play_dry(cluster, 2 * HOUR + 18 * 60)
    assert cluster.status.phase is PipelinePhase.PENDING
    assert list(cluster.attempts) == ["corpus-1"]
    assert newest(cluster).end_time is None
    reason, message = summary(cluster)
    assert reason == Reason.NO_ROOM
    assert "3 Insufficient cpu" in message
    assert cluster.status.retries is not None
    assert cluster.status.retries.retries == 0


def test_the_wait_is_reported_with_start_request_and_source() -> None:
    cluster = start_dry()
    since = format_time(cluster.time)
    for pod in cluster.list_of(Resource.POD):
        pod["spec"]["containers"] = [{"resources": {"requests": {"cpu": 4, "memory": "8Gi"}}}]
        pod["spec"]["nodeSelector"] = {"cloud.google.com/gke-spot": "true"}
    cluster.warn("Pod", "corpus-1-head", "NotTriggerScaleUp", BACKOFF)
    cluster.notices[-1]["reportingComponent"] = "cluster-autoscaler"
    wait(cluster, 600.0)
    reason, message = summary(cluster)
    asked = "4 CPU, 8Gi of memory, a node with cloud.google.com/gke-spot=true"
    begin = f"head pod corpus-1-head has waited for a node since {since}"
    words = f"{begin} (requests {asked}); cluster-autoscaler: {BACKOFF}"
    assert reason == Reason.NO_ROOM
    assert words in message
    assert cluster.status.state == f"attempt 1: {words}"
    (event,) = [event for event in cluster.events if event.reason == "Blocked"]
    assert words in event.message
    assert newest(cluster).no_room_since.keys() == {"head", "cpu"}


def test_a_short_wait_for_a_node_is_no_news() -> None:
    cluster = start_dry()
    cluster.advance(30.0)
    assert summary(cluster)[0] == Reason.UNSCHEDULABLE
    assert [event for event in cluster.events if event.reason == "Blocked"] == []


def test_hours_without_capacity_do_not_shorten_the_start_deadline() -> None:
    cluster = start_dry()
    wait(cluster, 3 * HOUR)
    place(cluster, "")
    wait(cluster, 1500.0)
    assert newest(cluster).end_time is None
    assert newest(cluster).no_room_since == {}
    wait(cluster, 900.0)
    assert newest(cluster).cause is Cause.SCHEDULING_TIMEOUT


def test_a_user_defined_start_deadline_limits_the_wait() -> None:
    cluster = start_dry(deadlines={"preRunning": "1h"})
    wait(cluster, HOUR - 600)
    assert newest(cluster).end_time is None
    wait(cluster, 900.0)
    assert newest(cluster).cause is Cause.SCHEDULING_TIMEOUT
    assert "3 Insufficient cpu" in newest(cluster).message


def test_late_capacity_does_not_extend_a_user_defined_deadline() -> None:
    cluster = start_dry(deadlines={"preRunning": "1h"})
    wait(cluster, HOUR - 600)
    place(cluster, "")
    wait(cluster, 900.0)
    assert newest(cluster).cause is Cause.SCHEDULING_TIMEOUT


def test_a_runs_deadline_excludes_time_without_capacity() -> None:
    cluster = start_dry(deadlines={"run": "2h"})
    wait(cluster, 5 * HOUR)
    assert newest(cluster).end_time is None
    place(cluster, "")
    cluster.end_rayjob("Running", "RUNNING")
    wait(cluster, HOUR)
    assert newest(cluster).end_time is None
    wait(cluster, 1.5 * HOUR)
    assert newest(cluster).cause is Cause.DEADLINE_EXCEEDED


def test_a_coming_node_is_reported_and_awaited() -> None:
    cluster = start_dry(NO_SUCH_NODE)
    cluster.advance(90.0)
    cluster.warn(
        "Pod", "corpus-1-head", "TriggeredScaleUp", "pod triggered scale-up: [{spot 0->1}]"
    )
    cluster.warn("Pod", "corpus-1-cpu", "TriggeredScaleUp", "pod triggered scale-up: [{spot 0->1}]")
    cluster.advance(90.0)
    reason, message = summary(cluster)
    assert reason == Reason.NODE_ON_ITS_WAY
    assert "spot 0->1" in message


@pytest.mark.parametrize(("words", "sizes"), [(FULL, SIZES), (NO_SUCH_NODE, None)])
def test_a_pod_that_can_never_fit_ends_soon_with_its_message(words: str, sizes: Any) -> None:
    cluster = start_dry(words)
    cluster.sizes = sizes
    for pod in cluster.list_of(Resource.POD):
        pod["spec"]["containers"] = [{"resources": {"requests": {"cpu": 64}}}]
    cluster.warn("Pod", "corpus-1-head", "NotTriggerScaleUp", NEVER)
    cluster.settle()
    assert summary(cluster)[0] == Reason.UNSCHEDULABLE
    wait(cluster, 360.0, step=60.0)
    assert newest(cluster).cause is Cause.SCHEDULING_TIMEOUT
    assert newest(cluster).message.startswith(
        "pod corpus-1-head requests 64 CPU, and no node can hold it: "
    )
    assert NEVER in newest(cluster).message


@pytest.mark.parametrize(
    "words",
    [
        NO_SUCH_NODE,
        "0/2 nodes are available: 2 node(s) had untolerated taint {team: other}.",
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
    ],
)
def test_without_an_autoscaler_the_operators_own_limit_applies(words: str) -> None:
    cluster = start_dry(words)
    wait(cluster, 1500.0)
    assert newest(cluster).end_time is None
    wait(cluster, 600.0)
    assert newest(cluster).cause is Cause.SCHEDULING_TIMEOUT
    assert words.rstrip(".") in newest(cluster).message


DAY = 24 * HOUR


@pytest.mark.parametrize("sizes", [None, ()])
def test_a_wait_explained_only_by_the_scheduler_is_limited(sizes: Any) -> None:
    """If the capacity of nodes is unknown, the wait is limited."""
    cluster = start_dry()
    cluster.sizes = sizes
    wait(cluster, DAY - 600)
    assert newest(cluster).end_time is None
    wait(cluster, HOUR)
    assert newest(cluster).cause is Cause.SCHEDULING_TIMEOUT
    assert "3 Insufficient cpu" in newest(cluster).message
    assert "no known node can hold it" in newest(cluster).message


def test_the_limit_of_a_wait_survives_an_operator_restart() -> None:
    cluster = start_dry()
    for _ in range(5):
        cluster.restart(4 * HOUR)
        cluster.settle()
        wait(cluster, HOUR)
    assert newest(cluster).end_time is not None


def test_a_pod_with_raised_memory_waits_an_hour_for_an_unknown_node() -> None:
    cluster = SimulatedCluster()
    cluster.launch()
    cluster.settle()
    killed = {"reason": "OOMKilled", "exitCode": 137}
    cluster.set_pod(
        "head", containerStatuses=[{"name": "ray-head", "state": {"terminated": killed}}]
    )
    cluster.fail_attempt()
    cluster.advance(60.0)
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    unplace(cluster, "", "0/3 nodes are available: 3 Insufficient memory.")
    place(cluster, "cpu")
    wait(cluster, HOUR - 600)
    assert newest(cluster).end_time is None
    wait(cluster, HOUR)
    assert newest(cluster).cause is Cause.SCHEDULING_TIMEOUT
    assert "3 Insufficient memory" in newest(cluster).message


def test_an_unlimited_wait_needs_a_reason() -> None:
    """Two waits are unlimited: for a full but large enough node, and for a trying autoscaler."""
    full = start_dry()
    full.sizes = (NodeSize("large", 64 * GIB, 64.0),)
    wait(full, 3 * DAY, step=HOUR)
    assert newest(full).end_time is None
    tried = start_dry()
    for _ in range(72):
        for name in ("corpus-1-head", "corpus-1-cpu"):
            tried.warn("Pod", name, "FailedScaleUp", STOCK_OUT)
        wait(tried, HOUR, step=1200.0)
    assert newest(tried).end_time is None


def test_an_unbound_claim_does_not_require_a_larger_node() -> None:
    cluster = start_dry("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims")
    for pod in cluster.list_of(Resource.POD):
        pod["spec"]["containers"] = [{"resources": {"requests": {"cpu": 1}}}]
    cluster.settle()
    wait(cluster, 2100.0)
    assert newest(cluster).cause is Cause.SCHEDULING_TIMEOUT
    message = newest(cluster).message
    assert "pod corpus-1-head: 0/1 nodes are available: pod has unbound" in message
    assert "no node can hold it" not in message


def test_a_missing_priority_class_is_no_lack_of_capacity() -> None:
    cluster = start_dry()
    for pod in cluster.list_of(Resource.POD):
        del cluster.objects[Resource.POD, pod["metadata"]["name"]]
    cluster.fail_replicas('pods "x" is forbidden: no PriorityClass with name low was found')
    wait(cluster, 2700.0)
    assert newest(cluster).cause is Cause.SCHEDULING_TIMEOUT
    assert "no PriorityClass" in newest(cluster).message


def test_a_waiting_pod_does_not_hide_a_pod_that_never_fits() -> None:
    cluster = start_dry(NO_SUCH_NODE, ending="head")
    unplace(cluster, "cpu", FULL)
    wait(cluster, 2100.0)
    assert newest(cluster).cause is Cause.SCHEDULING_TIMEOUT


def test_a_pod_for_an_empty_pool_waits_while_its_autoscaler_tries() -> None:
    cluster = start_dry(NO_SUCH_NODE)
    for _ in range(12):
        for name in ("corpus-1-head", "corpus-1-cpu"):
            cluster.warn("Pod", name, "FailedScaleUp", STOCK_OUT)
        wait(cluster, 1200.0)
    assert newest(cluster).end_time is None
    assert "GCE out of resources" in summary(cluster)[1]


def test_the_events_of_one_pod_apply_to_its_whole_group() -> None:
    """Pods of a group are alike, so the operator reads the events of only one pod."""
    cluster = start_dry(NO_SUCH_NODE)
    labels = cluster.objects[Resource.POD, "corpus-1-cpu"]["metadata"]["labels"]
    for number in range(2, 5):
        cluster.add_pod(f"corpus-1-cpu-{number}", labels)
    unplace(cluster, "", NO_SUCH_NODE)
    for name in ("corpus-1-head", "corpus-1-cpu"):
        cluster.warn("Pod", name, "NotTriggerScaleUp", BACKOFF)
    wait(cluster, 2 * HOUR)
    assert newest(cluster).end_time is None
    assert summary(cluster)[0] == Reason.NO_ROOM


def run_with_dry_workers(**spec: Any) -> SimulatedCluster:
    """Return a running driver whose elastic group has no worker yet."""
    groups = [{"name": "cpu", "minReplicas": 0, "maxReplicas": 4}]
    cluster = SimulatedCluster()
    cluster.edit(ray={"workerGroups": groups}, **spec)
    cluster.launch()
    cluster.settle()
    unplace(cluster, "cpu")
    cluster.settle()
    return cluster


def test_unplaced_workers_do_not_end_an_attempt_with_a_running_driver() -> None:
    cluster = run_with_dry_workers()
    wait(cluster, 3 * HOUR)
    assert cluster.status.phase is PipelinePhase.RUNNING
    assert newest(cluster).end_time is None
    assert (newest(cluster).incidents, cluster.status.incidents) == (0, 0)
    assert summary(cluster)[0] == Reason.NO_ROOM
    assert "worker pod corpus-1-cpu" in summary(cluster)[1]
    cluster.set_pod("cpu", phase="Running", conditions=[])
    cluster.advance(60.0)
    assert summary(cluster)[0] == Reason.RUNNING


def test_a_group_with_fewer_workers_than_requested_is_no_news() -> None:
    cluster = run_with_dry_workers()
    labels = cluster.objects[Resource.POD, "corpus-1-cpu"]["metadata"]["labels"]
    cluster.add_pod("corpus-1-cpu-2", labels)
    wait(cluster, HOUR)
    assert summary(cluster)[0] == Reason.RUNNING


def test_a_group_without_workers_is_reported_even_if_another_works() -> None:
    cluster = run_with_dry_workers()
    labels = cluster.objects[Resource.POD, "corpus-1-cpu"]["metadata"]["labels"]
    cluster.add_pod("corpus-1-gpu", labels | {"strandline.dev/group": "gpu"})
    wait(cluster, HOUR)
    assert summary(cluster)[0] == Reason.NO_ROOM
    assert newest(cluster).no_room_since.keys() == {"cpu"}


def test_an_operator_continues_waiting_after_an_outage() -> None:
    cluster = start_dry()
    wait(cluster, HOUR)
    since = newest(cluster).no_room_since
    cluster.restart(3 * HOUR)
    cluster.settle()
    assert newest(cluster).end_time is None
    assert newest(cluster).no_room_since == since


def test_kuberay_waits_at_least_as_long() -> None:
    cluster = start_dry(deadlines={"attempt": "1h"})
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert rayjob["spec"]["preRunningDeadlineSeconds"] > 7 * 24 * HOUR
    assert rayjob["spec"]["activeDeadlineSeconds"] > 7 * 24 * HOUR
    bounded = start_dry(deadlines={"preRunning": "1h"})
    (rayjob,) = bounded.list_of(Resource.RAYJOB)
    assert HOUR < rayjob["spec"]["preRunningDeadlineSeconds"] < 2 * HOUR
