"""The root of everything that ends an attempt with a sentence of ours instead of a traceback."""

from __future__ import annotations

from typing import ClassVar

from strandline_api.exit_codes import ExitCode


class StrandlineError(Exception):
    """An expected end. The message is one sentence that says what to do.

    Attributes:
        exit_code: what the process exits with.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.APPLICATION_ERROR
