"""What was seen of an attempt's end, and which of it names the cause.

An observer (the supervisor on a laptop, the operator on a cluster) hands in what it saw; the choice
between several sights is made here, in one place. This room must not know how anything was seen,
nor what follows a cause.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from signal import Signals
from typing import Self

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode

Detail = str | int

# The first that fits names the end. What a person decided comes before what happened, what can
# never be retried before what can, what is known for sure before what was merely noticed: a pod's
# own reason before the driver's "interrupted", and a stall before the kill that ended it.
PRECEDENCE: tuple[Cause, ...] = (
    Cause.USER_CANCELLED,
    Cause.DEADLINE_EXCEEDED,
    Cause.INVALID_SPEC,
    Cause.LEDGER_MISMATCH,
    Cause.NON_DETERMINISTIC,
    Cause.VOLUME_UNUSABLE,
    Cause.QUARANTINE_EXCEEDED,
    Cause.REQUIREMENTS_NOT_MET,
    Cause.BUDGET_SPENT,
    Cause.QUOTA_EXCEEDED,
    Cause.PREEMPTED,
    Cause.EVICTED,
    Cause.NODE_LOST,
    Cause.LEDGER_IN_USE,
    Cause.INTERRUPTED,
    Cause.OOM_KILLED,
    Cause.TIMEOUT,
    Cause.STALLED,
    Cause.KILLED,
    Cause.IMAGE_PULL_FAILURE,
    Cause.SCHEDULING_TIMEOUT,
    Cause.SUBMISSION_FAILED,
    Cause.RAY_NOT_STARTED,
    Cause.MODEL_UNAVAILABLE,
    Cause.SOURCES_FAILED,
    Cause.APPLICATION_ERROR,
    Cause.UNKNOWN,
)

_EXIT_CAUSES = {
    ExitCode.APPLICATION_ERROR: Cause.APPLICATION_ERROR,
    ExitCode.SOURCES_FAILED: Cause.SOURCES_FAILED,
    ExitCode.QUARANTINE_EXCEEDED: Cause.QUARANTINE_EXCEEDED,
    ExitCode.REQUIREMENTS_NOT_MET: Cause.REQUIREMENTS_NOT_MET,
    ExitCode.BUDGET_SPENT: Cause.BUDGET_SPENT,
    ExitCode.BAD_SPEC: Cause.INVALID_SPEC,
    ExitCode.LEDGER_MISMATCH: Cause.LEDGER_MISMATCH,
    ExitCode.LEDGER_IN_USE: Cause.LEDGER_IN_USE,
    ExitCode.NOT_DETERMINISTIC: Cause.NON_DETERMINISTIC,
    ExitCode.VOLUME_UNUSABLE: Cause.VOLUME_UNUSABLE,
    ExitCode.INTERRUPTED: Cause.INTERRUPTED,
}
# Signals that a program brings upon itself by a fault; it was not killed.
_FAULTS = frozenset({"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"})
_SIGNAL_BASE = 128
_GREATEST_SIGNAL = 64


@dataclass(frozen=True, slots=True)
class Evidence:
    """One sight of an attempt's end.

    Attributes:
        cause: what it points to.
        message: one sentence for people, or what a program said.
        source: the observer, in a free word: `exit code`, `signal`, `outcome`, `cgroup`, `kernel
            log`, `ray`, `pod`, `rayjob`, `raycluster`, `job`, `deadline`, `user`.
        details: facts by name, such as `pod`, `podUid`, `node`, `container`, `stage`, `exitCode`,
            `reason`.
        time: when it happened, in seconds since the epoch; None if unknown. It is no part of the
            JSON form, since a driver's clock may differ from the cluster's.
    """

    cause: Cause
    message: str
    source: str
    details: Mapping[str, Detail] = field(default_factory=dict)
    time: float | None = None

    def to_json(self) -> dict[str, object]:
        """Convert it for a file or a status; `from_json` reads it."""
        written: dict[str, object] = {
            "cause": self.cause.value,
            "message": self.message,
            "source": self.source,
        }
        return written | ({"details": dict(self.details)} if self.details else {})

    @classmethod
    def from_json(cls, written: object) -> Self:
        """Read what any version wrote: an unknown cause is `Unknown`, a missing text empty."""
        fields = written if isinstance(written, Mapping) else {}
        details = fields.get("details")
        return cls(
            cause=_read_cause(fields.get("cause")),
            message=_read_text(fields.get("message")),
            source=_read_text(fields.get("source")),
            details=_read_details(details if isinstance(details, Mapping) else {}),
        )


def name_cause(evidence: Iterable[Evidence]) -> Evidence:
    """Choose the evidence that names the cause: the first in `PRECEDENCE`, then the first given.

    A user's stop wins over a deadline, that over exit codes which say that no retry can help, then
    come disruptions, kills for memory, other kills, failed submissions, errors of the application.
    Without any evidence the cause is Unknown.
    """
    nothing = Evidence(Cause.UNKNOWN, "nothing tells why the attempt ended", "")
    return min(evidence, key=lambda seen: PRECEDENCE.index(seen.cause), default=nothing)


def read_exit(code: int) -> Evidence | None:
    """Describe what an exit code tells.

    Args:
        code: as a shell or a container reports it (128 + the signal's number for a process that a
            signal ended), or as Python's `Popen.returncode` (the signal's number, negative).

    Returns:
        None for 0, which is no bad end. A code outside of the contract is an ApplicationError.
        `details` holds `exitCode`, never negative, and `signal`, where there was one.
    """
    if code == ExitCode.COMPLETE:
        return None
    signal = find_signal(code)
    if signal is not None:
        return _read_signal(signal)
    details = {"exitCode": code}
    try:
        known = ExitCode(code)
    except ValueError:
        return Evidence(Cause.APPLICATION_ERROR, f"exit code {code}", "exit code", details)
    message = f"exit code {code}: {known.meaning}"
    return Evidence(_EXIT_CAUSES[known], message, "exit code", details)


def find_signal(code: int) -> int | None:
    """Tell the number of the signal that an exit code stands for, if it stands for one."""
    if code < 0:
        return -code
    signal = code - _SIGNAL_BASE
    return signal if 0 < signal <= _GREATEST_SIGNAL else None


def to_exit_code(returncode: int) -> int:
    """Turn Python's `Popen.returncode` into the code that a shell reports: -9 becomes 137."""
    return returncode if returncode >= 0 else _SIGNAL_BASE - returncode


def _read_signal(number: int) -> Evidence:
    try:
        name = Signals(number).name
    except ValueError:
        name = ""
    is_fault = name in _FAULTS
    verb = "crashed with" if is_fault else "killed by"
    return Evidence(
        Cause.APPLICATION_ERROR if is_fault else Cause.KILLED,
        f"{verb} signal {number}" + (f" ({name})" if name else ""),
        "signal",
        {"exitCode": _SIGNAL_BASE + number, "signal": name or str(number)},
    )


def _read_cause(word: object) -> Cause:
    return next((cause for cause in Cause if cause == word), Cause.UNKNOWN)


def _read_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _read_details(written: Mapping[object, object]) -> dict[str, Detail]:
    """Keep facts as text or whole numbers; lists and objects of a later version are left out."""
    return {
        name: value if isinstance(value, str) or type(value) is int else str(value)
        for name, value in written.items()
        if isinstance(name, str) and isinstance(value, str | int | float)
    }
