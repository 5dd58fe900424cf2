"""An attempt waits for a volume that is still attached to a lost node.

The wait costs no retry, and its message names the condition that ends the wait.
"""

from __future__ import annotations

from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.outcome.causes import Cause
from strandline_operator.model.plan import Resource

HEAD = "corpus-1-head"
MULTI = (
    'Multi-Attach error for volume "pvc-8f21" Volume is already exclusively attached to one node'
    " and can't be attached to another"
)
USED = 'Multi-Attach error for volume "pvc-8f21" Volume is already used by pod(s) corpus-0-head'
HELD = [
    ("FailedAttachVolume", MULTI),
    ("FailedAttachVolume", USED),
    (
        "FailedAttachVolume",
        'AttachVolume.Attach failed for volume "pvc-8f21" : rpc error: code = Internal desc ='
        " volume vol-1 is already attached to node ip-10-0-0-7",
    ),
    (
        "FailedAttachVolume",
        'AttachVolume.Attach failed for volume "pvc-8f21" : googleapi: Error 400:'
        " RESOURCE_IN_USE_BY_ANOTHER_RESOURCE - The disk is already being used by 'gke-1'",
    ),
    (
        "FailedAttachVolume",
        'AttachVolume.Attach failed for volume "pvc-8f21" : VolumeInUse: vol-1 is already attached'
        " to an instance",
    ),
]
BROKEN = [
    ("FailedAttachVolume", 'AttachVolume.Attach failed for volume "pvc-8f21" : disk not found'),
    ("FailedAttachVolume", 'AttachVolume.Attach failed for volume "pvc-8f21" : permission denied'),
    ("FailedMount", 'MountVolume.SetUp failed for volume "secret" : secret "x" not found'),
]
CREATING = [{"name": "ray-head", "state": {"waiting": {"reason": "ContainerCreating"}}}]


def start(**deadlines: str) -> SimulatedCluster:
    """Start an attempt whose head has a node but no running container."""
    cluster = SimulatedCluster()
    if deadlines:
        cluster.edit(deadlines=deadlines)
    cluster.launch("Initializing")
    for pod in cluster.list_of(Resource.POD):
        pod["spec"] = {"nodeName": "node-2"}
        pod["metadata"]["creationTimestamp"] = format_time(cluster.time)
        pod["status"] = {"phase": "Pending", "containerStatuses": CREATING}
    cluster.settle()
    return cluster


def remember_former_head(cluster: SimulatedCluster) -> None:
    """Record a deleted head pod of the previous attempt on `node-1`."""
    labels = {"strandline.dev/role": "head", "strandline.dev/attempt": "0"}
    cluster.gone_pods.append(
        {
            "metadata": {"name": "corpus-0-head", "uid": "old", "labels": labels},
            "spec": {"nodeName": "node-1"},
        }
    )


def status_of(cluster: SimulatedCluster) -> Any:
    return cluster.attempts["corpus-1"][1]


def read_condition(cluster: SimulatedCluster) -> tuple[str, str]:
    condition = status_of(cluster).find_condition("Succeeded")
    return condition.reason, condition.message


def wait(cluster: SimulatedCluster, seconds: float, warning: tuple[str, str]) -> None:
    """Advance the time. The controller warns every two minutes."""
    end = cluster.time + seconds
    while cluster.time < end:
        cluster.notices.clear()
        cluster.warn("Pod", HEAD, *warning)
        cluster.advance(min(120.0, end - cluster.time))


@pytest.mark.parametrize("warning", HELD)
def test_an_attempt_waits_for_free_while_another_node_has_its_volume(
    warning: tuple[str, str],
) -> None:
    cluster = start()
    remember_former_head(cluster)
    wait(cluster, 4 * 3600, warning)
    reason, message = read_condition(cluster)
    assert (status_of(cluster).end_time, reason) == (None, "VolumeStillAttached")
    assert "waits for volume pvc-8f21, which is attached to node" in message
    assert "`node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`" in message
    assert ("to node ip-10-0-0-7:" if "ip-10-0-0-7" in warning[1] else "to node node-1:") in message
    summary = cluster.status.find_condition("Succeeded")
    assert summary is not None
    assert summary.reason == "VolumeStillAttached"


def test_an_unknown_former_node_is_not_named() -> None:
    cluster = start()
    wait(cluster, 60, HELD[0])
    assert "which is attached to another node" in read_condition(cluster)[1]


def test_a_freed_volume_restarts_the_start_deadline() -> None:
    cluster = start()
    wait(cluster, 3 * 3600, HELD[0])
    cluster.notices.clear()
    cluster.set_pod("head", containerStatuses=[{"name": "ray-head", "state": {"running": {}}}])
    cluster.settle()
    assert status_of(cluster).end_time is None
    cluster.advance(cluster.limits.pre_running - 1)
    assert status_of(cluster).end_time is None
    cluster.advance(3)
    assert status_of(cluster).end_time is not None
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.SCHEDULING_TIMEOUT


def test_a_user_defined_deadline_applies_to_the_wait() -> None:
    cluster = start(preRunning="10m")
    wait(cluster, 590, HELD[0])
    assert status_of(cluster).end_time is None
    wait(cluster, 20, HELD[0])
    assert status_of(cluster).end_time is not None
    assert "which is attached to another node" in status_of(cluster).evidence[0].message


@pytest.mark.parametrize("warning", BROKEN)
def test_the_wait_for_an_unavailable_volume_is_limited(
    warning: tuple[str, str],
) -> None:
    cluster = start()
    wait(cluster, 60, warning)
    assert read_condition(cluster)[0] == "VolumeNotMounted"
    wait(cluster, cluster.limits.pre_running, warning)
    assert status_of(cluster).end_time is not None


@pytest.mark.parametrize("warning", [each for each in HELD if "Multi-Attach" not in each[1]])
def test_warnings_that_stopped_no_longer_extend_the_wait(warning: tuple[str, str]) -> None:
    cluster = start()
    wait(cluster, 60, warning)
    cluster.advance(200)
    assert read_condition(cluster)[0] == "Starting"


ONCE = [each for each in HELD if "Multi-Attach" in each[1]]


@pytest.mark.parametrize("is_forgotten", [False, True])
@pytest.mark.parametrize("warning", ONCE)
def test_a_warning_reported_once_counts_until_the_pod_starts(
    warning: tuple[str, str], *, is_forgotten: bool
) -> None:
    """The wait counts even after the event has expired, which Kubernetes deletes after an hour."""
    cluster = start()
    remember_former_head(cluster)
    cluster.warn("Pod", HEAD, *warning)
    # Later events of the kubelet report a mount timeout without a reason.
    late = "Unable to attach or mount volumes: unmounted volumes=[ledger]: timed out waiting"
    for _ in range(40):
        cluster.warn("Pod", HEAD, "FailedMount", late)
        cluster.advance(150.0)
    if is_forgotten:
        cluster.notices.clear()
        cluster.gone_pods.clear()
        cluster.restart(60.0)
        cluster.settle()
        cluster.advance(3600.0)
    reason, message = read_condition(cluster)
    assert (status_of(cluster).end_time, reason) == (None, "VolumeStillAttached")
    assert "which is attached to node node-1: Multi-Attach error" in message
    cluster.set_pod("head", containerStatuses=[{"name": "ray-head", "state": {"running": {}}}])
    cluster.advance(cluster.limits.pre_running - 1)
    assert status_of(cluster).end_time is None
    assert read_condition(cluster)[0] == "Starting"


@pytest.mark.parametrize(
    "past",
    [
        ("SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "pvc-8f21"'),
        ("FailedMount", 'MountVolume.MountDevice failed for volume "pvc-8f21" : bad superblock'),
        BROKEN[0],
    ],
)
def test_an_event_that_shows_the_volume_free_ends_the_wait(past: tuple[str, str]) -> None:
    cluster = start()
    cluster.warn("Pod", HEAD, *HELD[0])
    cluster.advance(600.0)
    assert read_condition(cluster)[0] == "VolumeStillAttached"
    cluster.warn("Pod", HEAD, *past)
    cluster.advance(1.0)
    assert read_condition(cluster)[0] != "VolumeStillAttached"
