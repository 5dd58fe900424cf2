"""Standard output kept for JSON alone: whatever else prints is led to standard error.

Modules of the user's print while they load, and what they start prints later, by the descriptor.
So that leads to standard error as soon as JSON is asked for, and the real one is held apart. It
must not know what is written.
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
    """Holds standard output from when it is made.

    Attributes:
        number: a descriptor of the real one, for children that write JSON too.
        text: where JSON goes.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        self._former = sys.stdout
        self.number = os.dup(_OUT)
        self._is_real = _find_number(sys.stdout) == _OUT
        # Without a real descriptor, JSON goes to Python's own object, which a program reads: so do
        # tests of a command.
        self.text: TextIO = (
            open(self.number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as this
            if self._is_real
            else sys.stdout
        )
        os.dup2(_ERROR, _OUT)
        sys.stdout = sys.stderr

    def close(self) -> None:
        """Give it back, where code is left in this process that may want it.

        What has begun to print as this program ends would come behind the last object.
        """
        with suppress(OSError, ValueError):
            self.text.flush()
        if not self._is_real:
            sys.stdout = self._former
            os.dup2(self.number, _OUT)
            os.close(self.number)


def reserve(ctx: click.Context) -> None:
    """Keep standard output for JSON as long as a command runs."""
    if _KEY not in ctx.meta:
        output = ctx.meta[_KEY] = JsonOutput()
        ctx.call_on_close(output.close)


def find_output() -> JsonOutput | None:
    """Return what is kept for JSON; None where no option asks for that."""
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(_KEY)


def find_text() -> TextIO:
    """Return where this command's own words go."""
    output = find_output()
    return sys.stdout if output is None else output.text


def write_line(text: str) -> None:
    """Write a line of a command's own to standard output."""
    click.echo(text, file=find_text())


def _find_number(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):  # a test's, which is no file
        return None
