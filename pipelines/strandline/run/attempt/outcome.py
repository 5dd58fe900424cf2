"""How an attempt ended: the exit code for each way it can, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import Ending
from strandline.ledger.entries import Standing
from strandline.plan.errors import code_of
from strandline.plan.receipt import Counts
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome, SourceCounts
from strandline_api.outcome.evidence import Evidence, read_exit
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Quarantine


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attempt came to.

    Attributes:
        code: the exit code; the contract with scripts and the operator.
        message: one sentence.
        attempt: its number in the ledger; 0 without one.
        total: sources listed, None where the listing did not end.
        standing: how the sources stand.
        counts: what went through each stage.
        output: folder or URL of the output.
        seconds: how long it took.
        incidents: workers that were lost and replaced.
        evidence: what was seen of causes, besides the exit code.
        remaining: unfinished sources when it began; None where the listing did not end.
        pools: the workers of each stage at its end, by name.
    """

    code: ExitCode
    message: str
    attempt: int = 0
    total: int | None = None
    standing: Standing = field(default_factory=lambda: Standing(0, 0, 0, 0, 0))
    counts: dict[str, Counts] = field(default_factory=dict)
    output: str = ""
    seconds: float = 0.0
    incidents: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    remaining: int | None = None
    pools: Mapping[str, PoolState] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The last line of `--json`; its keys are stable."""
        standing = self.standing
        return {
            "outcome": self.code.name,
            "exitCode": int(self.code),
            "message": self.message,
            "attempt": self.attempt,
            "sources": {
                "total": self.total,
                "finished": standing.finished,
                "failed": standing.failed,
                "quarantined": standing.quarantined,
                "skipped": standing.skipped,
                "unfinished": standing.unfinished,
            },
            "output": self.output,
            "seconds": round(self.seconds, 3),
            "incidents": list(self.incidents),
        }


def to_driver_outcome(outcome: Outcome, memory_kills: int) -> DriverOutcome:
    """The outcome in the words of the contract with the operator.

    Args:
        memory_kills: processes that the kernel killed for memory meanwhile.
    """
    return DriverOutcome(
        exit_code=int(outcome.code),
        message=outcome.message,
        attempt=outcome.attempt,
        sources=SourceCounts.model_validate(outcome.to_json()["sources"]),
        remaining=outcome.remaining,
        evidence=(*outcome.evidence, *filter(None, [read_exit(int(outcome.code))])),
        memory_kills=memory_kills,
    )


def describe_error(error: BaseException, attempt: int, memory_kills: int) -> DriverOutcome:
    """The outcome of an attempt that an error has ended."""
    code = int(code_of(error))
    message = " ".join(str(error).split()) or type(error).__name__
    evidence = [one for one in (read_exit(code),) if one]
    cause = getattr(error, "cause", None)
    if cause is not None:
        evidence.insert(0, Evidence(cause, message, "ray"))
    return DriverOutcome(
        exit_code=code,
        message=message,
        attempt=attempt,
        evidence=tuple(evidence),
        memory_kills=memory_kills,
    )


def describe_overrun(message: str, attempt: int) -> DriverOutcome:
    """The outcome of an attempt that ends with a call that took longer than it may."""
    return DriverOutcome(
        exit_code=int(ExitCode.APPLICATION_ERROR),
        message=message,
        attempt=attempt,
        evidence=(Evidence(Cause.TIMEOUT, message, "driver"),),
    )


def describe_leaving() -> DriverOutcome:
    """The outcome of an attempt that was asked to stop and could not within its grace period."""
    code = int(ExitCode.INTERRUPTED)
    message = "left in the middle of its work, since the grace period was over"
    return DriverOutcome(
        exit_code=code, message=message, evidence=tuple(filter(None, [read_exit(code)]))
    )


def judge(ending: Ending, *, was_stopped: bool, quarantine: Quarantine) -> tuple[ExitCode, str]:
    """The exit code and sentence of an attempt whose engine came to an end."""
    standing, listed = ending.standing, ending.listed
    is_whole = ending.is_listed and not standing.unfinished
    if was_stopped and not is_whole:
        return ExitCode.INTERRUPTED, "interrupted; the next attempt goes on with what is left"
    if not is_whole:
        message = f"{standing.unfinished} sources are unfinished; the next attempt tries them again"
        return ExitCode.APPLICATION_ERROR, message
    if standing.failed:
        message = f"{standing.failed} of {listed} sources failed; the next attempt tries them again"
        return ExitCode.SOURCES_FAILED, message
    parked = standing.quarantined
    if parked > (tolerated := quarantine.tolerated(listed)):
        message = (
            f"{parked} of {listed} sources are quarantined, {tolerated} would be tolerated; "
            "see `strandline ledger quarantine list`"
        )
        return ExitCode.QUARANTINE_EXCEEDED, message
    return ExitCode.COMPLETE, _describe_complete(standing, listed)


def _describe_complete(standing: Standing, listed: int) -> str:
    parked = standing.quarantined
    which = f"all {listed}" if not parked else f"{listed - parked} of {listed}"
    rest = f", {parked} quarantined" if parked else ""
    if not standing.finished:
        return f"nothing left to do: {which} sources are finished{rest}"
    return f"complete: {which} sources are finished{rest}"
