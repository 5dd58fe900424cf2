"""Base classes for the errors that end an attempt with a message instead of a traceback."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from strandline_api.documents.problems import SpecError
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode


class Advice(NamedTuple):
    """A remedy as data. The shell and the Python API render the remedy differently.

    Attributes:
        command: subcommand of the `strandline` program.
        settings: fields of the manifest's `spec`, with values.
        options: options of the command, such as `--missing`.
    """

    command: str
    settings: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()


class StrandlineError(Exception):
    """An expected failure. The message is one sentence with a remedy.

    Attributes:
        exit_code: exit code of the process.
        cause: cause of the failure if it is more precise than the exit code.
        is_lasting: whether another attempt on the same machine would fail in the same way.
        advice: a command that may help; not part of the message.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.APPLICATION_ERROR
    cause: Cause | None = None
    is_lasting: bool = False
    advice: Advice | None = None


class StageStoppedError(StrandlineError):
    """Raised if a stage cannot process any task, so no single source is to blame.

    A stage raises this error from `process`. The attempt ends with the error's message.

    Args:
        message: one sentence with a remedy.
        is_lasting: whether another attempt would fail in the same way.
        cause: cause of the attempt's end if it is more precise than `ApplicationError`.
    """

    def __init__(
        self, message: str, *, is_lasting: bool = False, cause: Cause | None = None
    ) -> None:
        super().__init__(message)
        self.is_lasting = is_lasting
        self.cause = cause


class StageInterruptedError(StageStoppedError):
    """Raised if a stage abandons a task because the run is stopping.

    The next run repeats the task.
    """

    exit_code = ExitCode.INTERRUPTED

    def __init__(self, message: str = "the run stops") -> None:
        super().__init__(message)


class BudgetSpentError(StageStoppedError):
    """Raised if a stage has used up a budget. With a larger budget, the next attempt continues.

    Args:
        message: one sentence that names the budget and how to continue.
    """

    exit_code = ExitCode.BUDGET_SPENT

    def __init__(self, message: str) -> None:
        super().__init__(message, is_lasting=True)


# Errors that mean a wrong path, so a retry fails too. All other system errors may be temporary.
_OF_PATHS = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


def may_pass(error: BaseException) -> bool:
    """Return whether an error may be temporary, such as a server that does not respond."""
    return isinstance(error, OSError) and not isinstance(error, _OF_PATHS)


def code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error."""
    # SpecError belongs to the API package and has no exit code.
    if isinstance(error, SpecError):
        return ExitCode.BAD_SPEC
    if not isinstance(error, Exception):  # Ctrl-C and `SystemExit` are not errors
        return ExitCode.INTERRUPTED
    return error.exit_code if isinstance(error, StrandlineError) else ExitCode.APPLICATION_ERROR


class MixtureError(StageStoppedError):
    """Raised if the input files cannot form the mixture. Retrying does not help."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_SPEC

    def __init__(self, message: str) -> None:
        super().__init__(f"the mixture can't be made: {message}", is_lasting=True)
