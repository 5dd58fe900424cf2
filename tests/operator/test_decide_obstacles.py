"""Each obstacle sets a condition with advice. The run resumes when the obstacle is gone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.objects.removed_engine import ENGINE_REMOVED
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.status.enums import AttemptPhase, PipelinePhase
from strandline_api.status.reasons import ConditionType
from strandline_operator.decide.pipeline import decide
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Delete, Resource
from strandline_operator.model.view import Refusal, Turn


def truth(cluster: SimulatedCluster, type_: ConditionType) -> tuple[str, str] | None:
    found = cluster.status.find_condition(type_)
    return None if found is None else (found.status, found.reason)


def message(cluster: SimulatedCluster, type_: ConditionType) -> str:
    found = cluster.status.find_condition(type_)
    assert found is not None
    return found.message


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a new pipeline, before the first pass."""
    return SimulatedCluster()


@pytest.mark.parametrize(
    ("wrong", "fixed", "words"),
    [
        ({"sink": {"use": "NO"}}, {"sink": {"use": "jsonl"}}, "spec.sink.use"),
        # An earlier release may have stored this value, and the definition still allows it.
        ({"engine": "ray-data"}, {"engine": "ray"}, f"spec.engine: {ENGINE_REMOVED}"),
    ],
)
def test_an_invalid_spec_is_stalled_until_an_edit_fixes_it(
    wrong: dict[str, Any], fixed: dict[str, Any], words: str, cluster: SimulatedCluster
) -> None:
    cluster.edit(**wrong)
    cluster.settle()
    assert truth(cluster, ConditionType.STALLED) == ("True", "InvalidSpec")
    assert words in message(cluster, ConditionType.STALLED)
    assert not cluster.attempts
    cluster.edit(**fixed)
    cluster.settle()
    assert truth(cluster, ConditionType.STALLED) is None
    assert len(cluster.attempts) == 1


def test_an_attempt_continues_while_the_spec_is_invalid(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.edit(sink={"use": "NO"})
    cluster.settle()
    assert len(cluster.list_of(Resource.POD)) == 2
    cluster.outcome = DriverOutcome(exit_code=1)
    cluster.settle()
    cluster.finish_teardown()
    cluster.advance(1000)
    assert len(cluster.attempts) == 1


@pytest.mark.parametrize(
    ("claim", "reason", "words"),
    [
        ({}, "ClaimPending", "storage class"),
        ({"status": {"phase": "Lost"}}, "ClaimLost", "Restore the volume"),
        (
            {"spec": {"accessModes": ["ReadOnlyMany"]}, "status": {"phase": "Bound"}},
            "ClaimNotWritable",
            "ReadOnlyMany",
        ),
    ],
)
def test_an_unusable_claim_is_reported_with_advice(
    cluster: SimulatedCluster, claim: dict[str, Any], reason: str, words: str
) -> None:
    cluster.pass_once()
    for body in cluster.list_of(Resource.CLAIM):
        body.update(claim)
    cluster.settle()
    found = cluster.status.find_condition(ConditionType.STORAGE_READY)
    assert found is not None
    assert found.reason == reason
    assert words in found.message
    # A pending claim may bind only when its first pod exists. Lost and read-only claims get no pod.
    assert bool(cluster.attempts) == (reason == "ClaimPending")


def test_an_existing_claim_is_not_created(cluster: SimulatedCluster) -> None:
    cluster.edit(storage={"ledger": {"claimName": "mine"}})
    cluster.settle()
    assert cluster.list_of(Resource.CLAIM) == []
    assert truth(cluster, ConditionType.STORAGE_READY) == ("False", "ClaimMissing")
    assert not cluster.attempts


def test_a_claim_that_is_refused_is_asked_for_again(cluster: SimulatedCluster) -> None:
    cluster.refused[Resource.CLAIM] = Refusal(
        Resource.CLAIM, "corpus-ledger", 403, "exceeded quota: storage"
    )
    cluster.settle()
    assert truth(cluster, ConditionType.STORAGE_READY) == ("False", "ClaimRefused")
    assert "exceeded quota" in message(cluster, ConditionType.STORAGE_READY)
    # The run reports the same message, once.
    said = message(cluster, ConditionType.STORAGE_READY)
    assert message(cluster, ConditionType.SUCCEEDED) == said
    cluster.refused.clear()
    cluster.settle()
    assert len(cluster.attempts) == 1


def test_a_pipeline_waits_for_missing_kuberay(cluster: SimulatedCluster) -> None:
    cluster.has_kuberay = False
    cluster.settle()
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "KubeRayMissing")
    assert "Install KubeRay" in message(cluster, ConditionType.SUCCEEDED)
    cluster.has_kuberay = True
    cluster.settle()
    assert len(cluster.list_of(Resource.RAYJOB)) == 1


@pytest.mark.parametrize(
    ("status", "words", "reason"),
    [
        (403, 'User "x" cannot create resource "rayjobs"', "PermissionDenied"),
        (403, "denied by a policy", "ObjectRefused"),
        (403, "namespace team is being terminated", "NamespaceTerminating"),
        (422, "spec.rayClusterSpec: Invalid value", "ObjectRefused"),
        (409, "corpus-1 exists and belongs to another owner", "NameTaken"),
        (404, "the server could not find the requested resource", "KubeRayMissing"),
        (429, "too many requests", "ApiUnavailable"),
        (503, "etcd is down", "ApiUnavailable"),
        (0, "connection refused", "ApiUnavailable"),
    ],
)
def test_a_rejection_by_the_api_server_is_reported(
    cluster: SimulatedCluster, status: int, words: str, reason: str
) -> None:
    cluster.refused[Resource.RAYJOB] = Refusal(Resource.RAYJOB, "corpus-1", status, words)
    cluster.settle()
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", reason)
    assert words in message(cluster, ConditionType.SUCCEEDED)
    told = [event.reason for event in cluster.events]
    assert sorted(told) == ["AttemptStarted", "Blocked", "RunStarted"]
    assert words in cluster.events[-1].message
    cluster.refused.clear()
    cluster.settle()
    assert len(cluster.events) == len(told)
    assert len(cluster.list_of(Resource.RAYJOB)) == 1


QUOTA = 'rayjobs.ray.io "corpus-1" is forbidden: exceeded quota: none'


@pytest.mark.parametrize("refused", [Resource.ATTEMPT, Resource.RAYJOB])
def test_an_attempt_waits_for_an_exhausted_quota(
    cluster: SimulatedCluster, refused: Resource
) -> None:
    cluster.refused[refused] = Refusal(refused, "corpus-1", 403, QUOTA)
    cluster.settle()
    cluster.advance(100_000)
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "QuotaUsedUp")
    assert QUOTA in message(cluster, ConditionType.SUCCEEDED)
    assert [event.reason for event in cluster.events].count("Blocked") == 1
    wake_at = cluster.pass_once().wake_at
    assert wake_at is not None
    assert 0 < wake_at - cluster.time <= cluster.limits.resync
    cluster.refused.clear()
    cluster.settle()
    assert len(cluster.list_of(Resource.RAYJOB)) == 1
    assert list(cluster.attempts) == ["corpus-1"]


def test_a_wait_for_a_quota_ends_with_the_runs_deadline(cluster: SimulatedCluster) -> None:
    cluster.edit(deadlines={"run": "1h"})
    cluster.refused[Resource.RAYJOB] = Refusal(Resource.RAYJOB, "corpus-1", 403, QUOTA)
    cluster.settle()
    cluster.advance(3601)
    cluster.finish_teardown()
    assert truth(cluster, ConditionType.SUCCEEDED) == ("False", "DeadlineExceeded")


def test_an_image_that_can_not_be_pulled_ends_the_attempt(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "nope"'}
    cluster.set_pod("head", containerStatuses=[{"name": "ray-head", "state": {"waiting": waiting}}])
    cluster.settle()
    cluster.advance(299)
    assert next(iter(cluster.attempts.values()))[1].end_time is None
    cluster.advance(2)
    cluster.finish_teardown()
    (status,) = [status for _, status in cluster.attempts.values()]
    assert status.cause == "ImagePullFailure"
    assert "nope" in status.message


def test_a_pod_that_finds_no_node_ends_the_attempt(cluster: SimulatedCluster) -> None:
    cluster.edit(deadlines={"preRunning": "10m"})
    cluster.settle()
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    unplaced = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    cluster.set_pod("head", conditions=[unplaced])
    cluster.settle()
    cluster.advance(601)
    cluster.finish_teardown()
    (status,) = [status for _, status in cluster.attempts.values()]
    assert status.cause == "SchedulingTimeout"
    assert "0/3 nodes are available" in status.message


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3"}]},
            "Unschedulable",
        ),
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "message": "PVC with ReadWriteOncePod access mode is in use",
                    }
                ]
            },
            "ClaimInUse",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "ray-head",
                        "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}},
                    }
                ]
            },
            "ImageNotPulled",
        ),
    ],
)
def test_a_delayed_start_is_reported_at_once(
    cluster: SimulatedCluster, status: dict[str, Any], reason: str
) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    cluster.set_pod("head", **status)
    cluster.settle()
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", reason)
    cluster.set_pod("head", conditions=[], containerStatuses=[])
    cluster.settle()
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "Starting")


def test_a_silent_kuberay_is_reported(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.advance(59)
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "Starting")
    cluster.advance(2)
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "KubeRaySilent")


def test_a_full_volume_is_reported_with_its_claim(cluster: SimulatedCluster) -> None:
    cluster.launch()
    cluster.settle()
    cluster.outcome = DriverOutcome(exit_code=73, message="no space is left on the volume")
    cluster.settle()
    cluster.finish_teardown()
    assert truth(cluster, ConditionType.SUCCEEDED) == ("False", "VolumeUnusable")
    assert truth(cluster, ConditionType.STORAGE_READY) == ("False", "ClaimFull")
    cluster.annotate("retry", "after making it larger")
    cluster.settle()
    assert len(cluster.attempts) == 2


def test_time_in_a_queue_is_free(cluster: SimulatedCluster) -> None:
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    rayjob["spec"]["suspend"] = True
    rayjob["status"] = {"jobDeploymentStatus": "Suspended"}
    cluster.advance(1_000_000)
    (status,) = [status for _, status in cluster.attempts.values()]
    assert status.phase is AttemptPhase.QUEUED
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "Queued")
    # The attempt begins when the queue admits the RayJob, even if KubeRay reacts late.
    rayjob["spec"]["suspend"] = False
    cluster.advance(100_000)
    rayjob["status"] = {"jobDeploymentStatus": "Initializing"}
    cluster.settle()
    cluster.advance(1799)
    assert cluster.attempts["corpus-1"][1].end_time is None
    cluster.advance(2)
    assert cluster.attempts["corpus-1"][1].end_time is not None


def graces(cluster: SimulatedCluster) -> set[int | None]:
    """Return the grace periods of the operator's deletions. 0 is a forced deletion."""
    actions = (action for plan in cluster.plans for action in plan.actions)
    return {action.grace for action in actions if isinstance(action, Delete)}


def test_remaining_pods_delay_the_next_attempt(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.outcome = DriverOutcome(exit_code=1)
    cluster.settle()
    cluster.advance(5)
    cluster.advance(601)
    assert len(cluster.attempts) == 1
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "TeardownOverdue")
    assert "corpus-1-head" in message(cluster, ConditionType.SUCCEEDED) or (
        "corpus-1-cpu" in message(cluster, ConditionType.SUCCEEDED)
    )
    assert graces(cluster) == {None}


def test_force_deletion_is_used_only_if_enabled() -> None:
    cluster = SimulatedCluster(limits=Limits(force_teardown=True))
    cluster.settle()
    cluster.start_rayjob()
    cluster.outcome = DriverOutcome(exit_code=1)
    cluster.settle()
    cluster.advance(5)
    cluster.time += 601
    cluster.pass_once()
    assert graces(cluster) == {None, 0}


def test_the_rate_limit_delays_attempts(cluster: SimulatedCluster) -> None:
    cluster.turn = Turn(is_open=False, opens_at=cluster.time + 0.5)
    cluster.settle()
    assert not cluster.attempts
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "RetriesHeldBack")
    cluster.turn = Turn()
    cluster.settle()
    assert len(cluster.attempts) == 1


def test_a_thousand_waiting_pipelines_spread_their_passes(cluster: SimulatedCluster) -> None:
    cluster.turn = Turn(is_open=False, opens_at=cluster.time + 0.5, spread=40.0)
    cluster.settle()
    view, wakes = cluster.view(), []
    for number in range(1000):
        meta = replace(view.pipeline.meta, uid=f"uid-{number}")
        pipeline = replace(view.pipeline, meta=meta)
        plan = decide(replace(view, pipeline=pipeline), cluster.time, Limits(), 0.0)
        assert plan.wake_at is not None
        wakes.append(plan.wake_at - cluster.time)
    assert min(wakes) >= 0.5
    assert max(wakes) < 41
    busiest = Counter(int(wake) for wake in wakes).most_common(1)[0][1]
    assert busiest < 60


def test_a_limit_of_zero_is_reported_and_rechecked_at_the_resync(
    cluster: SimulatedCluster,
) -> None:
    cluster.turn = Turn(is_open=False)
    cluster.settle()
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "DispatchStopped")
    assert "limit per minute is 0" in cluster.status.state
    assert cluster.pass_once().wake_at == cluster.time + cluster.limits.resync


def test_a_replaced_head_ends_the_attempt(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    labels = next(
        pod["metadata"]["labels"]
        for pod in cluster.list_of(Resource.POD)
        if pod["metadata"]["name"].endswith("head")
    )
    cluster.lose_pod("head")
    cluster.add_pod("corpus-1-head2", labels)
    cluster.settle()
    assert next(iter(cluster.attempts.values()))[1].end_time is not None
    cluster.finish_teardown()
    assert next(iter(cluster.attempts.values()))[1].cause == "NodeLost"


def test_a_deletion_waits_only_for_the_pods(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    cluster.pipeline["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    cluster.settle(3)
    assert cluster.status.phase is PipelinePhase.DELETING
    assert cluster.pipeline["metadata"]["finalizers"]
    # KubeRay is uninstalled too, so RayJob and RayCluster keep their finalizers. The pods end.
    for key in [key for key in cluster.objects if key[0] == Resource.POD]:
        del cluster.objects[key]
    cluster.pass_once()
    assert not cluster.pipeline["metadata"]["finalizers"]


def test_a_missing_kuberay_does_not_prove_a_deleted_rayjob(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    kept = dict(cluster.objects)
    for key in [key for key in kept if key[0] in {Resource.RAYJOB, Resource.RAYCLUSTER}]:
        del cluster.objects[key]
    cluster.has_kuberay = False
    cluster.advance(100)
    assert cluster.attempts["corpus-1"][1].end_time is None
    cluster.outcome = DriverOutcome(exit_code=0)  # no controller is left to delete the pods
    cluster.settle()
    for _ in range(3):
        cluster.advance(61)
        cluster.sweep()
    assert truth(cluster, ConditionType.SUCCEEDED) == ("True", "Completed")
    assert cluster.list_of(Resource.POD) == []


@pytest.mark.parametrize("ending", ["head", "submitter"])
def test_a_submitter_that_ends_unobserved_ends_the_attempt_in_time(
    cluster: SimulatedCluster, ending: str
) -> None:
    """Cover a submitter in the head pod and in its own pod, while KubeRay reports Initializing."""
    cluster.settle()
    number = cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    labels = {"strandline.dev/attempt": number, "strandline.dev/role": "submitter"}
    if ending == "submitter":
        cluster.add_pod("corpus-1-submitter", labels)
    cluster.settle()
    ended = {"terminated": {"exitCode": 1, "finishedAt": format_time(cluster.time)}}
    containers = [{"name": "ray-job-submitter", "state": ended}]
    cluster.set_pod(ending, containerStatuses=containers)
    cluster.advance(44)
    assert cluster.attempts["corpus-1"][1].end_time is None
    cluster.advance(2)
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause == "SubmissionFailed"


def test_removing_kuberay_leaves_no_pods_behind(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.outcome = DriverOutcome(exit_code=1)
    cluster.settle()
    cluster.advance(4)
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert "deletionTimestamp" in rayjob["metadata"]
    left = [*cluster.list_of(Resource.RAYCLUSTER), *cluster.list_of(Resource.POD)]
    assert not any("deletionTimestamp" in one["metadata"] for one in left)
    cluster.advance(60)
    assert all("deletionTimestamp" in one["metadata"] for one in left)
    for key in [key for key in cluster.objects if key[0] in {Resource.RAYCLUSTER, Resource.POD}]:
        del cluster.objects[key]
    cluster.advance(600)
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "TeardownOverdue")
    words = "RayJob corpus-1 with the finalizer of KubeRay"
    assert words in message(cluster, ConditionType.SUCCEEDED)
    assert list(cluster.attempts) == ["corpus-1"]


def test_a_namespace_that_goes_away_is_no_storm(cluster: SimulatedCluster) -> None:
    words = "namespace team is being terminated"
    for kind, name in ((Resource.CLAIM, "corpus-ledger"), (Resource.ATTEMPT, "corpus-1")):
        cluster.refused[kind] = Refusal(kind, name, 403, words)
    cluster.settle()
    cluster.events.clear()
    wakes = []
    for _ in range(20):
        plan = cluster.pass_once()
        assert plan.wake_at is not None
        wakes.append(plan.wake_at - cluster.time)
        cluster.time = plan.wake_at
    assert cluster.events == []
    assert min(wakes) >= 15
    assert words in message(cluster, ConditionType.STORAGE_READY)
    cluster.pipeline["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    cluster.settle(3)
    assert not cluster.pipeline["metadata"].get("finalizers")


def test_a_pipeline_that_never_ran_is_deleted_at_once(cluster: SimulatedCluster) -> None:
    cluster.pipeline["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    plan = cluster.pass_once()
    assert plan.actions == ()
