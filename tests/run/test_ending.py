"""The verdict about a driver's end, from exit code, last messages, kernel, and requests."""

from __future__ import annotations

import signal
from typing import NamedTuple

import pytest

from attempt_builders import killed_for, outcome_of, record_of
from strandline.run.insight.memory_kills import KernelKill
from strandline.run.insight.records import AttemptProgress, AttemptRecord, Witness
from strandline.run.supervise.ending import DriverEnd, conclude
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.outcome.evidence import Evidence, name_cause, read_exit

STOP = Evidence(Cause.INTERRUPTED, "asked to stop", "user")
DEADLINE = Evidence(Cause.DEADLINE_EXCEEDED, "the deadline of 60 s has passed", "deadline")
STALL = Evidence(Cause.STALLED, "the driver did not respond for 700 s", "deadline")
OURS = KernelKill(100, "python", "Killed process 100 (python)")
WORKER = KernelKill(7, "ray::Worker", "Killed process 7 (ray::Worker)")
ELSEWHERE = KernelKill(
    9, "ray::Worker", "Memory cgroup out of memory: Killed process 9 (ray::Worker)"
)
STRANGER = KernelKill(8, "browser", "Killed process 8 (browser)")


def ended_with(
    returncode: int,
    asked: Evidence | None = None,
    memory_kills: int = 0,
    *log: KernelKill,
) -> DriverEnd:
    return DriverEnd(100, returncode, asked, memory_kills, log)


def said(outcome: DriverOutcome) -> AttemptRecord:
    """Return a record in which the driver has written its end."""
    return record_of(1).end(outcome, 1060.0, Witness.DRIVER)


def test_a_crash_while_ray_is_loaded_names_its_variables() -> None:
    """Ray's library crashes while it is loaded if an environment variable is not a number."""
    names = ("RAY_gcs_rpc_server_reconnect_timeout_s", "RAY_memory_monitor_refresh_ms")
    end = ended_with(-signal.SIGSEGV)._replace(ray_variables=names)
    before = conclude(None, end, None)
    assert before.exit_code == 139
    assert before.message.endswith(
        "Ray crashes like this if it can't read a variable, and these are set: " + ", ".join(names)
    )
    for other in (
        conclude(record_of(1), end, None),  # The attempt had begun, so Ray was loaded.
        conclude(None, end._replace(ray_variables=()), None),
        conclude(None, end._replace(returncode=-signal.SIGKILL), None),
    ):
        assert "RAY_" not in other.message


class Case(NamedTuple):
    """A driver's end and the expected outcome.

    `words` has the outcome that the driver wrote, or None if the driver was killed before.
    """

    end: DriverEnd
    words: DriverOutcome | None
    code: int
    cause: Cause | None
    message: str


INTERRUPTED = outcome_of(75, message="interrupted; what is finished is kept")
FAILED = outcome_of(3, message="1 of 3 sources failed")
BROKEN = outcome_of(1, message="stage 'own' broke")
RAY_OOM = outcome_of(
    3,
    message="2 of 3 sources failed",
    evidence=(
        Evidence(Cause.OOM_KILLED, "workers were killed for memory", "ray"),
        *filter(None, [read_exit(3)]),
    ),
)
COMPLETE = outcome_of(0, message="complete: all 3 sources are finished")
SIGKILL = "killed by signal 9 (SIGKILL)"
CASES = {
    "complete": Case(ended_with(0), COMPLETE, 0, None, "complete: all 3"),
    "some sources failed": Case(ended_with(3), FAILED, 3, Cause.SOURCES_FAILED, "1 of 3"),
    "an error": Case(ended_with(1), BROKEN, 1, Cause.APPLICATION_ERROR, "stage 'own' broke"),
    "a full disk": Case(
        ended_with(73), outcome_of(73, message="no space"), 73, Cause.VOLUME_UNUSABLE, "no space"
    ),
    "workers out of memory, by Ray": Case(ended_with(3), RAY_OOM, 3, Cause.OOM_KILLED, "2 of 3"),
    "killed": Case(ended_with(-9), None, 137, Cause.KILLED, SIGKILL),
    "killed inside of a shell": Case(ended_with(137), None, 137, Cause.KILLED, SIGKILL),
    "ended by a stranger's SIGTERM": Case(
        ended_with(-15), None, 143, Cause.KILLED, "killed by signal 15 (SIGTERM)"
    ),
    "a fault in compiled code": Case(
        ended_with(-11), None, 139, Cause.APPLICATION_ERROR, "crashed with signal 11 (SIGSEGV)"
    ),
    "an error before it began": Case(
        ended_with(64)._replace(words="spec.sink: missing"),
        None,
        64,
        Cause.INVALID_SPEC,
        "spec.sink: missing",
    ),
    "killed after an error": Case(
        ended_with(-9)._replace(words="no room"), None, 137, Cause.KILLED, SIGKILL
    ),
    "left without a word": Case(ended_with(7), None, 7, Cause.APPLICATION_ERROR, "exit code 7"),
    "complete without a word": Case(ended_with(0), None, 0, None, "it ended without a message"),
    "killed after its last word": Case(ended_with(-9), COMPLETE, 137, Cause.KILLED, SIGKILL),
    "killed for memory, by the cgroup": Case(
        ended_with(-9, None, 1),
        None,
        137,
        Cause.OOM_KILLED,
        "the kernel killed a process of this cgroup for memory",
    ),
    "several killed for memory": Case(
        ended_with(-9, None, 3), None, 137, Cause.OOM_KILLED, "the kernel killed 3 processes of"
    ),
    "killed for memory, by the log": Case(
        ended_with(-9, None, 0, STRANGER, OURS),
        None,
        137,
        Cause.OOM_KILLED,
        "the kernel killed python (process 100) for memory",
    ),
    "an error since Ray's worker was killed for memory": Case(
        ended_with(1, None, 0, WORKER), BROKEN, 1, Cause.OOM_KILLED, "stage 'own' broke"
    ),
    "killed while a stranger was killed for memory": Case(
        ended_with(-9, None, 0, STRANGER), None, 137, Cause.KILLED, SIGKILL
    ),
    "killed while a Ray of another container was killed for memory": Case(
        ended_with(-9, None, 0, ELSEWHERE), None, 137, Cause.KILLED, SIGKILL
    ),
    "an error since Ray's worker was killed for memory in its cgroup": Case(
        ended_with(1, None, 1, ELSEWHERE), BROKEN, 1, Cause.OOM_KILLED, "stage 'own' broke"
    ),
    "complete although workers were killed for memory": Case(
        ended_with(0, None, 2, WORKER), COMPLETE, 0, None, "complete"
    ),
    "failed sources, and workers killed for memory that were replaced": Case(
        ended_with(3, None, 2), FAILED, 3, Cause.SOURCES_FAILED, "1 of 3"
    ),
    "stopped in order": Case(
        ended_with(75, STOP), INTERRUPTED, 75, Cause.INTERRUPTED, "interrupted; what is finished"
    ),
    "stopped by somebody else": Case(
        ended_with(75), INTERRUPTED, 75, Cause.INTERRUPTED, "interrupted; what is finished"
    ),
    "left when the grace period was over": Case(
        ended_with(75), None, 75, Cause.INTERRUPTED, "exit code 75: The run was interrupted"
    ),
    "stopped at once": Case(ended_with(143, STOP), None, 143, Cause.INTERRUPTED, "asked to stop"),
    "stopped by force": Case(ended_with(-9, STOP), None, 137, Cause.INTERRUPTED, "asked to stop"),
    "stopped by force, and killed for memory": Case(
        ended_with(-9, STOP, 1), None, 137, Cause.INTERRUPTED, "asked to stop"
    ),
    "stopped before it could listen": Case(
        ended_with(-15, STOP), None, 75, Cause.INTERRUPTED, "exit code 75"
    ),
    "stopped by a key before it could listen": Case(
        ended_with(-2, STOP), None, 75, Cause.INTERRUPTED, "exit code 75"
    ),
    "asked after its last word": Case(ended_with(-15, STOP), COMPLETE, 0, None, "complete"),
    "asked, and complete": Case(ended_with(0, STOP), COMPLETE, 0, None, "complete"),
    "asked, and it came to its end": Case(
        ended_with(3, STOP), FAILED, 3, Cause.SOURCES_FAILED, "1 of 3"
    ),
    "asked, and an error": Case(ended_with(1, STOP), BROKEN, 1, Cause.INTERRUPTED, "asked to stop"),
    "asked, and ended by Ray's library": Case(
        ended_with(1, STOP), None, 75, Cause.INTERRUPTED, "exit code 75"
    ),
    "ended by Ray's library, and not asked": Case(
        ended_with(1), None, 1, Cause.APPLICATION_ERROR, "exit code 1"
    ),
    "asked, and an error before it began": Case(
        ended_with(1, STOP)._replace(words="no room"), None, 1, Cause.INTERRUPTED, "asked to stop"
    ),
    "past its deadline, and ended by Ray's library": Case(
        ended_with(1, DEADLINE), None, 75, Cause.DEADLINE_EXCEEDED, "the deadline of 60 s"
    ),
    "past its deadline": Case(
        ended_with(75, DEADLINE), INTERRUPTED, 75, Cause.DEADLINE_EXCEEDED, "the deadline of 60 s"
    ),
    "past its deadline, by force": Case(
        ended_with(-9, DEADLINE), None, 137, Cause.DEADLINE_EXCEEDED, "the deadline of 60 s"
    ),
    "stalled": Case(
        ended_with(-9, STALL), None, 137, Cause.STALLED, "the driver did not respond for 700 s"
    ),
    "stalled, and it stops when it is asked": Case(
        ended_with(75, STALL),
        INTERRUPTED,
        75,
        Cause.STALLED,
        "the driver did not respond for 700 s",
    ),
    "stalled for want of memory": Case(
        ended_with(-9, STALL, 1), None, 137, Cause.OOM_KILLED, "the kernel killed a process"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_end_of_a_driver_gets_the_expected_verdict(case: Case) -> None:
    record = record_of(1) if case.words is None else said(case.words)
    outcome = conclude(record, case.end, AttemptProgress(0, None))
    cause = name_cause(outcome.evidence).cause if outcome.exit_code else None
    assert (case.code, case.cause) == (outcome.exit_code, cause)
    assert outcome.message.startswith(case.message)
    assert (1, case.end.memory_kills) == (outcome.attempt, outcome.memory_kills)
    assert outcome.exit_code == 0 or outcome.evidence


def test_no_evidence_is_counted_twice() -> None:
    """An exit code that is reported and also observed counts as one piece of evidence."""
    outcome = conclude(said(FAILED), ended_with(3), None)
    assert (read_exit(3),) == outcome.evidence


def test_a_driver_that_never_began_has_no_number() -> None:
    outcome = conclude(None, ended_with(64), None)
    assert (64, 0, "BAD_SPEC") == (outcome.exit_code, outcome.attempt, outcome.outcome)
    assert outcome.message.startswith("exit code 64: ")


def test_sources_finished_by_a_killed_driver_are_counted_from_the_ledger() -> None:
    outcome = conclude(record_of(1), ended_with(-9), AttemptProgress(7, 40))
    assert (7, 40) == (outcome.sources.finished, outcome.remaining)


def test_sources_finished_before_an_error_are_counted_from_the_ledger() -> None:
    """An error leaves no counts, but finished sources must refill the retry budget."""
    outcome = conclude(said(BROKEN), ended_with(1), AttemptProgress(7, 40))
    assert (7, 40) == (outcome.sources.finished, outcome.remaining)


def test_counts_reported_by_the_driver_stay() -> None:
    words = killed_for(Cause.KILLED, finished=9, remaining=50)
    for progress in (None, AttemptProgress(0, None), AttemptProgress(9, 50)):
        outcome = conclude(said(words), ended_with(-9), progress)
        assert (9, 50) == (outcome.sources.finished, outcome.remaining)


def test_the_published_snapshot_is_passed_on() -> None:
    assert conclude(None, ended_with(-9), None, "0001/p0003").latest == "0001/p0003"
