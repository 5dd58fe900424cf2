"""Runs that begin by the clock, with names of their own.

A name follows from the time, and that time is accounted for in the same status that begins the run,
so however often a pass is cut short, a start makes one run or none. The spec is not touched: its
`runId` still begins a run when a user changes it. This room must not know cron.
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

# A clock that is set back by less than these seconds makes no second run of the same time.
_LEAST_STEP = 300.0


def begin_scheduled_run(facts: Pass, standing: PassState) -> Verdict:
    """Begin the run whose time has come, where nothing goes on, and tell of those left out."""
    schedule, before = facts.spec.schedule, standing.status.schedule
    # A removed schedule leaves no time behind, or its next one would still be shown.
    if schedule is None:
        return _keep(standing, None) if before is not None else Verdict()
    # A new rule counts from now on: no past time was ever due by it.
    if before is None or before.rule != schedule.rule:
        missed = before.missed if before is not None else 0
        return _keep(standing, _account(schedule, facts.now, ScheduleStatus(missed=missed)))
    # The clock was ahead for a while: what it has accounted for is still to come.
    if before.last_time - facts.now > _LEAST_STEP:
        return _keep(standing, _account(schedule, facts.now, before))
    starts = count_starts(schedule, before.last_time, facts.now)
    # No start was due since the last look.
    if starts.latest is None:
        return Verdict(wakes=(before.next_time,))
    why = _find_hindrance(facts, standing, schedule, starts.latest)
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
    """Return why the run that is due can't begin; empty where nothing keeps it."""
    status = standing.status
    if facts.spec.suspend:
        return "the pipeline is suspended"
    # An ended attempt is counted by now, and has its successor's time where one follows.
    if standing.active is not None or status.next_attempt_time is not None:
        return f"run {status.run!r} is still in progress"
    latest = schedule.starting_deadline_seconds
    # A start so late is of no use, by the user's own bound.
    if latest is not None and facts.now - time > latest:
        return "the operator was not running, and schedule.startingDeadline had passed"
    return ""


def _account(schedule: RunSchedule, time: float, before: ScheduleStatus) -> ScheduleStatus:
    """Return the status in which all starts up to a time are accounted for."""
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
