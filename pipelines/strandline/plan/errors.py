"""The root of everything that ends an attempt with a sentence of ours instead of a traceback."""

from __future__ import annotations

from typing import ClassVar

from strandline_api.documents.problems import SpecError
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode


class StrandlineError(Exception):
    """An expected end. The message is one sentence that says what to do.

    Attributes:
        exit_code: what the process exits with.
        cause: where more is known than the exit code tells.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.APPLICATION_ERROR
    cause: Cause | None = None


def code_of(error: BaseException) -> ExitCode:
    """The exit code that an error means."""
    if isinstance(error, SpecError):
        return ExitCode.BAD_SPEC
    if not isinstance(error, Exception):  # Ctrl-C and requests to exit are no errors
        return ExitCode.INTERRUPTED
    return error.exit_code if isinstance(error, StrandlineError) else ExitCode.APPLICATION_ERROR
