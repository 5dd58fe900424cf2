"""Standard output and error of a process, which a stage may close and others go on using.

A file that is opened later would get the number of the one that was closed, and then each print
would write to it. It must not know what has closed it, nor what is done about that.
"""

from __future__ import annotations

import io
import os
import sys
import weakref
from contextlib import suppress
from typing import NamedTuple, TextIO

_NAMES = {1: "stdout", 2: "stderr"}


class _Stream(NamedTuple):
    """One that is open: a copy of its descriptor, and Python's object."""

    copy: int
    text: TextIO | None


class StandardStreams:
    """Those of this process as they are now."""

    def __init__(self) -> None:
        self._streams: dict[int, _Stream] = {}
        for number, name in _NAMES.items():
            with suppress(OSError):  # a process without one has nothing that can be closed
                copy = os.dup(number)
                self._streams[number] = _Stream(copy, getattr(sys, name))
                weakref.finalize(self, os.close, copy)

    def repair(self) -> list[str]:
        """Open again what was closed; the names of it. What leads elsewhere now is left so."""
        return [
            _NAMES[number]
            for number, stream in self._streams.items()
            # Either may have been closed without the other, so both are looked at.
            if _repair_descriptor(number, stream) | _repair_text(number, stream)
        ]


def _repair_descriptor(number: int, stream: _Stream) -> bool:
    try:
        os.fstat(number)
    except OSError:
        os.dup2(stream.copy, number)
        return True
    return False


def _repair_text(number: int, stream: _Stream) -> bool:
    if not getattr(getattr(sys, _NAMES[number]), "closed", False):
        return False
    text = stream.text
    if text is None or text.closed:
        raw = io.FileIO(number, "w", closefd=False)
        text = io.TextIOWrapper(raw, "utf-8", "replace", write_through=True)
    setattr(sys, _NAMES[number], text)
    return True
