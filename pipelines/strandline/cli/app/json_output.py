"""Reserves standard output for JSON: all other output is redirected to standard error.

User modules print while they load, and their child processes print later, through the file
descriptor. So the descriptor is redirected as soon as JSON is requested, and a copy of the original
descriptor is kept. The module must not depend on the content of the output.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

import click

_KEY = "strandline.json_output"
_OUT, _ERROR = 1, 2


class JsonOutput:
    """Redirects standard output to standard error until `close`.

    Attributes:
        number: descriptor of the original output, for child processes that write JSON too.
        text: stream for JSON.
    """

    def __init__(self) -> None:
        # Flush before the redirect: buffered text would otherwise appear on standard error.
        sys.stdout.flush()
        self._former = sys.stdout
        self.number = os.dup(_OUT)
        self._is_real = _find_number(sys.stdout) == _OUT
        # Standard output may have no descriptor, for example in a test of a command. In that case,
        # write JSON to Python's own stream object.
        self.text: TextIO = (
            open(self.number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open as long as this object
            if self._is_real
            else sys.stdout
        )
        os.dup2(_ERROR, _OUT)
        sys.stdout = sys.stderr

    def close(self) -> None:
        """Restore standard output if code in this process may still use it.

        If standard output has a descriptor, the redirect stays, because later output of the process
        must not follow the last JSON object.
        """
        # Ignore errors: `Program.invoke` has already flushed the stream and handled a closed pipe.
        with suppress(OSError, ValueError):
            self.text.flush()
        if not self._is_real:
            sys.stdout = self._former
            os.dup2(self.number, _OUT)
            os.close(self.number)


def reserve(ctx: click.Context) -> None:
    """Keep standard output for JSON until the command ends."""
    # Redirect only once, although nested contexts share `ctx.meta`: a second redirect would use
    # standard error as the stream for JSON.
    if _KEY not in ctx.meta:
        output = ctx.meta[_KEY] = JsonOutput()
        ctx.call_on_close(output.close)


def find_output() -> JsonOutput | None:
    """Return the output reserved for JSON, or None if no option requests JSON."""
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(_KEY)


def find_text() -> TextIO:
    """Return the stream to which this command writes its results."""
    output = find_output()
    return sys.stdout if output is None else output.text


def write_line(text: str) -> None:
    """Write a line of the command's results to standard output."""
    click.echo(text, file=find_text())


def _find_number(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):  # a stream without a descriptor, in a test
        return None
