"""The outcome of an attempt. Only this module maps outcomes to exit codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import NO_WORK, Ending, WorkCost
from strandline.ledger.checks.counts import count_dead_letters
from strandline.ledger.records.entries import FailureRecord, Standing
from strandline.ledger.store.store import Store
from strandline.plan.errors import StrandlineError, code_of
from strandline.plan.receipt import StageCounts
from strandline.plan.stages.ends import SourceStage
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.failures import FailureGroup
from strandline.run.revise.dead_letters.retrial import widen_ending
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome, SourceCounts
from strandline_api.outcome.evidence import Evidence, read_exit
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Quarantine


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of an attempt.

    Attributes:
        code: the exit code of `strandline run`.
        message: one sentence for people.
        attempt: number in the ledger, from 1, or 0 if there is no ledger.
        total: number of listed sources, or None if the listing did not end.
        standing: source counts: `finished` by this attempt, `skipped` because an earlier attempt
            finished them, `failed`, `quarantined`, `removed`, and `unfinished`, the rest.
        counts: work of this attempt by stage name: `tasks_in`, `tasks_out`, `filtered`, `failed`,
            `rows_in`, `rows_out`, `seconds` in the stage's own code, `counters`.
        output: folder or URL of the output.
        seconds: duration of the attempt.
        incidents: a sentence for each lost and replaced worker, and for other incidents.
        evidence: observations about causes, besides the exit code.
        remaining: number of unfinished sources at the start, or None if the listing did not end.
        pools: the workers at the end, by stage name.
        failures: a record for each failed source, at most 1,000: `key`, `stage`, `message`, and
            `times`, the number of attempts in which the source failed.
        failure_groups: all failures by `stage` and `reason`, the largest group first, each with a
            `count` and an `example`.
        work: seconds that workers `worked`, and the seconds `lost`, which have to be repeated.
        redone: number of finished sources of an older recipe that the attempt had to replace.
    """

    code: ExitCode
    message: str
    attempt: int = 0
    total: int | None = None
    standing: Standing = field(default_factory=lambda: Standing(0, 0, 0, 0, 0))
    counts: dict[str, StageCounts] = field(default_factory=dict)
    output: str = ""
    seconds: float = 0.0
    incidents: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    remaining: int | None = None
    pools: Mapping[str, PoolState] = field(default_factory=dict)
    failures: tuple[FailureRecord, ...] = ()
    failure_groups: tuple[FailureGroup, ...] = ()
    work: WorkCost = NO_WORK
    redone: int = 0

    @property
    def sources(self) -> SourceCounts:
        """Return the source counts in the format that the operator expects."""
        standing = self.standing
        return SourceCounts(
            total=self.total,
            finished=standing.finished,
            failed=standing.failed,
            quarantined=standing.quarantined,
            skipped=standing.skipped,
            unfinished=standing.unfinished,
            redone=self.redone,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints last. Its keys are stable."""
        return {
            "outcome": self.code.name,
            "exitCode": int(self.code),
            "message": self.message,
            "attempt": self.attempt,
            "sources": self.sources.model_dump(exclude=None if self.redone else {"redone"}),
            "output": self.output,
            "seconds": round(self.seconds, 3),
            "incidents": list(self.incidents),
        }


def to_driver_outcome(outcome: AttemptResult, memory_kills: int) -> DriverOutcome:
    """Return the outcome in the form of the contract with the operator.

    Args:
        memory_kills: number of processes that the kernel killed for memory during the attempt.
    """
    return DriverOutcome(
        exit_code=int(outcome.code),
        message=outcome.message,
        attempt=outcome.attempt,
        sources=outcome.sources,
        remaining=outcome.remaining,
        evidence=(*outcome.evidence, *filter(None, [read_exit(int(outcome.code))])),
        memory_kills=memory_kills,
        work_seconds=round(outcome.work.worked, 3),
        work_lost=outcome.work.lost,
    )


def describe_error(error: BaseException, attempt: int, memory_kills: int) -> DriverOutcome:
    """Return the outcome of an attempt that ended with an error."""
    code = int(code_of(error))
    message = " ".join(str(error).split()) or type(error).__name__
    evidence = [item for item in (read_exit(code),) if item]
    cause = error.cause if isinstance(error, StrandlineError) else None
    if cause is not None:
        observer = "outcome" if cause is Cause.MODEL_UNAVAILABLE else "ray"
        evidence.insert(0, Evidence(cause, message, observer))
    return DriverOutcome(
        exit_code=code,
        message=message,
        attempt=attempt,
        evidence=tuple(evidence),
        memory_kills=memory_kills,
    )


def describe_overrun(message: str, attempt: int) -> DriverOutcome:
    """Return the outcome of an attempt that ended because a call exceeded its time limit."""
    return DriverOutcome(
        exit_code=int(ExitCode.APPLICATION_ERROR),
        message=message,
        attempt=attempt,
        evidence=(Evidence(Cause.TIMEOUT, message, "driver"),),
    )


def describe_leaving() -> DriverOutcome:
    """Return the outcome of an attempt that could not stop within its grace period."""
    code = int(ExitCode.INTERRUPTED)
    message = "stopped with unfinished work because the grace period was over"
    return DriverOutcome(
        exit_code=code, message=message, evidence=tuple(filter(None, [read_exit(code)]))
    )


def judge(
    ending: Ending, *, was_stopped: bool, quarantine: Quarantine, dead: int = 0
) -> tuple[ExitCode, str]:
    """Return the exit code and the message of an attempt whose engine has ended.

    Args:
        dead: number of dead letters of all finished sources, from all attempts.
    """
    standing, listed = ending.standing, ending.listed
    is_whole = ending.is_listed and not standing.unfinished
    # If the run is complete, report this, even if a stop was requested meanwhile.
    if was_stopped and not is_whole:
        return ExitCode.INTERRUPTED, (
            "interrupted; the next attempt continues with the remaining sources"
        )
    if not is_whole:
        message = f"{standing.unfinished} sources are unfinished; the next attempt retries them"
        return ExitCode.APPLICATION_ERROR, message
    if standing.failed:
        message = f"{standing.failed} of {listed} sources failed; another attempt would retry them"
        return ExitCode.SOURCES_FAILED, message
    quarantined = standing.quarantined
    if quarantined > (tolerated := quarantine.tolerated(listed)):
        message = (
            f"{quarantined} of {listed} sources are quarantined, and `quarantine.tolerate` allows "
            f"{tolerated}; list them with their reasons, correct them, and release them"
        )
        return ExitCode.QUARANTINE_EXCEEDED, message
    return ExitCode.COMPLETE, _describe_complete(standing, listed, dead)


def refuse_publishing(result: AttemptResult, unmet: Sequence[str]) -> AttemptResult:
    """Return the result of a complete attempt that does not meet its pipeline's requirements.

    Args:
        unmet: a sentence for each unmet requirement.
    """
    message = f"not published: {'; '.join(unmet)}"
    seen = Evidence(Cause.REQUIREMENTS_NOT_MET, message, "outcome")
    return replace(
        result,
        code=ExitCode.REQUIREMENTS_NOT_MET,
        message=f"{result.message}, but {message}",
        evidence=(*result.evidence, seen),
    )


def _describe_complete(standing: Standing, listed: int, dead: int) -> str:
    quarantined = standing.quarantined
    which = f"all {listed}" if not quarantined else f"{listed - quarantined} of {listed}"
    rest = f", {quarantined} quarantined" if quarantined else ""
    rest += f", {dead} rows are dead letters" if dead else ""
    if not standing.finished:
        return f"nothing left to do: {which} sources are finished{rest}"
    return f"complete: {which} sources are finished{rest}"


def conclude_attempt(
    config: AttemptConfig, source: SourceStage, ending: Ending, *, was_stopped: bool, dead: int
) -> AttemptResult:
    """Return the result of an attempt whose engine has ended.

    Args:
        dead: see `judge`.
    """
    code, message = judge(ending, was_stopped=was_stopped, quarantine=config.quarantine, dead=dead)
    listed = StageCounts(tasks_out=ending.listed, counters=source.counters)
    evidence = tuple(
        Evidence(
            Cause.OOM_KILLED,
            f"workers of stage {stage!r} were killed for memory",
            "ray",
            {"stage": stage},
        )
        for stage in dict.fromkeys(ending.memory_failures)
    )
    return AttemptResult(
        code=code,
        message=message,
        total=ending.listed if ending.is_listed else None,
        standing=ending.standing,
        counts={config.plan.source.name: listed, **ending.counts},
        incidents=tuple(ending.incidents),
        evidence=evidence,
        pools=ending.pools,
        work=ending.work,
        redone=ending.redone,
    )


def conclude_tracked(
    config: AttemptConfig, source: SourceStage, ending: Ending, store: Store, *, was_stopped: bool
) -> AttemptResult:
    """Return the result of an attempt with a ledger, including dead letters of all attempts."""
    if config.dead_letters is not None:
        ending = widen_ending(ending, store)
    # Skip the count after a stop: time is short, and the message does not mention dead letters.
    dead = 0 if was_stopped else count_dead_letters(store).total
    return conclude_attempt(config, source, ending, was_stopped=was_stopped, dead=dead)
