"""Defines evidence about an attempt's end, and chooses the cause of the end.

An observer (the supervisor on a laptop, the operator on a cluster) provides the evidence. Only this
module chooses a cause from several pieces of evidence. It must not depend on how observations are
made, or on what follows from a cause.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from signal import Signals
from typing import Self

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode

Detail = str | int

# The attempt's cause is the first of these for which there is evidence. A person's decision ranks
# before events, causes that are never retried rank before others, and certain facts rank before
# inferences: a pod's own reason before the driver's "interrupted", and a stall before the kill that
# ended it.
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
# Signals that a program's own fault raises. Other signals are sent from outside to end the program.
_FAULTS = frozenset({"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"})
# Shells add 128 to the number of the signal that ended a process. Linux has 64 signals, so codes
# above 192, like 255, are plain exit codes.
_SIGNAL_BASE = 128
_GREATEST_SIGNAL = 64


@dataclass(frozen=True, slots=True)
class Evidence:
    """An observation about an attempt's end.

    Attributes:
        cause: the cause that the observation suggests.
        message: one sentence for people, or a program's output.
        source: the observer, as free text, such as `exit code`, `signal`, `outcome`, `cgroup`,
            `kernel log`, `ray`, `pod`, `rayjob`, `raycluster`, `job`, `deadline`, or `user`.
        details: facts by name, such as `pod`, `podUid`, `node`, `container`, `stage`, `exitCode`,
            `reason`.
        time: time of the event, in seconds since the epoch, or None if unknown. The JSON form omits
            the time, because a driver's clock may differ from the cluster's.
    """

    cause: Cause
    message: str
    source: str
    details: Mapping[str, Detail] = field(default_factory=dict)
    time: float | None = None

    def to_json(self) -> dict[str, object]:
        """Convert to JSON values for a file or a status. `from_json` is the inverse."""
        written: dict[str, object] = {
            "cause": self.cause.value,
            "message": self.message,
            "source": self.source,
        }
        return written | ({"details": dict(self.details)} if self.details else {})

    @classmethod
    def from_json(cls, written: object) -> Self:
        """Read evidence of any version. Unknown causes become `Unknown`; missing text, empty."""
        fields = written if isinstance(written, Mapping) else {}
        details = fields.get("details")
        return cls(
            cause=_read_cause(fields.get("cause")),
            message=_read_text(fields.get("message")),
            source=_read_text(fields.get("source")),
            details=_read_details(details if isinstance(details, Mapping) else {}),
        )


def name_cause(evidence: Iterable[Evidence]) -> Evidence:
    """Choose the evidence that determines the cause: first by `PRECEDENCE`, then by given order.

    A user's stop ranks before a deadline, and a deadline before exit codes that are never retried.
    Disruptions, out-of-memory kills, other kills, failed submissions, and application errors
    follow. Without evidence, the cause is Unknown.
    """
    nothing = Evidence(Cause.UNKNOWN, "no evidence explains why the attempt ended", "")
    # `min` returns the first of equal items, so for equal causes, the order of the evidence
    # decides.
    return min(evidence, key=lambda seen: PRECEDENCE.index(seen.cause), default=nothing)


def read_exit(code: int) -> Evidence | None:
    """Interpret an exit code as evidence.

    Args:
        code: exit code of a shell or a container (128 + the signal's number if a signal ended the
            process), or Python's `Popen.returncode` (the negative signal number).

    Returns:
        The evidence, or None for code 0, which is not a bad end. A code that `ExitCode` does not
        define is an ApplicationError. `details` contains `exitCode`, never negative, and `signal`
        if a signal ended the process.
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
    """Return the number of the signal that an exit code represents, if any."""
    if code < 0:
        return -code
    signal = code - _SIGNAL_BASE
    return signal if 0 < signal <= _GREATEST_SIGNAL else None


def to_exit_code(returncode: int) -> int:
    """Convert Python's `Popen.returncode` to the code that a shell reports: -9 becomes 137."""
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
    """Keep details that are text or whole numbers. Omit lists and objects of later versions."""
    return {
        # A status stores only text and whole numbers, so convert floats and `True` to text.
        name: value if isinstance(value, str) or type(value) is int else str(value)
        for name, value in written.items()
        if isinstance(name, str) and isinstance(value, str | int | float)
    }
