"""Derives an attempt's outcome from the end of its driver process. The module is pure.

The driver's own report has precedence. If the driver or a process that it needed was killed, the
kernel and the exit code provide evidence. The API ranks the evidence and determines the cause.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from strandline.run.insight.memory_kills import KernelKill
from strandline.run.insight.records import AttemptProgress, AttemptRecord
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome, SourceCounts
from strandline_api.outcome.evidence import (
    Evidence,
    find_signal,
    name_cause,
    read_exit,
    to_exit_code,
)
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.outcome.work_lost import WorkLost

# Exit codes of an attempt that reached its end, even if a stop was requested in the meantime.
_CONCLUSIVE = frozenset(
    {
        ExitCode.COMPLETE,
        ExitCode.SOURCES_FAILED,
        ExitCode.QUARANTINE_EXCEEDED,
        ExitCode.REQUIREMENTS_NOT_MET,
    }
)
# Exit codes that explain the end by themselves, even if the kernel killed a worker for memory
# during the attempt.
_DELIBERATE = frozenset(set(ExitCode) - {ExitCode.APPLICATION_ERROR})
# Start of the kernel's message about a kill by a cgroup's limit.
_BY_LIMIT = "Memory cgroup"
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT})
# Return codes of a process that a stop signal has ended because it did not handle the signal.
_DEAF = frozenset({-signal.SIGTERM, -signal.SIGINT})


class DriverEnd(NamedTuple):
    """How a driver process ended, as its parent observed it.

    Attributes:
        pid: pid of the process.
        returncode: Python's return code: negative for a signal.
        asked: why a stop was requested, or None if there is no request.
        memory_kills: number of processes of this cgroup that the kernel killed for memory while the
            driver was running.
        log: kills in the kernel's log during that time, including kills of other programs.
        words: message of the error that ended the driver, or empty.
        ray_variables: names of the environment variables that configure Ray.
    """

    pid: int
    returncode: int
    asked: Evidence | None
    memory_kills: int
    log: Sequence[KernelKill]
    words: str = ""
    ray_variables: Sequence[str] = ()


def conclude(
    record: AttemptRecord | None,
    end: DriverEnd,
    progress: AttemptProgress | None,
    latest: str = "",
) -> DriverOutcome:
    """Return the outcome of an attempt.

    Args:
        record: record of the attempt, or None if it never took over the ledger.
        progress: progress in the ledger, or None if the attempt never took over the ledger.
        latest: the publication that `latest` points to.
    """
    reported = record.outcome if record else None
    code = _find_code(end, reported)
    evidence = tuple(_gather(end, reported, code, has_begun=record is not None))
    named = name_cause(evidence) if evidence else None
    if (
        reported is not None
        and reported.exit_code == code
        and (named is None or named is not end.asked)
    ):
        message = reported.message
    else:
        message = named.message if named else "it ended without a message"
    sources, remaining = _count(reported, progress or AttemptProgress(0, None))
    return DriverOutcome(
        exit_code=code,
        message=message,
        attempt=record.number if record else 0,
        sources=sources,
        remaining=remaining,
        evidence=evidence,
        memory_kills=end.memory_kills,
        latest=latest,
        work_seconds=reported.work_seconds if reported else 0.0,
        work_lost=reported.work_lost if reported else WorkLost(),
    )


def _find_code(end: DriverEnd, reported: DriverOutcome | None) -> int:
    if end.asked is None:
        return to_exit_code(end.returncode)
    if end.returncode in _DEAF:
        # The signal came before the driver handled signals, so no work had begun, or after the
        # driver's last report.
        return reported.exit_code if reported else int(ExitCode.INTERRUPTED)
    if end.returncode == ExitCode.APPLICATION_ERROR and not reported and not end.words:
        # If the same signal has ended Ray's own processes, Ray's library exits this way.
        return int(ExitCode.INTERRUPTED)
    return to_exit_code(end.returncode)


def _gather(
    end: DriverEnd, reported: DriverOutcome | None, code: int, *, has_begun: bool
) -> Iterator[Evidence]:
    seen = read_exit(code)
    if seen and not has_begun and is_crash_of_ray(end):
        crash = f"{seen.message} while loading; Ray crashes like this if it can't "
        crash += f"read a variable, and these are set: {', '.join(end.ray_variables)}"
        seen = replace(seen, message=crash)
    if seen and not reported and end.words and find_signal(code) is None:
        seen = replace(seen, message=end.words)
    words = reported.evidence if reported else ()
    asked = end.asked if code not in _CONCLUSIVE else None
    for evidence in (*words, *([seen] if seen and seen not in words else [])):
        # A driver that was stopped for a stall reports only that it was interrupted. Drop this
        # evidence, because the parent's evidence explains more.
        if not (asked and asked.cause is Cause.STALLED and evidence.cause is Cause.INTERRUPTED):
            yield evidence
    if asked:
        yield asked
    if code not in _DELIBERATE:
        yield from _find_memory(end)


def is_crash_of_ray(end: DriverEnd) -> bool:
    """Return True if Ray's library may have crashed. Call this only if no work has begun.

    Ray reads its variables while it is loaded. An invalid number makes Ray crash without a message,
    and the next attempt would crash too.
    """
    return bool(end.ray_variables) and find_signal(end.returncode) in _CRASHES


def _count(
    reported: DriverOutcome | None, progress: AttemptProgress
) -> tuple[SourceCounts, int | None]:
    """Return the driver's source counts.

    If an error or a signal kept the driver from counting, use the ledger's counts.
    """
    sources, remaining = SourceCounts(), None
    if reported:
        sources, remaining = reported.sources, reported.remaining
    # The ledger may have finished more sources since the driver's last count.
    finished = max(sources.finished, progress.finished)
    sources = sources.model_copy(update={"finished": finished})
    return sources, progress.remaining if remaining is None else remaining


def _find_memory(end: DriverEnd) -> Iterator[Evidence]:
    if kills := end.memory_kills:
        what = "a process" if kills == 1 else f"{kills} processes"
        message = f"the kernel killed {what} of this cgroup for memory"
        yield Evidence(Cause.OOM_KILLED, message, "cgroup", {"kills": kills})
    for kill in end.log:
        # Ray's processes have names such as `raylet`, `gcs_server`, and `ray::NAME`.
        is_rays = kill.name.startswith(("ray", "gcs_server"))
        # If the message is about a cgroup's limit, but this cgroup counted no kill, the killed
        # process belongs to another Ray instance.
        is_elsewhere = kill.text.startswith(_BY_LIMIT) and not end.memory_kills
        if kill.pid == end.pid or (is_rays and not is_elsewhere):
            message = f"the kernel killed {kill.name} (process {kill.pid}) for memory"
            yield Evidence(Cause.OOM_KILLED, message, "kernel log", {"pid": kill.pid})
