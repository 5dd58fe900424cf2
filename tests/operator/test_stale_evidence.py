"""Losses that the attempt absorbed do not explain its end, even after an operator restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from node_bodies import GKE_SPOT, end_by_shutdown, spell_node
from operator_bodies import oom
from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.objects.attempt import MAX_EVIDENCE, AttemptStatus
from strandline_api.outcome.causes import Cause, Treatment
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.pipeline_status import Progress
from strandline_operator.model.nodes.marks import read_marks
from strandline_operator.model.plan import Resource

HOUR = 3600.0
MARKS = read_marks(spell_node("node-1", labels=GKE_SPOT))
Json = dict[str, Any]
End = Callable[[SimulatedCluster], None]


def make_running(**spec: Any) -> SimulatedCluster:
    """Return a running attempt with pods on a spot node. Losses of workers are absorbed."""
    cluster = SimulatedCluster()
    spot = {"preset": "gke", "fallback": {"afterDisruptions": 1}}
    group = {"name": "cpu", "resources": {"memory": "8Gi"}, "spot": spot}
    loss = {"oom": "Absorb", "disruption": "Absorb"}
    deadlines = {"stall": "5m"}
    cluster.edit(ray={"workerGroups": [group]}, onWorkerLoss=loss, deadlines=deadlines, **spec)
    cluster.launch()
    for pod in cluster.list_of(Resource.POD):
        pod["spec"] = {"nodeName": "node-1"}
    cluster.marks = {"node-1": MARKS}
    tell_progress(cluster, 1)
    return cluster


def tell_progress(cluster: SimulatedCluster, finished: int) -> None:
    cluster.progress = Progress(total=1000, finished=finished, time=cluster.time)
    cluster.settle()


def add_worker(cluster: SimulatedCluster, name: str = "corpus-1-other", **status: Any) -> Json:
    (worker,) = [
        pod for pod in cluster.list_of(Resource.POD) if pod["metadata"]["name"] == "corpus-1-cpu"
    ]
    cluster.add_pod(name, worker["metadata"]["labels"], **status)
    body = cluster.objects[Resource.POD, name]
    body["metadata"]["creationTimestamp"] = format_time(cluster.time)
    body["spec"] = {"nodeName": "node-1"}
    return body


def put_status(cluster: SimulatedCluster, name: str, status: Json) -> None:
    cluster.objects[Resource.POD, name]["status"] = status


def preempt(cluster: SimulatedCluster, name: str = "corpus-1-other", *, is_dated: bool) -> None:
    """Reclaim a worker's node, and delete the worker's pod as KubeRay does."""
    status = end_by_shutdown()
    if is_dated:
        status["conditions"][0]["lastTransitionTime"] = format_time(cluster.time)
    put_status(cluster, name, status)
    cluster.settle()
    cluster.lose_pod(name)
    cluster.settle()


def kill_for_memory(
    cluster: SimulatedCluster, name: str = "corpus-1-other", *, is_dated: bool
) -> None:
    """Kill a worker for memory, and delete the pod as KubeRay does."""
    container = oom("ray-worker")
    if is_dated:
        container["state"]["terminated"]["finishedAt"] = format_time(cluster.time)
    put_status(cluster, name, {"phase": "Failed", "containerStatuses": [container]})
    cluster.settle()
    cluster.lose_pod(name)
    cluster.settle()


def go_on(cluster: SimulatedCluster, seconds: float, finished: int = 500) -> None:
    """Report progress before and after the given seconds, first with half of the sources."""
    cluster.advance(15.0)
    tell_progress(cluster, finished // 2)
    cluster.advance(seconds)
    tell_progress(cluster, finished)


def forget(cluster: SimulatedCluster) -> None:
    """Restart the operator, which loses its memory."""
    cluster.gone_pods.clear()
    cluster.seen.clear()
    cluster.restart(5.0)


def status_of(cluster: SimulatedCluster) -> AttemptStatus:
    return cluster.attempts["corpus-1"][1]


def end_by_memory(cluster: SimulatedCluster) -> None:
    cluster.set_pod("head", containerStatuses=[oom("ray-head")])
    cluster.end_rayjob("Failed", "RUNNING", reason="AppFailed", message="Ray job not found")


def end_by_error(cluster: SimulatedCluster) -> None:
    cluster.end_rayjob("Failed", "FAILED", reason="AppFailed", message="exit code 1")


def end_by_fault(cluster: SimulatedCluster) -> None:
    cluster.end_rayjob("Failed", "FAILED", reason="AppFailed", message="exit code 139")


def end_by_own_word(cluster: SimulatedCluster) -> None:
    cluster.outcome = DriverOutcome(exit_code=1, message="a task raised an error")
    end_by_error(cluster)


def end_by_silence(cluster: SimulatedCluster) -> None:
    cluster.ask_in_vain(HOUR / 6)


ENDS: dict[str, tuple[End, Cause]] = {
    "head killed for memory": (end_by_memory, Cause.OOM_KILLED),
    "exit code 1": (end_by_error, Cause.APPLICATION_ERROR),
    "segfault": (end_by_fault, Cause.APPLICATION_ERROR),
    "stall": (end_by_silence, Cause.STALLED),
    "driver's own error": (end_by_own_word, Cause.APPLICATION_ERROR),
}
LOSSES = {"preempted": preempt, "killed for memory": kill_for_memory}


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("is_dated", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("end", ENDS)
def test_an_absorbed_loss_does_not_explain_a_later_end(
    end: str, loss: str, *, is_dated: bool, is_restarted: bool
) -> None:
    cluster = make_running()
    add_worker(cluster)
    cluster.settle()
    LOSSES[loss](cluster, is_dated=is_dated)
    go_on(cluster, 4 * HOUR)
    if is_restarted:
        forget(cluster)
    ending, cause = ENDS[end]
    ending(cluster)
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is cause, status_of(cluster).evidence
    assert cluster.status.memory == ({"head": "6144Mi"} if cause is Cause.OOM_KILLED else {})
    assert cluster.status.spot == ()
    cluster.run_next()
    cluster.finish()
    assert cluster.status.retries is not None
    assert (cluster.status.retries.retries, cluster.status.retries.disruptions) == (1, 0)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_replaced_loss_does_not_explain_an_end_soon_after(loss: str) -> None:
    """A replacement worker is ready, although no source has been finished."""
    cluster = make_running()
    add_worker(cluster)
    LOSSES[loss](cluster, is_dated=True)
    cluster.advance(20.0)
    ready = [{"type": "Ready", "status": "True"}]
    add_worker(cluster, "corpus-1-next", conditions=ready)
    cluster.advance(20.0)
    end_by_error(cluster)
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.APPLICATION_ERROR


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("is_dated", [False, True])
@pytest.mark.parametrize(
    ("loss", "cause"), [("preempted", Cause.PREEMPTED), ("killed for memory", Cause.OOM_KILLED)]
)
def test_a_loss_just_before_the_end_explains_it_even_after_a_restart(
    loss: str, cause: Cause, *, is_dated: bool, is_restarted: bool
) -> None:
    cluster = make_running()
    add_worker(cluster)
    LOSSES[loss](cluster, is_dated=is_dated)
    if is_restarted:
        forget(cluster)
    cluster.advance(10.0)
    end_by_error(cluster)
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is cause
    assert cluster.status.memory == ({"cpu": "12288Mi"} if loss != "preempted" else {})


def test_a_second_kill_in_the_same_container_counts_though_the_first_was_absorbed() -> None:
    cluster = make_running()
    add_worker(cluster)

    def kill(*, is_up: bool) -> Json:
        container = oom("ray-worker")
        end = container.pop("state")
        end["terminated"]["finishedAt"] = format_time(cluster.time)
        if is_up:
            running = {"running": {"startedAt": format_time(cluster.time + 1)}}
            return {**container, "state": running, "lastState": end}
        return {**container, "state": end}

    up = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    put_status(cluster, "corpus-1-other", {**up, "containerStatuses": [kill(is_up=True)]})
    cluster.settle()
    go_on(cluster, HOUR)
    put_status(cluster, "corpus-1-other", {**up, "containerStatuses": [kill(is_up=False)]})
    cluster.settle()
    cluster.advance(5.0)
    end_by_error(cluster)
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.OOM_KILLED
    assert cluster.status.memory == {"cpu": "12288Mi"}


def test_a_kill_dated_in_the_future_is_one_loss() -> None:
    cluster = make_running()
    add_worker(cluster)
    container = oom("ray-worker")
    container["state"]["terminated"]["finishedAt"] = format_time(cluster.time + HOUR)
    put_status(cluster, "corpus-1-other", {"phase": "Failed", "containerStatuses": [container]})
    for _ in range(4):
        cluster.advance(20.0)
    (loss,) = status_of(cluster).losses
    assert loss.time == cluster.time - 60.0
    assert status_of(cluster).incidents == 1


@pytest.mark.parametrize("is_restarted", [False, True])
def test_many_losses_leave_room_for_the_heads_own_record(*, is_restarted: bool) -> None:
    cluster = make_running()
    for number in range(2 * MAX_EVIDENCE):
        add_worker(cluster, f"corpus-1-w{number}")
        preempt(cluster, f"corpus-1-w{number}", is_dated=True)
        cluster.advance(30.0)
        tell_progress(cluster, 10 + number)
    for number in range(2 * MAX_EVIDENCE):
        add_worker(cluster, f"corpus-1-v{number}")
        preempt(cluster, f"corpus-1-v{number}", is_dated=True)
    put_status(cluster, "corpus-1-head", end_by_shutdown())
    cluster.marks = {}
    cluster.settle()
    cluster.lose_pod("head")
    cluster.settle()
    if is_restarted:
        forget(cluster)
    end_by_error(cluster)
    cluster.settle()
    cluster.finish_teardown()
    status = status_of(cluster)
    assert [record.details.get("role") for record in status.evidence].count("head") == 1
    assert len(status.evidence) <= MAX_EVIDENCE
    assert status.cause is Cause.NODE_LOST
    assert "corpus-1-head" in status.message


def test_a_heads_end_is_not_explained_by_an_earlier_worker_loss() -> None:
    cluster = make_running()
    add_worker(cluster)
    preempt(cluster, is_dated=True)
    cluster.advance(5.0)
    end_by_memory(cluster)
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.OOM_KILLED
    assert cluster.status.memory == {"head": "6144Mi"}
    assert cluster.status.spot == ()


def preempt_submitter(cluster: SimulatedCluster) -> None:
    head = cluster.objects[Resource.POD, "corpus-1-head"]["metadata"]["labels"]
    cluster.add_pod("corpus-1-xyz", {**head, "strandline.dev/role": "submitter"})
    cluster.objects[Resource.POD, "corpus-1-xyz"]["spec"] = {"nodeName": "node-1"}
    preempt(cluster, "corpus-1-xyz", is_dated=False)


def test_a_submitters_loss_explains_kuberays_later_report() -> None:
    cluster = make_running()
    preempt_submitter(cluster)
    go_on(cluster, 45.0)
    words = {"reason": "SubmissionFailed", "message": "the submitter gave up"}
    cluster.end_rayjob("Failed", "RUNNING", **words)
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.PREEMPTED


def test_the_submitters_loss_does_not_explain_an_end_hours_later() -> None:
    cluster = make_running()
    preempt_submitter(cluster)
    go_on(cluster, 4 * HOUR)
    end_by_memory(cluster)
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.OOM_KILLED


def test_a_head_replaced_before_the_driver_ran_explains_no_later_end() -> None:
    cluster = SimulatedCluster()
    cluster.launch("Initializing")
    metadata = cluster.objects[Resource.POD, "corpus-1-head"]["metadata"]
    metadata["creationTimestamp"] = format_time(cluster.time)
    labels = metadata["labels"]
    preempt(cluster, "corpus-1-head", is_dated=False)
    cluster.advance(30.0)
    cluster.add_pod("corpus-1-head", labels)
    body = cluster.objects[Resource.POD, "corpus-1-head"]
    body["metadata"]["creationTimestamp"] = format_time(cluster.time)
    cluster.end_rayjob("Running", "RUNNING")
    cluster.settle()
    tell_progress(cluster, 1)
    go_on(cluster, 4 * HOUR)
    end_by_error(cluster)
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.APPLICATION_ERROR


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_failed_and_deleted_head_has_the_same_cause_after_a_restart(
    *, is_restarted: bool
) -> None:
    """The end names no cause: KubeRay only reports the missing head."""
    cluster = make_running()
    container = {"name": "ray-head", "state": {"terminated": {"exitCode": 139, "reason": "Error"}}}
    cluster.set_pod("head", phase="Failed", containerStatuses=[container])
    cluster.settle()
    cluster.lose_pod("head")
    cluster.settle()
    if is_restarted:
        forget(cluster)
    words = {"reason": "AppFailed", "message": "Ray head pod not found"}
    cluster.end_rayjob("Failed", "FAILED", **words)
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.SUBMISSION_FAILED


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_head_replaced_mid_run_has_the_same_cause_after_a_restart(*, is_restarted: bool) -> None:
    cluster = make_running()
    labels = cluster.objects[Resource.POD, "corpus-1-head"]["metadata"]["labels"]
    preempt(cluster, "corpus-1-head", is_dated=True)
    if is_restarted:
        forget(cluster)
    cluster.time += 10.0
    cluster.add_pod("corpus-1-head", labels)
    body = cluster.objects[Resource.POD, "corpus-1-head"]
    body["metadata"]["creationTimestamp"] = format_time(cluster.time)
    cluster.settle()
    assert status_of(cluster).end_time is not None
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.PREEMPTED


def test_a_kill_absorbed_long_ago_causes_no_new_attempt() -> None:
    """After a change of the policy, losses under the previous policy end nothing."""
    cluster = make_running()
    add_worker(cluster)
    kill_for_memory(cluster, is_dated=True)
    go_on(cluster, HOUR)
    cluster.edit(onWorkerLoss={"oom": "Recreate", "disruption": "Recreate"})
    cluster.advance(60.0)
    assert status_of(cluster).end_time is None


def test_a_node_lost_during_a_hold_does_not_explain_the_end() -> None:
    cluster = make_running(retry={"maxRetries": 0, "jitter": "none"}, holdOnFailure="4h")
    end_by_error(cluster)
    cluster.settle()
    cluster.advance(10.0)
    assert status_of(cluster).cause is Cause.APPLICATION_ERROR
    assert status_of(cluster).held_until is not None
    cluster.advance(2 * HOUR)
    cluster.marks = {
        "node-1": read_marks(
            spell_node("node-1", taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": ""}])
        )
    }
    cluster.settle()
    assert status_of(cluster).cause is Cause.APPLICATION_ERROR


def test_a_kill_seen_only_by_the_driver_counts() -> None:
    cluster = make_running()
    told = Evidence(Cause.OOM_KILLED, "workers of stage 'x' were killed for memory", "ray")
    cluster.outcome = DriverOutcome(exit_code=1, message="unfinished", evidence=(told,))
    cluster.end_rayjob("Failed", "FAILED")
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.OOM_KILLED
    assert Cause.OOM_KILLED.treatment is Treatment.RETRIED


def test_a_loss_hours_ago_seen_by_a_new_process_explains_no_end() -> None:
    """The operator was stopped, and the failed pod still exists with the time of its end."""
    cluster = make_running()
    add_worker(cluster)
    put_status(cluster, "corpus-1-other", date(end_by_shutdown(), cluster.time))
    cluster.time += 4 * HOUR
    end_by_memory(cluster)
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.OOM_KILLED
    assert cluster.status.memory == {"head": "6144Mi"}


@pytest.mark.parametrize("name", ["corpus-1-other", "corpus-1-head"])
def test_a_loss_just_before_an_end_explains_it_even_if_both_are_seen_late(name: str) -> None:
    cluster = make_running()
    add_worker(cluster)
    put_status(cluster, name, date(end_by_shutdown(), cluster.time))
    cluster.time += 10.0
    ended = {"endTime": format_time(cluster.time)}
    cluster.end_rayjob("Failed", "FAILED", reason="AppFailed", message="exit code 1", **ended)
    cluster.time += 40 * 60.0
    cluster.progress = None
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.PREEMPTED


@pytest.mark.parametrize("name", ["corpus-1-other", "corpus-1-head"])
def test_a_loss_after_an_end_does_not_explain_it_if_both_are_seen_late(name: str) -> None:
    cluster = make_running()
    add_worker(cluster)
    cluster.time += 10.0
    ended = {"endTime": format_time(cluster.time)}
    cluster.end_rayjob("Failed", "FAILED", reason="AppFailed", message="exit code 1", **ended)
    cluster.time += 30 * 60.0
    put_status(cluster, name, date(end_by_shutdown(), cluster.time))
    cluster.time += 10 * 60.0
    cluster.progress = None
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.APPLICATION_ERROR


def date(status: Json, time: float) -> Json:
    """Add times to the condition and the container ends of a pod's status."""
    for condition in status["conditions"]:
        condition["lastTransitionTime"] = format_time(time)
    for container in status["containerStatuses"]:
        container["state"]["terminated"]["finishedAt"] = format_time(time)
    return status
