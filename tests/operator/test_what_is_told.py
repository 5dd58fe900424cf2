"""The messages and numbers in a pipeline's status over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import SourceCounts
from strandline_api.status.enums import PipelinePhase
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import Progress
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.model.plan import Resource

SUSPENDED = Reason.SUSPENDED.explain()


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose first attempt is running."""
    return SimulatedCluster.running()


def test_every_run_is_announced_including_the_first(cluster: SimulatedCluster) -> None:
    cluster.finish(0)
    cluster.edit(runId="second")
    cluster.settle()
    told = [event.message for event in cluster.events if event.reason == EventReason.RUN_STARTED]
    assert told == ["run 'first' started", "run 'second' started"]


def suspend_and_resume(cluster: SimulatedCluster) -> None:
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.finish_teardown()
    cluster.edit(suspend=False)


@pytest.mark.parametrize(
    ("trigger", "act"),
    [
        ("retry after ApplicationError", lambda cluster: cluster.finish(1)),
        (
            "requested by annotation",
            lambda cluster: (cluster.finish(64), cluster.annotate("retry", "now")),
        ),
        (
            "repair requested by annotation",
            lambda cluster: (cluster.finish(64), cluster.annotate("repair", "now")),
        ),
        ("resumed", suspend_and_resume),
    ],
)
def test_the_event_of_an_attempt_names_its_run_and_its_origin(
    cluster: SimulatedCluster, trigger: str, act: Callable[[SimulatedCluster], object]
) -> None:
    act(cluster)
    cluster.time = max(cluster.time, cluster.status.next_attempt_time or 0.0)
    cluster.settle()
    started = [each.message for each in cluster.events if each.reason == "AttemptStarted"]
    assert started == ["attempt 1 of run 'first'", f"attempt 2 of run 'first', {trigger}"]


def test_a_request_is_reported_with_its_annotation(cluster: SimulatedCluster) -> None:
    cluster.finish(64)
    cluster.annotate("retry", "now")
    cluster.settle()
    (event,) = [each for each in cluster.events if each.reason == EventReason.RETRY_REQUESTED]
    assert event.message == "requested by annotation strandline.dev/retry=now"
    cluster.annotate("cancel", "enough")
    cluster.settle()
    cluster.finish_teardown()
    cluster.advance(60)
    (_, attempt) = cluster.attempts["corpus-2"]
    assert attempt.message == "cancelled by annotation strandline.dev/cancel=enough"


def test_a_completed_run_without_counts_shows_none(cluster: SimulatedCluster) -> None:
    cluster.finish(0)
    assert cluster.status.state == "run 'first' completed"
    told = {event.reason: event.message for event in cluster.events}
    assert told[EventReason.ATTEMPT_SUCCEEDED] == "attempt 1 completed"
    assert told[EventReason.RUN_SUCCEEDED] == "run 'first' succeeded"


def test_ignored_fields_are_named_while_they_exist(cluster: SimulatedCluster) -> None:
    cluster.spec["ray"]["later"] = False
    cluster.settle()
    told = cluster.status.find_condition(ConditionType.FIELDS_IGNORED)
    assert told is not None
    assert (told.status, told.reason) == ("True", Reason.OPERATOR_IS_OLDER)
    assert told.message == (
        "The operator is older than the CustomResourceDefinitions: it does not support, and "
        "ignores, spec.ray.later. Upgrade the operator to use these fields. Fields that you did "
        "not set are harmless defaults."
    )
    assert cluster.pass_once().pipeline is None  # no further write
    del cluster.spec["ray"]["later"]
    cluster.settle()
    assert cluster.status.find_condition(ConditionType.FIELDS_IGNORED) is None
    cluster.finish(0)
    assert cluster.status.phase == PipelinePhase.SUCCEEDED


def test_the_target_of_latest_is_reported(cluster: SimulatedCluster) -> None:
    assert cluster.status.latest == ""
    cluster.finish(1, latest="0001/p0002")
    assert cluster.status.latest == "0001/p0002"
    (_, attempt) = cluster.attempts["corpus-1"]
    assert attempt.latest == "0001/p0002"
    cluster.run_next()
    cluster.finish(137)  # a killed driver cannot report
    assert cluster.status.latest == "0001/p0002"


def test_the_place_of_the_log_is_reported_during_and_after_a_run(
    cluster: SimulatedCluster,
) -> None:
    first, second = (f"logs/20251125T07110{at}.123Z.log" for at in (1, 2))
    cluster.log_file, cluster.progress = first, Progress(time=cluster.time)
    cluster.settle()
    assert cluster.attempts["corpus-1"][1].log_file == first
    cluster.log_file = ""
    cluster.finish(137)  # a killed driver cannot report
    assert cluster.attempts["corpus-1"][1].log_file == first
    cluster.run_next()
    cluster.finish(1, log_file=second)
    assert cluster.attempts["corpus-2"][1].log_file == second


def test_earlier_progress_survives_an_end_without_counts(cluster: SimulatedCluster) -> None:
    cluster.progress = Progress(total=10, finished=4, time=cluster.time)
    cluster.settle()
    cluster.finish(137, sources=SourceCounts(finished=3))
    assert cluster.status.progress is not None
    assert cluster.status.progress.text == "4/10"


def test_a_new_attempt_does_not_reset_progress(cluster: SimulatedCluster) -> None:
    cluster.progress = Progress(total=10, finished=4, time=cluster.time)
    cluster.settle()
    cluster.finish(1)
    cluster.run_next()
    texts = []
    for finished, total in ((0, None), (3, None), (5, None), (2, 10)):
        cluster.progress = Progress(total=total, finished=finished, time=cluster.time)
        cluster.advance(60)
        assert cluster.status.progress is not None
        texts.append(cluster.status.progress.text)
    assert texts == ["4/10", "4/10", "5/?", "2/10"]


def test_the_number_of_redone_sources_is_reported_throughout(
    cluster: SimulatedCluster,
) -> None:
    cluster.finish(0, sources=SourceCounts(total=10, finished=10))
    assert cluster.status.progress is not None
    assert (cluster.status.progress.redone, "again" in cluster.status.state) == (None, False)
    cluster.edit(runId="second", onChange="Redo")
    cluster.settle()
    cluster.start_rayjob()
    cluster.progress = Progress(total=10, finished=0, skipped=9, time=cluster.time)
    cluster.advance(60)
    cluster.progress = Progress(total=10, finished=1, skipped=9, redone=4, time=cluster.time)
    cluster.redo_reason = "from the beginning, because 'quality' changed"
    cluster.pass_once()  # no write, because the last write is recent
    cluster.advance(60)
    assert cluster.status.progress.redone == 4
    assert cluster.status.state == "attempt 2: Running, 4 sources processed again"
    cluster.finish(0, sources=SourceCounts(total=10, finished=4, skipped=6, redone=4))
    assert cluster.status.progress.redone == 4
    assert cluster.status.state == "run 'second' completed (10/10), 4 sources processed again"
    words = "4 of 10 sources are processed again from the beginning, because 'quality' changed"
    told = [event.message for event in cluster.events if event.reason == EventReason.REDOING]
    assert told == [words]


def test_a_later_attempt_does_not_report_redone_sources_again(cluster: SimulatedCluster) -> None:
    cluster.progress = Progress(total=1, finished=0, skipped=1, redone=1, time=cluster.time)
    cluster.settle()
    cluster.finish(1)
    cluster.run_next()
    cluster.progress = Progress(total=1, finished=0, skipped=1, redone=1, time=cluster.time)
    cluster.advance(60)
    told = [event.message for event in cluster.events if event.reason == EventReason.REDOING]
    assert told == ["1 of 1 source is processed again"]


def test_the_final_counts_take_precedence(cluster: SimulatedCluster) -> None:
    cluster.progress = Progress(total=10, finished=4, time=cluster.time)
    cluster.settle()
    cluster.finish(0, sources=SourceCounts(total=10, finished=10))
    assert cluster.status.progress is not None
    assert cluster.status.progress.text == "10/10"


def test_a_new_run_is_reconciling_until_it_runs(cluster: SimulatedCluster) -> None:
    cluster.finish(0)
    assert cluster.status.find_condition(ConditionType.RECONCILING) is None
    cluster.edit(runId="second")
    cluster.settle()
    assert cluster.status.find_condition(ConditionType.RECONCILING) is not None
    cluster.start_rayjob()
    cluster.settle()
    assert cluster.status.find_condition(ConditionType.RECONCILING) is None


def test_a_suspended_pipeline_reports_this_and_later_its_wait(
    cluster: SimulatedCluster,
) -> None:
    cluster.finish(1)
    waiting = cluster.status.state
    assert waiting.startswith("retry 1 of ")
    cluster.edit(suspend=True)
    cluster.settle()
    assert (cluster.status.phase, cluster.status.state) == (PipelinePhase.SUSPENDED, SUSPENDED)
    cluster.edit(suspend=False)
    cluster.settle()
    assert cluster.status.state.startswith("next attempt at ")
    told = [event.reason for event in cluster.events]
    assert [one for one in told if one in {"Suspended", "Resumed"}] == ["Suspended", "Resumed"]


@pytest.mark.parametrize(("runs", "seconds"), [(True, 300.0), (False, 90.0)])
def test_a_pass_is_scheduled_at_a_deadline(*, runs: bool, seconds: float) -> None:
    cluster = SimulatedCluster()
    cluster.edit(deadlines={"attempt": "300s", "preRunning": "90s"})
    cluster.limits = replace(cluster.limits, resync=3600.0)
    cluster.settle()
    cluster.bind_claim()
    if runs:
        cluster.start_rayjob()
    cluster.settle()
    (_, status) = cluster.attempts["corpus-1"]
    begun = status.running_time if runs else status.start_time
    assert begun is not None
    while cluster.time < begun + seconds:
        wake_at = cluster.pass_once().wake_at or 0.0
        assert wake_at > cluster.time
        cluster.time = wake_at
    assert cluster.time == pytest.approx(begun + seconds, abs=1)
    cluster.pass_once()
    (_, status) = cluster.attempts["corpus-1"]
    assert status.cause == (Cause.DEADLINE_EXCEEDED if runs else Cause.SCHEDULING_TIMEOUT)


def test_an_invalid_pipeline_has_failed_unless_an_attempt_is_running(
    cluster: SimulatedCluster,
) -> None:
    cluster.edit(source={"use": "no such name!"})
    cluster.settle()
    assert cluster.status.phase == PipelinePhase.RUNNING
    fresh = SimulatedCluster()
    fresh.edit(source={"use": "no such name!"})
    fresh.settle()
    assert fresh.status.phase == PipelinePhase.FAILED
    assert fresh.status.find_condition(ConditionType.STALLED) is not None


@pytest.mark.parametrize("is_label", [False, True])
def test_kueue_reads_queue_and_priority_from_the_rayjob(*, is_label: bool) -> None:
    cluster = SimulatedCluster()
    names = {
        "kueue.x-k8s.io/queue-name": "nightly",
        "kueue.x-k8s.io/priority-class": "low",
    }
    if is_label:
        cluster.pipeline["metadata"]["labels"] = dict(names)
    else:
        cluster.edit(ray={"queueName": "nightly", "queuePriorityClass": "low"})
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert names.items() <= rayjob["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("reason", "detail", "told"),
    [
        (Reason.STARTING, "", Reason.STARTING.meaning),
        (Reason.COMPLETED, "", Reason.COMPLETED.meaning),
        (
            Reason.WAITS_FOR_NEXT_RUN,
            "",
            "The spec was edited after the run had ended. Set a new `runId` to run the edited "
            "spec.",
        ),
        (
            Reason.WAITS_FOR_NEXT_ATTEMPT,
            "",
            "The spec was edited. The edit takes effect with the next attempt. You may set "
            "`suspend` to true and back to false to start that attempt now.",
        ),
        (
            Reason.CLAIM_MISSING,
            "claim mine.",
            "A claim that `storage` names does not exist: claim mine. Create the claim; the run "
            "then continues.",
        ),
    ],
)
def test_reasons_become_sentences(reason: Reason, detail: str, told: str) -> None:
    assert reason.explain(detail) == told


def test_every_condition_has_its_generation(cluster: SimulatedCluster) -> None:
    def read_generations() -> set[int | None]:
        return {condition.observed_generation for condition in cluster.status.conditions}

    cluster.settle()
    assert read_generations() == {1}
    cluster.edit(attemptHistoryLimit=2)
    cluster.settle()
    assert read_generations() == {2}
    cluster.finish(1)
    _, attempt = cluster.attempts["corpus-1"]
    told = {condition.type: condition.observed_generation for condition in attempt.conditions}
    assert told == {"Succeeded": 1, "Frozen": 1}  # an attempt's generation never changes


def test_unchecked_conditions_keep_their_generation(
    cluster: SimulatedCluster,
) -> None:
    cluster.edit(source=7)  # an invalid spec, so no claim is read
    cluster.settle()
    told = {
        condition.type: condition.observed_generation for condition in cluster.status.conditions
    }
    assert (told[ConditionType.STALLED], told[ConditionType.STORAGE_READY]) == (2, 1)


def test_a_new_generation_alone_is_no_transition(cluster: SimulatedCluster) -> None:
    before = cluster.status.find_condition(ConditionType.STORAGE_READY)
    cluster.advance(100)
    cluster.edit(attemptHistoryLimit=2)
    cluster.settle()
    after = cluster.status.find_condition(ConditionType.STORAGE_READY)
    assert before is not None
    assert after is not None
    assert (before.observed_generation, after.observed_generation) == (1, 2)
    assert after.last_transition_time == before.last_transition_time


def test_history_is_kept_within_its_limit(cluster: SimulatedCluster) -> None:
    cluster.edit(attemptHistoryLimit=2)
    cluster.finish(1)
    for _ in range(3):
        cluster.run_next()
        cluster.finish(1)
    assert list(cluster.attempts) == ["corpus-3", "corpus-4"]
    assert [attempt.number for attempt in cluster.status.attempts] == [3, 4]


def test_ended_attempts_expire_except_the_newest(
    cluster: SimulatedCluster,
) -> None:
    cluster.edit(ttlAfterFinished="1h")
    cluster.finish(1)
    cluster.run_next()
    cluster.finish(0)
    cluster.advance(100_000)
    assert list(cluster.attempts) == ["corpus-2"]
    summary = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert summary is not None
    assert (summary.status, summary.reason) == ("True", "Completed")
