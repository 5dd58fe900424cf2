"""The root of everything that ends an attempt with a sentence of ours instead of a traceback."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from strandline_api.documents.problems import SpecError
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode


class Advice(NamedTuple):
    """What to do about an error, as data: the shell and Python word it, each in its own way.

    Attributes:
        command: of the command line.
        settings: fields of the manifest's `spec`, each with a value.
        options: of the command, such as `--missing`.
    """

    command: str
    settings: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()


class StrandlineError(Exception):
    """An expected end. The message is one sentence that says what to do.

    Attributes:
        exit_code: what the process exits with.
        cause: where more is known than the exit code tells.
        is_lasting: another attempt on the same machine would end the same way.
        advice: a command that may help, which is not in the message.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.APPLICATION_ERROR
    cause: Cause | None = None
    is_lasting: bool = False
    advice: Advice | None = None


class StageStoppedError(StrandlineError):
    """A stage has nothing to work with, whatever task it is handed: no source fails of it.

    A stage raises it from `process`. The attempt ends with its message.

    Args:
        message: one sentence that says what to do.
        is_lasting: another attempt would end the same way.
        cause: of the attempt's end, if one fits better than `ApplicationError`.
    """

    def __init__(
        self, message: str, *, is_lasting: bool = False, cause: Cause | None = None
    ) -> None:
        super().__init__(message)
        self.is_lasting = is_lasting
        self.cause = cause


class StageInterruptedError(StageStoppedError):
    """A stage has left its task, since the run stops; the next run works on the task again."""

    exit_code = ExitCode.INTERRUPTED

    def __init__(self, message: str = "the run stops") -> None:
        super().__init__(message)


class BudgetSpentError(StageStoppedError):
    """A stage has spent what the pipeline allows it; raised, the next attempt goes on there.

    Args:
        message: one sentence that says of what, and how to go on.
    """

    exit_code = ExitCode.BUDGET_SPENT

    def __init__(self, message: str) -> None:
        super().__init__(message, is_lasting=True)


# Errors of the system about a path that is not as it should be; all others may pass.
_OF_PATHS = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


def may_pass(error: BaseException) -> bool:
    """Return whether an error may be another's fault, such as a server's that does not answer."""
    return isinstance(error, OSError) and not isinstance(error, _OF_PATHS)


def code_of(error: BaseException) -> ExitCode:
    """Return the exit code that an error means."""
    if isinstance(error, SpecError):
        return ExitCode.BAD_SPEC
    if not isinstance(error, Exception):  # Ctrl-C and requests to exit are no errors
        return ExitCode.INTERRUPTED
    return error.exit_code if isinstance(error, StrandlineError) else ExitCode.APPLICATION_ERROR


class MixtureError(StageStoppedError):
    """A mixture can't be had from these files, however often it is tried."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_SPEC

    def __init__(self, message: str) -> None:
        super().__init__(f"the mixture can't be made: {message}", is_lasting=True)
