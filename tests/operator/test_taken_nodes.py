"""Attempts that lose nodes: the cause, the message, the cost in retries, and the next attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disruption_rows import ROWS
from node_bodies import (
    GKE_SPOT,
    NOT_FOUND,
    OLD_SHUTDOWN,
    SHUTTING_DOWN,
    SILENT,
    end_by_eviction,
    end_by_shutdown,
    spell_end,
    spell_node,
    spell_status,
    spell_taint,
)
from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.outcome.causes import Cause, Treatment
from strandline_api.outcome.disruptions import Disruption
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.status.enums import AttemptPhase
from strandline_operator.model.nodes.marks import NodeState, NodeView, read_marks
from strandline_operator.model.plan import Resource

Json = dict[str, Any]
TAKEN = frozenset({Cause.PREEMPTED, Cause.EVICTED, Cause.NODE_LOST})
SPOT = read_marks(spell_node(labels=GKE_SPOT))
GONE = replace(SPOT, is_gone=True)
DIED = "Job supervisor actor died: The actor is dead because its node has died."
# KubeRay's reports after the loss of a driver, which have no exit code of the driver.
ECHOES: list[Json] = [
    {"reason": "AppFailed", "message": DIED},
    {"reason": "AppFailed", "message": "Unexpected error occurred: the node has died"},
    {"reason": "JobStatusCheckTimeoutExceeded", "message": "no answer", "job": "RUNNING"},
    {"reason": "SubmissionFailed", "message": "the submitter gave up", "job": ""},
    {"reason": "SomethingNew", "message": "", "job": ""},
    {"reason": "AppFailed", "message": "Job entrypoint command failed with exit code 1"},
    {"reason": "AppFailed", "message": "Job entrypoint command failed with exit code 137"},
]


def make_running() -> SimulatedCluster:
    """Return a running attempt, its head on `node-h` and its worker on `node-w`, both spot."""
    cluster = SimulatedCluster.running()
    for pod in cluster.list_of(Resource.POD):
        is_head = pod["metadata"]["name"].endswith("head")
        pod["spec"] = {"nodeName": "node-h" if is_head else "node-w"}
    cluster.marks = {"node-h": SPOT, "node-w": SPOT}
    cluster.settle()
    return cluster


@pytest.fixture
def cluster() -> SimulatedCluster:
    return make_running()


def status_of(cluster: SimulatedCluster, name: str = "corpus-1") -> Any:
    return cluster.attempts[name][1]


def put_status(cluster: SimulatedCluster, ending: str, status: Json) -> None:
    for pod in cluster.list_of(Resource.POD):
        if pod["metadata"]["name"].endswith(ending):
            pod["status"] = status


def find_pod(cluster: SimulatedCluster, ending: str) -> Json:
    (pod,) = [
        each for each in cluster.list_of(Resource.POD) if each["metadata"]["name"].endswith(ending)
    ]
    return pod


def fail(cluster: SimulatedCluster, echo: Json = ECHOES[0]) -> None:
    words = {"deployment": "Failed", "job": "FAILED", **echo}
    cluster.end_rayjob(**words)
    cluster.settle()
    cluster.finish_teardown()


def check_end(cluster: SimulatedCluster, kind: Disruption, words: str) -> None:
    """Check that the attempt ended with this disruption, without a retry, and another runs."""
    status = status_of(cluster)
    assert (status.cause, status.evidence[0].details["reason"]) == (kind.cause, kind.value)
    assert words in status.message
    assert kind.cause.treatment is Treatment.DISRUPTION
    cluster.run_next()
    assert cluster.status.retries is not None
    assert (cluster.status.retries.retries, cluster.status.retries.disruptions) == (0, 0)
    cluster.finish()
    assert (cluster.status.retries.retries, cluster.status.retries.disruptions) == (0, 1)


@pytest.mark.parametrize("echo", ECHOES)
def test_a_spot_head_shut_down_is_reclaimed_whatever_kuberay_reports(
    cluster: SimulatedCluster, echo: Json
) -> None:
    put_status(cluster, "head", end_by_shutdown())
    fail(cluster, echo)
    check_end(cluster, Disruption.SPOT_RECLAIMED, "spot node node-h was reclaimed")


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("delay", [0.0, 45.0])
def test_a_head_that_vanishes_with_its_node_is_reclaimed(
    cluster: SimulatedCluster, echo: Json, delay: float
) -> None:
    """The VM is deleted: node and pods disappear without a final status."""
    cluster.end_rayjob(**{"deployment": "Failed", "job": "FAILED", **echo})
    if not delay:
        cluster.marks["node-h"] = GONE
        cluster.lose_pod("head")
    cluster.settle()
    # The node controller notices a deleted VM only after some time.
    cluster.advance(delay)
    cluster.marks["node-h"] = GONE
    if delay:
        cluster.lose_pod("head")
    cluster.settle()
    cluster.finish_teardown()
    check_end(cluster, Disruption.SPOT_RECLAIMED, "spot node node-h was reclaimed")


def test_a_kill_is_explained_by_a_node_found_missing(cluster: SimulatedCluster) -> None:
    put_status(cluster, "head", spell_status("Failed", state=spell_end(137)))
    cluster.end_rayjob("Failed", "FAILED", **ECHOES[0])
    cluster.settle()
    assert status_of(cluster).cause is Cause.KILLED
    cluster.advance(10)
    assert status_of(cluster).cause is Cause.KILLED
    cluster.marks["node-h"] = GONE
    cluster.settle()
    cluster.finish_teardown()
    check_end(cluster, Disruption.SPOT_RECLAIMED, "spot node node-h was reclaimed")


def test_a_node_gone_before_its_pods_is_the_cause(cluster: SimulatedCluster) -> None:
    cluster.marks["node-h"] = replace(GONE, is_spot=False)
    cluster.settle()
    assert status_of(cluster).end_time is None  # the driver's loss is not yet reported
    fail(cluster, ECHOES[1])
    check_end(cluster, Disruption.NODE_GONE, "node node-h was removed from the cluster")


@pytest.mark.parametrize(
    ("taints", "kind"),
    [
        ([], Disruption.NODE_DIED),
        ([spell_taint("node.cloudprovider.kubernetes.io/shutdown")], Disruption.SPOT_RECLAIMED),
        ([spell_taint("karpenter.sh/disrupted")], Disruption.NODE_DISRUPTED),
    ],
)
def test_pods_stuck_terminating_on_a_stopped_vm_are_reclaimed(
    cluster: SimulatedCluster, taints: list[Json], kind: Disruption
) -> None:
    cluster.marks["node-h"] = read_marks(
        spell_node("node-h", GKE_SPOT, conditions=[SILENT], taints=taints)
    )
    find_pod(cluster, "head")["metadata"]["deletionTimestamp"] = format_time(cluster.time)
    cluster.advance(41)
    cluster.nodes = {"node-h": NodeView(NodeState.SILENT)}
    cluster.settle()
    status = status_of(cluster)
    assert status.end_time is not None
    assert (status.cause, status.evidence[0].details["reason"]) == (kind.cause, kind)
    assert "node node-h of head pod corpus-1-head does not answer" in status.message
    cluster.nodes = {"node-h": NodeView(NodeState.GONE)}
    cluster.finish_teardown()
    assert status_of(cluster).cause is kind.cause


@pytest.mark.parametrize(
    "status",
    [
        spell_status("Failed", "Shutdown", OLD_SHUTDOWN, state=spell_end(137)),
        spell_status("Failed", "Terminated", end_by_shutdown()["message"], state=spell_end(137)),
    ],
)
def test_a_shutdown_without_a_condition_does_not_count_as_a_kill(
    cluster: SimulatedCluster, status: Json
) -> None:
    cluster.marks = {}
    put_status(cluster, "head", status)
    fail(cluster)
    check_end(cluster, Disruption.NODE_SHUTDOWN, "node node-h was shut down")


@pytest.mark.parametrize(("code", "reason"), [(137, "ContainerStatusUnknown"), (255, "Unknown")])
def test_containers_lost_by_a_node_do_not_count_as_killed(
    cluster: SimulatedCluster, code: int, reason: str
) -> None:
    put_status(cluster, "head", spell_status("Failed", state=spell_end(code, reason, NOT_FOUND)))
    fail(cluster)
    check_end(cluster, Disruption.NODE_RESTARTED, "node node-h came back without the containers")


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_failed_head_that_restarts_ends_the_attempt(
    cluster: SimulatedCluster, phase: str
) -> None:
    """The VM restarts, and its kubelet reports all pods as new."""
    put_status(cluster, "head", end_by_shutdown())
    cluster.settle()
    assert status_of(cluster).end_time is None
    put_status(cluster, "head", {"phase": phase})
    cluster.settle()
    assert status_of(cluster).end_time is not None
    cluster.finish_teardown()
    check_end(cluster, Disruption.SPOT_RECLAIMED, "spot node node-h was reclaimed")


RESERVED = (
    'failed to reserve container name "ray-head_corpus-1-head_team_x_1": name '
    '"ray-head_corpus-1-head_team_x_1" is reserved for "0123"'
)


def reserve_name(cluster: SimulatedCluster, words: str = RESERVED) -> None:
    waiting = {"reason": "CreateContainerError", "message": words}
    put_status(cluster, "head", spell_status("Running", state={"waiting": waiting}))


def test_a_reserved_container_name_ends_an_attempt_that_ran(cluster: SimulatedCluster) -> None:
    reserve_name(cluster)
    cluster.settle()
    assert status_of(cluster).end_time is not None
    cluster.finish_teardown()
    check_end(cluster, Disruption.NODE_RESTARTED, "node node-h came back without the containers")


@pytest.mark.parametrize(("words", "is_nodes"), [(RESERVED, True), ("no such secret", False)])
def test_a_reserved_container_name_at_the_start_finally_blames_the_node(
    words: str, *, is_nodes: bool
) -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    cluster.bind_claim()
    cluster.settle()
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    find_pod(cluster, "head")["spec"] = {"nodeName": "node-h"}
    reserve_name(cluster, words)
    cluster.advance(200)
    assert status_of(cluster).end_time is None
    assert "CreateContainerError" in status_of(cluster).find_condition("Succeeded").message
    cluster.advance(120)
    assert (status_of(cluster).end_time is not None) is is_nodes
    cluster.advance(1600)
    cluster.finish_teardown()
    expected = Cause.NODE_LOST if is_nodes else Cause.SCHEDULING_TIMEOUT
    assert status_of(cluster).cause is expected


def say_error(cluster: SimulatedCluster, code: int = 1) -> None:
    cluster.outcome = DriverOutcome(exit_code=code, message="a task raised an error")
    cluster.end_rayjob("Failed", "FAILED", message=f"exit code {code}", reason="AppFailed")
    cluster.settle()
    cluster.finish_teardown()
    cluster.outcome = None


@pytest.mark.parametrize("role", ["head", "cpu"])
def test_a_nodes_end_takes_precedence_over_the_resulting_error(
    cluster: SimulatedCluster, role: str
) -> None:
    put_status(cluster, role, end_by_shutdown())
    say_error(cluster)
    check_end(cluster, Disruption.SPOT_RECLAIMED, "was reclaimed")


def test_an_error_on_a_departing_node_is_caused_by_the_node(cluster: SimulatedCluster) -> None:
    cluster.marks["node-h"] = read_marks(
        spell_node("node-h", taints=[spell_taint("aws-node-termination-handler/spot-itn")])
    )
    say_error(cluster)
    check_end(cluster, Disruption.SPOT_RECLAIMED, "spot node node-h was reclaimed")


@pytest.mark.parametrize(
    ("code", "cause"),
    [(65, Cause.NON_DETERMINISTIC), (3, Cause.SOURCES_FAILED), (75, Cause.PREEMPTED)],
)
def test_a_drivers_own_end_counts_despite_its_departing_node(
    cluster: SimulatedCluster, code: int, cause: Cause
) -> None:
    cluster.marks["node-h"] = read_marks(
        spell_node("node-h", taints=[spell_taint("aws-node-termination-handler/spot-itn")])
    )
    say_error(cluster, code)
    assert status_of(cluster).cause in {cause, *([Cause.LEDGER_MISMATCH] if code == 65 else [])}


def test_an_error_on_a_cordoned_node_is_an_application_error(
    cluster: SimulatedCluster,
) -> None:
    cluster.marks = dict.fromkeys(cluster.marks, replace(SPOT, is_cordoned=True))
    say_error(cluster)
    assert status_of(cluster).cause is Cause.APPLICATION_ERROR


@pytest.mark.parametrize("role", ["head", "cpu"])
def test_a_node_lost_after_the_end_is_not_the_cause(cluster: SimulatedCluster, role: str) -> None:
    cluster.outcome = DriverOutcome(exit_code=1, message="a task raised an error")
    cluster.end_rayjob("Failed", "FAILED", message="exit code 1", reason="AppFailed")
    cluster.settle()
    cluster.time += 4
    node = "node-h" if role == "head" else "node-w"
    cluster.marks[node] = read_marks(
        spell_node(node, taints=[spell_taint("karpenter.sh/disrupted")])
    )
    put_status(cluster, role, end_by_eviction())
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.APPLICATION_ERROR


def test_a_reclaimed_worker_is_absorbed_and_named(cluster: SimulatedCluster) -> None:
    put_status(cluster, "cpu", end_by_shutdown())
    cluster.lose_pod("cpu")
    cluster.settle()
    assert (status_of(cluster).phase, status_of(cluster).incidents) == (AttemptPhase.RUNNING, 1)
    (event,) = [each for each in cluster.events if each.reason == "WorkerLost"]
    assert "worker corpus-1-cpu: spot node node-w was reclaimed" in event.message


def test_a_worker_that_vanishes_with_its_node_counts_as_lost(cluster: SimulatedCluster) -> None:
    cluster.marks["node-w"] = GONE
    cluster.settle()
    assert status_of(cluster).incidents == 0
    cluster.lose_pod("cpu")
    cluster.settle()
    assert status_of(cluster).incidents == 1


def test_a_worker_scaled_down_is_not_lost(cluster: SimulatedCluster) -> None:
    find_pod(cluster, "cpu")["metadata"]["deletionTimestamp"] = format_time(cluster.time)
    cluster.settle()
    cluster.lose_pod("cpu")
    cluster.settle()
    assert status_of(cluster).incidents == 0


def test_a_reclaimed_submitter_costs_no_retry(cluster: SimulatedCluster) -> None:
    head = find_pod(cluster, "head")["metadata"]["labels"]
    cluster.add_pod("corpus-1-xyz", {**head, "strandline.dev/role": "submitter"})
    find_pod(cluster, "xyz")["spec"] = {"nodeName": "node-w"}
    put_status(cluster, "xyz", end_by_shutdown())
    fail(cluster, ECHOES[3])
    check_end(cluster, Disruption.SPOT_RECLAIMED, "submitter corpus-1-xyz: spot node node-w")


def test_the_disruption_is_reported_as_soon_as_a_node_shows_it(cluster: SimulatedCluster) -> None:
    put_status(cluster, "head", end_by_eviction())
    cluster.end_rayjob("Failed", "FAILED", **ECHOES[0])
    cluster.settle()
    assert status_of(cluster).evidence[0].details["reason"] == Disruption.POD_EVICTED
    cluster.marks["node-h"] = read_marks(
        spell_node("node-h", taints=[spell_taint("ToBeDeletedByClusterAutoscaler")])
    )
    cluster.advance(1)
    first = status_of(cluster).evidence[0]
    assert first.details["reason"] == Disruption.NODE_SCALED_DOWN
    assert "was removed by the cluster autoscaler" in status_of(cluster).message


@given(
    st.sampled_from(sorted(ROWS)),
    st.sampled_from(["head", "cpu"]),
    st.sampled_from(ECHOES),
    st.booleans(),
    st.sampled_from([None, 1, 75]),
)
def test_law_an_attempt_with_a_lost_node_never_counts_as_failed(
    name: str, role: str, echo: Json, is_gone: bool, code: int | None
) -> None:
    row, cluster = ROWS[name], make_running()
    node = "node-h" if role == "head" else "node-w"
    cluster.marks.pop(node)
    if row.node is not None:
        cluster.marks[node] = replace(read_marks(row.node), name=node)
    put_status(cluster, role, row.status)
    if is_gone or row.is_gone:
        cluster.lose_pod(role)
    if code is not None:
        cluster.outcome = DriverOutcome(exit_code=code)
    cluster.end_rayjob(**{"deployment": "Failed", "job": "FAILED", **echo})
    cluster.settle()
    cluster.finish_teardown()
    status = status_of(cluster)
    # Exit code 75 is a driver's own report of a stop request, and a worker's loss requests no stop.
    allowed = TAKEN | ({Cause.INTERRUPTED} if code == 75 and role == "cpu" else set())
    assert status.cause in allowed, (name, status.evidence)


def test_a_shutdown_mark_on_the_node_precedes_the_end_of_its_pods(
    cluster: SimulatedCluster,
) -> None:
    cluster.marks["node-h"] = read_marks(spell_node("node-h", conditions=[SHUTTING_DOWN]))
    fail(cluster)
    check_end(cluster, Disruption.NODE_SHUTDOWN, "node node-h was shut down")
