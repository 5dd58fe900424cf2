"""A run is a sequence of attempts: each end has a cause, and the policy decides the next step."""

from __future__ import annotations

import pytest

from operator_bodies import oom
from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome, SourceCounts
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.enums import AttemptPhase, PipelinePhase, Trigger
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.plan import Count, Resource


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose first attempt is running."""
    return SimulatedCluster.running()


def causes(cluster: SimulatedCluster) -> list[Cause | None]:
    return [status.cause for _, status in cluster.attempts.values()]


def truth(cluster: SimulatedCluster, type_: ConditionType) -> tuple[str, str] | None:
    found = cluster.status.find_condition(type_)
    return None if found is None else (found.status, found.reason)


def reasons(cluster: SimulatedCluster) -> list[str]:
    return [event.reason for event in cluster.events]


def test_a_run_that_completes_succeeds(cluster: SimulatedCluster) -> None:
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "Running")

    cluster.finish()

    assert truth(cluster, ConditionType.SUCCEEDED) == ("True", "Completed")
    assert cluster.status.phase is PipelinePhase.SUCCEEDED
    assert truth(cluster, ConditionType.STALLED) is None
    assert causes(cluster) == [None]
    assert not cluster.pipeline["metadata"]["finalizers"]
    assert cluster.list_of(Resource.RAYJOB) == []


def test_the_wait_is_stored_and_kept(cluster: SimulatedCluster) -> None:
    ended = cluster.time
    cluster.outcome = DriverOutcome(exit_code=1)
    cluster.settle()
    cluster.advance(4)
    cluster.sweep()
    cluster.advance(4)
    cluster.outcome = None

    due = cluster.status.next_attempt_time
    assert due == ended + 60
    assert cluster.status.phase is PipelinePhase.WAITING
    assert cluster.status.state.startswith("retry 1 of 3 at ")
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "WaitingToRetry")
    cluster.advance(due - cluster.time - 1)
    assert len(cluster.attempts) == 1
    cluster.advance(1)
    assert len(cluster.attempts) == 2
    assert cluster.status.next_attempt_time is None
    (_, second) = cluster.attempts.values()
    assert second[0]["spec"]["trigger"] == "Retry"
    assert second[0]["spec"]["retryCause"] == "ApplicationError"


def test_when_the_retries_are_used_up_the_run_has_failed(cluster: SimulatedCluster) -> None:
    cluster.finish(1)
    for _ in range(3):
        cluster.run_next()
        cluster.finish(1)

    assert len(cluster.attempts) == 4
    assert truth(cluster, ConditionType.SUCCEEDED) == ("False", "ApplicationError")
    assert truth(cluster, ConditionType.STALLED) == ("True", "ApplicationError")
    assert cluster.status.phase is PipelinePhase.FAILED
    assert reasons(cluster)[-1] == EventReason.RETRY_EXHAUSTED
    cluster.advance(100_000)
    assert len(cluster.attempts) == 4


def test_final_causes_are_not_retried(cluster: SimulatedCluster) -> None:
    cluster.finish(64, message="spec.stages[0].use: unknown stage 'x'")
    assert truth(cluster, ConditionType.STALLED) == ("True", "InvalidSpec")
    assert EventReason.RETRY_EXHAUSTED not in reasons(cluster)


def test_a_spent_budget_is_reported_and_resumes_when_raised(
    cluster: SimulatedCluster,
) -> None:
    def ask(budget: int) -> list[dict[str, object]]:
        return [{"use": "ask-model", "with": {"budget": {"requests": budget}}}]

    cluster.finish(6, message="ask-model: its budget is spent (9 of 9 requests)")
    assert truth(cluster, ConditionType.SUCCEEDED) == ("False", "BudgetSpent")
    assert truth(cluster, ConditionType.STALLED) == ("True", "BudgetSpent")
    assert cluster.status.phase is PipelinePhase.FAILED
    cluster.advance(100_000)
    assert len(cluster.attempts) == 1
    cluster.edit(stages=ask(20))
    cluster.annotate("retry", "with more")
    cluster.settle()
    assert len(cluster.attempts) == 2
    cluster.start_rayjob()
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert "--after" not in rayjob["spec"]["entrypoint"]
    cluster.finish(0)
    assert truth(cluster, ConditionType.SUCCEEDED) == ("True", "Completed")


def test_a_ledger_in_use_by_another_driver_is_retried(cluster: SimulatedCluster) -> None:
    cluster.finish(69, message="attempt 7 is still running on another host; stop it first")
    assert causes(cluster) == [Cause.LEDGER_IN_USE]
    assert cluster.status.state.startswith("disruption 1 of 100, retry at ")
    cluster.run_next()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert "--after" not in rayjob["spec"]["entrypoint"]  # the previous driver may still run
    cluster.finish(1)
    assert cluster.status.retries is not None
    assert (cluster.status.retries.retries, cluster.status.retries.disruptions) == (0, 1)
    cluster.run_next()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert rayjob["spec"]["entrypoint"].endswith("--after ApplicationError")


def test_progress_renews_the_budget(cluster: SimulatedCluster) -> None:
    sources = SourceCounts(total=100, finished=10, unfinished=90)
    cluster.finish(1, sources=sources, remaining=100)
    for _ in range(6):
        cluster.run_next()
        cluster.finish(1, sources=sources, remaining=90)
    assert len(cluster.attempts) == 7
    assert cluster.status.phase is not PipelinePhase.FAILED


def test_a_driver_after_a_worker_oom_is_deleted_after_the_settle_time(
    cluster: SimulatedCluster,
) -> None:
    cluster.set_pod("cpu", containerStatuses=[oom("ray-worker")])
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert "deletionTimestamp" not in rayjob["metadata"]  # more evidence may arrive
    cluster.advance(cluster.limits.settle)
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert "deletionTimestamp" in rayjob["metadata"]


def test_a_driver_report_caused_by_the_teardown_is_not_the_cause(
    cluster: SimulatedCluster,
) -> None:
    cluster.set_pod("cpu", containerStatuses=[oom("ray-worker")])
    cluster.settle()
    cluster.advance(30)
    cluster.settle()
    assert all(
        "deletionTimestamp" in rayjob["metadata"] for rayjob in cluster.list_of(Resource.RAYJOB)
    )
    told = Evidence(Cause.INTERRUPTED, "exit code 75: stopped", "exit code", {"exitCode": 75})
    sources = SourceCounts(total=9, finished=5)
    cluster.outcome = DriverOutcome(exit_code=75, evidence=(told,), sources=sources)
    cluster.settle()
    cluster.finish_teardown()
    (status,) = [status for _, status in cluster.attempts.values()]
    assert (status.cause, {record.cause for record in status.evidence}) == (
        Cause.OOM_KILLED,
        {Cause.OOM_KILLED},
    )
    assert status.outcome is not None
    assert status.progress is not None
    assert status.progress.finished == 5


def test_a_preempted_worker_is_absorbed(cluster: SimulatedCluster) -> None:
    cluster.set_pod("cpu", conditions=[target("PreemptionByScheduler")])
    cluster.lose_pod("cpu")
    cluster.settle()
    (status,) = [status for _, status in cluster.attempts.values()]
    assert (status.phase, status.incidents) == (AttemptPhase.RUNNING, 1)
    assert [count for count in cluster.counts if count.name == "workers_lost"] == [
        Count("workers_lost", "Preempted")
    ]
    (told,) = [event for event in cluster.events if event.reason == "WorkerLost"]
    assert told.message.startswith("corpus-1 lost a worker and continues: worker corpus-1-cpu")
    assert told.is_warning


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("PreemptionByScheduler", Cause.PREEMPTED),
        ("EvictionByEvictionAPI", Cause.EVICTED),
        ("TerminationByKubelet", Cause.EVICTED),
        ("DeletionByTaintManager", Cause.NODE_LOST),
        ("SomethingNew", Cause.EVICTED),
    ],
)
def test_a_disrupted_head_costs_no_retry(
    cluster: SimulatedCluster, reason: str, cause: Cause
) -> None:
    cluster.set_pod("head", conditions=[target(reason)])
    cluster.outcome = DriverOutcome(exit_code=75)
    cluster.end_rayjob("Failed", "FAILED", reason="AppFailed", message="exit code 75")
    cluster.settle()
    cluster.finish_teardown()
    cluster.outcome = None
    assert causes(cluster)[0] is cause
    assert cluster.status.retries is not None
    assert cluster.status.retries.retries == 0
    cluster.run_next()
    cluster.finish()
    assert cluster.status.retries.disruptions == 1


def test_an_ordinary_teardown_adds_no_evidence(cluster: SimulatedCluster) -> None:
    cluster.end_rayjob("Failed", "FAILED", message="exit code 3", reason="AppFailed")
    cluster.settle()
    killed = {"name": "ray-head", "state": {"terminated": {"reason": "Error", "exitCode": 137}}}
    for pod in cluster.list_of(Resource.POD):
        pod["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    cluster.set_pod("head", containerStatuses=[killed])
    cluster.finish_teardown()
    assert causes(cluster)[0] is Cause.SOURCES_FAILED


def test_an_ended_driver_is_not_awaited(cluster: SimulatedCluster) -> None:
    """The driver's report ends the attempt, because KubeRay may report Running forever."""
    cluster.outcome = DriverOutcome(exit_code=0)
    cluster.settle()
    cluster.advance(4)
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert "deletionTimestamp" in rayjob["metadata"]
    cluster.sweep()
    cluster.settle()
    assert truth(cluster, ConditionType.SUCCEEDED) == ("True", "Completed")


def test_a_deleted_rayjob_is_not_recreated(cluster: SimulatedCluster) -> None:
    for key in [key for key in cluster.objects if key[0] != Resource.CLAIM]:
        del cluster.objects[key]
    cluster.settle()
    cluster.advance(30)
    assert causes(cluster)[0] is Cause.INTERRUPTED
    assert cluster.list_of(Resource.RAYJOB) == []
    assert cluster.status.next_attempt_time is not None


def test_the_time_to_the_next_driver_is_measured(cluster: SimulatedCluster) -> None:
    cluster.finish(1)
    ended = cluster.attempts["corpus-1"][1].end_time
    assert ended is not None
    cluster.run_next()
    cluster.settle()
    found = [
        count for plan in cluster.plans for count in plan.counts if count.name == "recovery_seconds"
    ]
    assert [(count.cause, count.value) for count in found] == [
        ("ApplicationError", cluster.time - ended)
    ]


def test_a_waiting_or_finished_run_is_not_changed(cluster: SimulatedCluster) -> None:
    assert not cluster.pass_once().is_at_rest
    cluster.finish(1)
    plan = cluster.pass_once()
    assert plan.is_at_rest
    assert plan.wake_at == cluster.status.next_attempt_time
    cluster.run_next()
    cluster.finish()
    plan = cluster.pass_once()
    assert (plan.is_at_rest, plan.wake_at) == (True, cluster.time + 600)
    cluster.edit(ttlAfterFinished="5m")
    cluster.settle()
    plan = cluster.pass_once()
    ended = cluster.attempts["corpus-1"][1].end_time
    assert ended is not None
    assert (plan.is_at_rest, plan.wake_at) == (True, ended + 300)


def test_a_manual_retry_starts_at_once_and_costs_nothing(cluster: SimulatedCluster) -> None:
    cluster.finish(64)
    cluster.annotate("retry", "one")
    cluster.settle()
    assert len(cluster.attempts) == 2
    assert cluster.attempts["corpus-2"][0]["spec"]["trigger"] == Trigger.MANUAL
    assert truth(cluster, ConditionType.STALLED) is None
    cluster.start_rayjob()
    cluster.finish()
    cluster.advance(1000)
    assert len(cluster.attempts) == 2  # the same token acts once


def test_a_retry_during_an_attempt_does_nothing(cluster: SimulatedCluster) -> None:
    cluster.annotate("retry", "one")
    cluster.settle()
    cluster.finish()
    cluster.advance(1000)
    assert len(cluster.attempts) == 1


def test_a_cancel_ends_attempt_and_run(cluster: SimulatedCluster) -> None:
    cluster.annotate("cancel", "wrong input")
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert "deletionTimestamp" in rayjob["metadata"]
    cluster.finish_teardown()
    assert truth(cluster, ConditionType.SUCCEEDED) == ("False", "UserCancelled")
    cluster.advance(100_000)
    assert len(cluster.attempts) == 1


def test_a_cancel_during_the_wait_ends_the_run(cluster: SimulatedCluster) -> None:
    cluster.outcome = DriverOutcome(exit_code=1)
    cluster.settle()
    cluster.advance(4)
    cluster.sweep()
    cluster.advance(4)
    cluster.annotate("cancel", "enough")
    cluster.advance(1000)
    assert truth(cluster, ConditionType.SUCCEEDED) == ("False", "UserCancelled")
    assert len(cluster.attempts) == 1


def test_annotations_of_a_new_pipeline_are_ignored() -> None:
    cluster = SimulatedCluster()
    cluster.annotate("cancel", "from another life")
    cluster.annotate("retry", "from another life")
    cluster.settle()
    cluster.start_rayjob()
    cluster.finish()
    cluster.advance(1000)
    assert truth(cluster, ConditionType.SUCCEEDED) == ("True", "Completed")
    assert len(cluster.attempts) == 1


def test_suspension_ends_the_attempt_and_costs_nothing(cluster: SimulatedCluster) -> None:
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.finish_teardown()
    assert cluster.status.phase is PipelinePhase.SUSPENDED
    assert truth(cluster, ConditionType.SUSPENDED) == ("True", "Suspended")
    cluster.advance(100_000)
    assert len(cluster.attempts) == 1
    cluster.edit(suspend=False)
    cluster.settle()
    assert cluster.attempts["corpus-2"][0]["spec"]["trigger"] == Trigger.RESUME
    assert truth(cluster, ConditionType.SUSPENDED) is None
    cluster.start_rayjob()
    cluster.finish(1)
    assert cluster.status.retries is not None
    assert (cluster.status.retries.retries, cluster.status.retries.disruptions) == (0, 0)


def test_the_same_yaml_again_starts_nothing(cluster: SimulatedCluster) -> None:
    cluster.finish()
    cluster.edit()
    cluster.advance(1000)
    assert len(cluster.attempts) == 1
    assert truth(cluster, ConditionType.SPEC_APPLIED) == ("False", "WaitsForNextRun")


@pytest.mark.parametrize("code", [0, 64])
def test_an_edit_after_the_last_attempt_waits_for_the_next_run(
    cluster: SimulatedCluster, code: int
) -> None:
    cluster.edit(onChange="Restart")
    cluster.settle()
    assert truth(cluster, ConditionType.SPEC_APPLIED) == ("False", "WaitsForNextAttempt")
    cluster.finish(code)
    assert truth(cluster, ConditionType.SPEC_APPLIED) == ("False", "WaitsForNextRun")
    cluster.edit(runId="second")
    cluster.settle()
    assert truth(cluster, ConditionType.SPEC_APPLIED) == ("True", "Applied")


def test_a_new_run_id_starts_another_run(cluster: SimulatedCluster) -> None:
    cluster.finish()
    cluster.edit(runId="second")
    cluster.settle()
    assert cluster.status.run == "second"
    assert cluster.attempts["corpus-2"][0]["spec"]["trigger"] == Trigger.RUN
    assert truth(cluster, ConditionType.SUCCEEDED) == ("Unknown", "Starting")


def test_a_new_run_id_waits_for_the_current_attempt(cluster: SimulatedCluster) -> None:
    cluster.edit(runId="second")
    cluster.settle()
    assert len(cluster.attempts) == 1
    cluster.finish()
    assert [body["spec"]["run"] for body, _ in cluster.attempts.values()] == ["first", "second"]


def test_a_restore_without_status_starts_at_most_one_attempt(cluster: SimulatedCluster) -> None:
    cluster.finish(1)
    cluster.run_next()
    cluster.finish()
    fresh = SimulatedCluster(time=cluster.time)
    fresh.settle()
    fresh.start_rayjob()
    fresh.finish()
    fresh.advance(100_000)
    assert len(fresh.attempts) == 1


def test_the_runs_deadline_ends_the_run(cluster: SimulatedCluster) -> None:
    cluster.edit(deadlines={"run": "1h"})
    cluster.settle()
    cluster.advance(3601)
    cluster.finish_teardown()
    assert truth(cluster, ConditionType.SUCCEEDED) == ("False", "DeadlineExceeded")
    cluster.advance(100_000)
    assert len(cluster.attempts) == 1


def test_an_attempts_deadline_ends_the_attempt(cluster: SimulatedCluster) -> None:
    cluster.edit(deadlines={"attempt": "10m"})
    cluster.settle()
    cluster.advance(601)
    cluster.finish_teardown()
    assert causes(cluster)[0] is Cause.DEADLINE_EXCEEDED


def target(reason: str) -> dict[str, str]:
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "by a test"}
