"""Scheduled runs: at most one per scheduled time, never two together, and skips are reported."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simulated_cluster import SimulatedCluster
from strandline_api.spec.schedule import RunSchedule
from strandline_api.status.pipeline_status import PipelineStatus, ScheduleStatus
from strandline_operator.decide.run.timetable.cron import MOST_STARTS, count_starts, find_next
from strandline_operator.model.plan import Resource

MIDNIGHT = datetime(2026, 11, 24, tzinfo=UTC).timestamp()
HOUR, DAY = 3600.0, 86400.0
NIGHTLY = {"cron": "0 3 * * *"}


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def schedule(cron: str, zone: str | None = None) -> RunSchedule:
    return RunSchedule(cron=cron, time_zone=zone)


def start(**given: object) -> SimulatedCluster:
    """Return a pipeline with a schedule whose first run completed a little after midnight."""
    cluster = SimulatedCluster(time=MIDNIGHT)
    cluster.edit(schedule=given or NIGHTLY)
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish()
    return cluster


def read_schedule(cluster: SimulatedCluster) -> ScheduleStatus:
    assert cluster.status.schedule is not None
    return cluster.status.schedule


def go_to(cluster: SimulatedCluster, time: float) -> None:
    cluster.time = time
    cluster.settle()


def test_a_scheduled_run_starts_on_time_with_its_own_name() -> None:
    cluster = start()
    assert (cluster.status.run, len(cluster.attempts)) == ("first", 1)
    assert cluster.status.state.endswith(", next run at 2026-11-24T03:00:00Z")
    plan = cluster.pass_once()
    assert plan.wake_at is not None
    assert plan.wake_at <= MIDNIGHT + 3 * HOUR
    go_to(cluster, MIDNIGHT + 3 * HOUR - 1)
    assert len(cluster.attempts) == 1
    go_to(cluster, MIDNIGHT + 3 * HOUR)
    assert cluster.status.run == "at-20261124t0300z"
    assert len(cluster.attempts) == 2
    # The driver's spec names the new run. The user's spec does not change.
    (config,) = [
        body for body in cluster.list_of(Resource.CONFIG_MAP) if "corpus-2" in str(body["metadata"])
    ]
    assert yaml.safe_load(config["data"]["pipeline.yaml"])["spec"]["runId"] == "at-20261124t0300z"
    assert "runId" not in cluster.spec
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish()
    go_to(cluster, MIDNIGHT + DAY + 3 * HOUR)
    assert cluster.status.run == "at-20261125t0300z"
    assert read_schedule(cluster).missed == 0


def test_a_scheduled_time_starts_one_run_despite_many_passes() -> None:
    cluster = start()
    go_to(cluster, MIDNIGHT + 3 * HOUR)
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish()
    for _ in range(5):
        cluster.advance(600)
    assert len(cluster.attempts) == 2


def test_a_scheduled_time_during_a_run_is_skipped_and_reported() -> None:
    cluster = start()
    go_to(cluster, MIDNIGHT + 3 * HOUR)
    cluster.start_rayjob()
    go_to(cluster, MIDNIGHT + DAY + 3 * HOUR)
    assert read_schedule(cluster).missed == 1
    assert read_schedule(cluster).last_missed_time == MIDNIGHT + DAY + 3 * HOUR
    (event,) = [event for event in cluster.events if event.reason == "ScheduleMissed"]
    assert event.is_warning
    assert event.message == (
        "the run scheduled for 2026-11-25T03:00:00Z was skipped: run 'at-20261124t0300z' is still "
        "in progress"
    )
    cluster.finish()
    assert len(cluster.attempts) == 2
    go_to(cluster, MIDNIGHT + 2 * DAY + 3 * HOUR)
    assert cluster.status.run == "at-20261126t0300z"


def test_a_run_with_a_due_retry_is_still_running() -> None:
    cluster = start()
    go_to(cluster, MIDNIGHT + 3 * HOUR)
    cluster.start_rayjob()
    cluster.settle()
    cluster.spec["retry"] = {"jitter": "none", "delay": "30h", "maxDelay": "31h"}
    cluster.finish(1)
    assert cluster.status.next_attempt_time is not None
    go_to(cluster, MIDNIGHT + DAY + 3 * HOUR)
    assert cluster.status.run == "at-20261124t0300z"
    assert read_schedule(cluster).missed == 1


def test_a_failed_run_is_followed_by_the_next_scheduled_run() -> None:
    cluster = start()
    go_to(cluster, MIDNIGHT + 3 * HOUR)
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish(64)
    go_to(cluster, MIDNIGHT + DAY + 3 * HOUR)
    assert cluster.status.run == "at-20261125t0300z"


def test_after_an_outage_only_the_last_missed_run_starts() -> None:
    cluster = start()
    cluster.restart(5 * DAY)
    cluster.settle()
    assert cluster.status.run == "at-20261128t0300z"
    assert read_schedule(cluster).missed == 4
    (event,) = [event for event in cluster.events if event.reason == "ScheduleMissed"]
    assert event.message.startswith("4 scheduled runs were skipped, the last one due at")


def test_a_run_past_its_start_deadline_is_skipped() -> None:
    cluster = start(cron="0 3 * * *", startingDeadline="1h")
    cluster.restart(4.5 * HOUR)
    cluster.settle()
    assert cluster.status.run == "first"
    assert read_schedule(cluster).missed == 1
    go_to(cluster, MIDNIGHT + DAY + 3.5 * HOUR)
    assert cluster.status.run == "at-20261125t0300z"


def test_a_suspended_pipeline_starts_no_scheduled_run() -> None:
    cluster = start()
    cluster.edit(suspend=True)
    go_to(cluster, MIDNIGHT + 3 * HOUR)
    assert read_schedule(cluster).missed == 1
    cluster.edit(suspend=False)
    cluster.settle()
    assert cluster.status.run == "first"


def test_a_changed_run_id_still_starts_a_run() -> None:
    cluster = start()
    go_to(cluster, MIDNIGHT + 3 * HOUR)
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish()
    assert cluster.status.requested_run == "first"
    cluster.edit(runId="second")
    cluster.settle()
    assert (cluster.status.run, cluster.status.requested_run) == ("second", "")
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish()
    go_to(cluster, MIDNIGHT + DAY + 3 * HOUR)
    assert (cluster.status.run, cluster.status.requested_run) == ("at-20261125t0300z", "second")


def test_a_new_schedule_counts_from_its_edit() -> None:
    cluster = start()
    cluster.edit(schedule={"cron": "30 * * * *"})
    cluster.settle()
    cluster.edit(schedule={"cron": "0 * * * *", "timeZone": "Asia/Kolkata"})
    cluster.settle()
    assert cluster.status.run == "first"
    assert read_schedule(cluster).next_time == MIDNIGHT + HOUR / 2
    cluster.spec.pop("schedule")
    cluster.edit()
    cluster.settle()
    assert cluster.status.schedule is None


def test_a_schedule_without_future_times_is_harmless() -> None:
    cluster = start(cron="0 0 30 2 *")
    assert read_schedule(cluster).next_time is None
    go_to(cluster, MIDNIGHT + 400 * DAY)
    assert cluster.status.run == "first"


@pytest.mark.parametrize("cut_at", range(1, 24))
def test_a_kill_before_any_call_causes_no_second_run(cut_at: int) -> None:
    cluster = start()
    cluster.calls, cluster.cut_at = 0, cut_at
    go_to(cluster, MIDNIGHT + 3 * HOUR)
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish()
    assert len(cluster.attempts) == 2
    assert cluster.most_running == 1
    assert read_schedule(cluster).missed == 0


def test_a_status_without_a_schedule_is_read_unchanged() -> None:
    status = PipelineStatus.parse({"run": "second"})
    assert status.answered_run == "second"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        # This hour is skipped by the change to summer time, so the run starts right afterwards.
        ("2026-03-29T00:00:00+01:00", "2026-03-29T03:00:00+02:00"),
        # This hour occurs twice, but the run starts only at the first occurrence.
        ("2026-10-25T00:00:00+02:00", "2026-10-25T02:30:00+02:00"),
        ("2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"),
        ("2026-07-01T00:00:00+02:00", "2026-07-01T02:30:00+02:00"),
    ],
)
def test_clock_changes_of_a_zone_neither_skip_nor_repeat_runs(after: str, expected: str) -> None:
    assert find_next(schedule("30 2 * * *", "Europe/Berlin"), at(after)) == at(expected)


@given(
    minute=st.integers(0, 59),
    begin=st.floats(MIDNIGHT, MIDNIGHT + 400 * DAY),
    length=st.floats(0, 50 * DAY),
)
def test_law_missed_starts_are_counted_exactly(minute: int, begin: float, length: float) -> None:
    rule, end = schedule(f"{minute} */7 * * *", "America/New_York"), begin + length
    count, latest, time = 0, None, find_next(rule, begin)
    while time is not None and time <= end:
        count, latest, time = count + 1, time, find_next(rule, time)
    assert count_starts(rule, begin, end) == (latest, count)


def test_the_last_start_is_known_even_if_too_many_were_missed_to_count() -> None:
    every_minute = schedule("* * * * *")
    assert count_starts(every_minute, MIDNIGHT, MIDNIGHT + 300 * DAY) == (
        MIDNIGHT + 300 * DAY,
        MOST_STARTS,
    )
