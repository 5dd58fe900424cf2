"""Starts scheduled runs, and names them.

The run's name derives from its start time, and the write that starts the run also records that
time, so an interrupted pass can't start a run twice. The operator does not change the spec, so
users can still start a run with a new `runId`. This module must not depend on cron.
"""

from __future__ import annotations

from strandline_api.api_model import evolve
from strandline_api.notation.times import format_time
from strandline_api.spec.schedule import RunSchedule, name_scheduled_run
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import ScheduleStatus
from strandline_operator.decide.run.sequence import begin_run
from strandline_operator.decide.run.timetable.cron import count_starts, find_next
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import PassState, Verdict, warn

# Seconds by which the clock may be set back without starting the same run again.
_LEAST_STEP = 300.0


def begin_scheduled_run(facts: Pass, standing: PassState) -> Verdict:
    """Start the due run if none is in progress, and report skipped runs."""
    schedule, before = facts.spec.schedule, standing.status.schedule
    # If the schedule was removed, remove the next start time from the status.
    if schedule is None:
        return _keep(standing, None) if before is not None else Verdict()
    # A new rule applies from now on, so its earlier start times were not missed.
    if before is None or before.rule != schedule.rule:
        missed = before.missed if before is not None else 0
        return _keep(standing, _account(schedule, facts.now, ScheduleStatus(missed=missed)))
    # The clock was ahead for a while and was set back, so forget the start times in the future.
    if before.last_time - facts.now > _LEAST_STEP:
        return _keep(standing, _account(schedule, facts.now, before))
    starts = count_starts(schedule, before.last_time, facts.now)
    # No start time has passed since the last pass.
    if starts.latest is None:
        return Verdict(wakes=(before.next_time,))
    why = _find_hindrance(facts, standing, schedule, starts.latest)
    # If the latest run can start, only the earlier start times were missed.
    missed = starts.number - (not why)
    accounted = _account(schedule, starts.latest, before)
    if missed:
        accounted = evolve(accounted, missed=before.missed + missed, last_missed_time=starts.latest)
    verdict = _keep(standing, accounted)
    if missed:
        verdict = verdict.then(
            _report_missed(starts.latest, missed, why or "the operator was not running")
        )
    if why or verdict.status is None:
        return verdict
    run = name_scheduled_run(starts.latest)
    return verdict.then(
        begin_run(facts, PassState(standing.view, standing.decided.then(verdict)), run)
    )


def _find_hindrance(facts: Pass, standing: PassState, schedule: RunSchedule, time: float) -> str:
    """Return why the due run can't start, or an empty string if it can."""
    status = standing.status
    if facts.spec.suspend:
        return "the pipeline is suspended"
    # An attempt is running, or another attempt of the run is due.
    if standing.active is not None or status.next_attempt_time is not None:
        return f"run {status.run!r} is still in progress"
    latest = schedule.starting_deadline_seconds
    # The user's own limit excludes starts that are this late.
    if latest is not None and facts.now - time > latest:
        return "the operator was not running, and schedule.startingDeadline had passed"
    return ""


def _account(schedule: RunSchedule, time: float, before: ScheduleStatus) -> ScheduleStatus:
    """Return the schedule's status with all start times up to `time` marked as handled."""
    next_time = find_next(schedule, time)
    return evolve(before, rule=schedule.rule, last_time=time, next_time=next_time)


def _keep(standing: PassState, schedule: ScheduleStatus | None) -> Verdict:
    status = evolve(standing.status, schedule=schedule)
    return Verdict(status, wakes=(schedule.next_time,) if schedule else ())


def _report_missed(time: float, missed: int, why: str) -> Verdict:
    time_text = format_time(time)
    which = f"the run scheduled for {time_text} was skipped"
    if missed > 1:
        which = f"{missed} scheduled runs were skipped, the last one due at {time_text}"
    text = f"{which}: {why}"
    return Verdict(events=(warn(EventReason.SCHEDULE_MISSED, text),))
