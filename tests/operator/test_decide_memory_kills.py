"""Memory kills: which group is blamed, how its memory grows, and which kills have no effect."""

from __future__ import annotations

import pytest

from operator_bodies import oom
from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.enums import PipelinePhase
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.plan import Resource


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose first attempt is running."""
    return SimulatedCluster.running()


def causes(cluster: SimulatedCluster) -> list[Cause | None]:
    return [status.cause for _, status in cluster.attempts.values()]


def test_a_head_killed_for_memory_gets_more(cluster: SimulatedCluster) -> None:
    cluster.set_pod("head", containerStatuses=[oom("ray-head")])
    cluster.end_rayjob("Failed", "RUNNING", reason="AppFailed", message="Ray job not found")
    cluster.finish_teardown()

    assert causes(cluster)[0] is Cause.OOM_KILLED
    evidence = next(iter(cluster.attempts.values()))[1].evidence[0]
    assert evidence.details["container"] == "ray-head"
    assert evidence.details["exitCode"] == 137
    assert cluster.status.memory == {"head": "6144Mi"}
    cluster.run_next()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    head = rayjob["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert head["resources"]["limits"]["memory"] == str(6144 << 20)


def test_a_worker_killed_for_memory_ends_the_attempt_and_its_group_gets_more(
    cluster: SimulatedCluster,
) -> None:
    cluster.set_pod("cpu", containerStatuses=[oom("ray-worker")])
    cluster.settle()
    assert next(iter(cluster.attempts.values()))[1].end_time is not None
    cluster.finish_teardown()
    assert causes(cluster)[0] is Cause.OOM_KILLED
    assert cluster.status.memory == {"cpu": "12288Mi"}


@pytest.mark.parametrize(
    ("message", "raised"),
    [
        ("lost 4 workers: memory on the node (IP: 10.0.0.7, ID: 12ab)", {"cpu": "12288Mi"}),
        ("lost 4 workers: memory on the node (IP: 10.0.0.3, ID: 34cd)", {"head": "6144Mi"}),
        ("lost 4 workers: memory on the node (IP: 10.9.9.9, ID: 56ef)", {"cpu": "12288Mi"}),
    ],
)
def test_a_group_that_ray_reports_as_out_of_memory_gets_more(
    cluster: SimulatedCluster, message: str, raised: dict[str, str]
) -> None:
    cluster.set_pod("cpu", podIP="10.0.0.7")
    cluster.set_pod("head", podIP="10.0.0.3")
    cluster.settle()
    told = Evidence(Cause.OOM_KILLED, message * 20, "ray")
    cluster.outcome = DriverOutcome(exit_code=1, message=message, evidence=(told,))
    cluster.end_rayjob("Failed", "FAILED")
    cluster.settle()
    cluster.settle()
    cluster.finish_teardown()
    cluster.settle()
    (status,) = [status for _, status in cluster.attempts.values()]
    assert cluster.status.memory == raised
    assert len([record for record in status.evidence if record.source == "ray"]) == 1


def test_later_driver_evidence_is_recorded_without_duplicates(
    cluster: SimulatedCluster,
) -> None:
    cluster.set_pod("cpu", podIP="10.0.0.7")
    cluster.set_pod("head", podIP="10.0.0.3")
    told = [
        Evidence(Cause.OOM_KILLED, f"memory on the node (IP: {address}, ID: 12ab)", "ray")
        for address in ("10.0.0.7", "10.0.0.3")
    ]
    for said in (told[:1], told, told):
        cluster.outcome = DriverOutcome(exit_code=1, evidence=tuple(said))
        cluster.settle()
    cluster.advance(30)
    cluster.sweep()  # the message stays the same after the pods are gone
    cluster.gone_pods.clear()
    cluster.settle()
    (status,) = [status for _, status in cluster.attempts.values()]
    placed = [record.details["pod"] for record in status.evidence if record.source == "ray"]
    assert sorted(map(str, placed)) == ["corpus-1-cpu", "corpus-1-head"]


def test_a_worker_killed_for_memory_may_be_absorbed() -> None:
    cluster = SimulatedCluster()
    cluster.edit(onWorkerLoss={"oom": "Absorb"})
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    cluster.set_pod("cpu", containerStatuses=[oom("ray-worker")])
    cluster.settle()
    (status,) = [status for _, status in cluster.attempts.values()]
    assert status.end_time is None
    assert status.incidents == 1
    cluster.finish()
    assert cluster.status.phase is PipelinePhase.SUCCEEDED
    assert cluster.status.incidents == 1


def test_an_oom_observed_at_the_teardown_still_determines_the_cause(
    cluster: SimulatedCluster,
) -> None:
    cluster.end_rayjob("Failed", "FAILED", message="WorkerCrashedError", reason="AppFailed")
    cluster.settle()
    cluster.advance(21)
    cluster.set_pod("cpu", containerStatuses=[oom("ray-worker", code=1)])
    cluster.settle()
    cluster.finish_teardown()
    assert causes(cluster)[0] is Cause.OOM_KILLED


def test_an_oom_at_the_teardown_of_a_completed_attempt_is_ignored(
    cluster: SimulatedCluster,
) -> None:
    cluster.outcome = DriverOutcome(exit_code=0)
    cluster.settle()
    cluster.set_pod("cpu", containerStatuses=[oom("ray-worker")])
    cluster.finish()
    assert causes(cluster) == [None]


FOREIGN = ("wait-gcs-ready", "fetch-models", "istio-proxy", "autoscaler")


@pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("pod", ["head", "cpu"])
def test_a_kill_of_a_foreign_container_ends_nothing_and_raises_no_memory(
    cluster: SimulatedCluster, pod: str, name: str, kind: str
) -> None:
    cluster.set_pod(pod, **{kind: [oom(name)]})
    cluster.advance(60)
    (status,) = [status for _, status in cluster.attempts.values()]
    assert (status.end_time, status.incidents) == (None, 0)
    cluster.end_rayjob("Failed", "FAILED", message="exit code 1", reason="AppFailed")
    cluster.finish_teardown()
    assert causes(cluster)[0] is Cause.APPLICATION_ERROR
    assert cluster.status.memory == {}
    # The evidence lists the kill in addition to the cause, because the kill may have led to the
    # cause.
    (status,) = [status for _, status in cluster.attempts.values()]
    told = [record.message for record in status.evidence if record.cause is Cause.UNKNOWN]
    assert told == [f"container {name} of pod corpus-1-{pod} was killed for memory"]


def test_a_killed_sidecar_does_not_count_as_a_killed_driver(
    cluster: SimulatedCluster,
) -> None:
    killed = {"terminated": {"exitCode": 137, "reason": "Error"}}
    cluster.set_pod("head", containerStatuses=[{"name": "istio-proxy", "state": killed}])
    cluster.end_rayjob("Failed", "FAILED", message="exit code 1", reason="AppFailed")
    cluster.finish_teardown()
    assert causes(cluster)[0] is Cause.APPLICATION_ERROR


def test_a_kill_of_rays_container_takes_precedence_over_others(cluster: SimulatedCluster) -> None:
    cluster.set_pod("cpu", containerStatuses=[oom("ray-worker"), oom("istio-proxy")])
    cluster.settle()
    cluster.finish_teardown()
    assert causes(cluster)[0] is Cause.OOM_KILLED
    assert cluster.attempts["corpus-1"][1].message.startswith("container ray-worker of pod")
    assert cluster.status.memory == {"cpu": "12288Mi"}


def test_a_killed_submitter_in_the_head_pod_raises_no_memory() -> None:
    cluster = SimulatedCluster()
    cluster.spec["ray"]["submissionMode"] = "SidecarMode"
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    cluster.set_pod("head", containerStatuses=[oom("ray-job-submitter")])
    message = "Ray head pod container ray-job-submitter terminated with exit code 137: OOMKilled"
    cluster.end_rayjob("Failed", "RUNNING", reason="SubmissionFailed", message=message)
    cluster.finish_teardown()
    assert causes(cluster)[0] is Cause.SUBMISSION_FAILED
    assert cluster.status.memory == {}


def test_a_removed_group_raises_no_other_groups_memory(cluster: SimulatedCluster) -> None:
    cluster.set_pod("cpu", containerStatuses=[oom("ray-worker")])
    cluster.settle()
    cluster.edit(ray={"workerGroups": [{"name": "other", "resources": {"memory": "8Gi"}}]})
    cluster.finish_teardown()
    assert causes(cluster)[0] is Cause.OOM_KILLED
    assert cluster.status.memory == {}


def test_a_killed_init_container_is_reported_by_name() -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    cluster.set_pod("cpu", phase="Failed", initContainerStatuses=[oom("wait-gcs-ready")])
    cluster.settle()
    found = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert found is not None
    assert "init container wait-gcs-ready: OOMKilled" in found.message
