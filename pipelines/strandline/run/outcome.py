"""How an attempt ended: the exit code for each way it can, in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from strandline.engine.ports import Ending
from strandline.ledger.keeper import Standing
from strandline.plan.errors import StrandlineError
from strandline.plan.receipt import Counts
from strandline_api.documents import SpecError
from strandline_api.exit_codes import ExitCode


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
                "quarantined": 0,
                "skipped": standing.skipped,
                "unfinished": standing.unfinished,
            },
            "output": self.output,
            "seconds": round(self.seconds, 3),
            "incidents": list(self.incidents),
        }


def code_of(error: BaseException) -> ExitCode:
    """The exit code that an error means."""
    if isinstance(error, SpecError):
        return ExitCode.BAD_SPEC
    return error.exit_code if isinstance(error, StrandlineError) else ExitCode.APPLICATION_ERROR


def judge(ending: Ending, *, was_stopped: bool) -> tuple[ExitCode, str]:
    """The exit code and sentence of an attempt whose engine came to an end."""
    standing = ending.standing
    is_whole = ending.is_listed and not standing.unfinished
    if was_stopped and not is_whole:
        return ExitCode.INTERRUPTED, "interrupted; what is finished is kept, run it again to go on"
    if not is_whole:
        message = f"{standing.unfinished} sources are unfinished; run it again to go on"
        return ExitCode.APPLICATION_ERROR, message
    if standing.failed:
        message = f"{standing.failed} of {ending.listed} sources failed; run it again to retry them"
        return ExitCode.SOURCES_FAILED, message
    if not standing.finished:
        return ExitCode.COMPLETE, f"nothing left to do: all {ending.listed} sources are finished"
    return ExitCode.COMPLETE, f"complete: all {ending.listed} sources are finished"
