"""Reopens a process's standard output and error if a stage closes them.

Otherwise, a file opened later would get the number of the closed descriptor, and every print would
write to that file. The caller decides about the consequences for the stage.
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
    """An open stream: a copy of its descriptor, and the Python object."""

    copy: int
    text: TextIO | None


class StandardStreams:
    """The standard streams of this process when this object was created."""

    def __init__(self) -> None:
        self._streams: dict[int, _Stream] = {}
        for number, name in _NAMES.items():
            with suppress(OSError):  # a process without the stream can't close it
                copy = os.dup(number)
                self._streams[number] = _Stream(copy, getattr(sys, name))
                weakref.finalize(self, os.close, copy)

    def repair(self) -> list[str]:
        """Reopen closed streams and return their names. Redirected streams are left alone."""
        return [
            _NAMES[number]
            for number, stream in self._streams.items()
            # Descriptor and object can be closed separately, so check both. Use `|` instead of
            # `or`, so that both repairs run.
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
        # Pass `closefd=False`, because the descriptor outlives the Python object.
        raw = io.FileIO(number, "w", closefd=False)
        text = io.TextIOWrapper(raw, "utf-8", "replace", write_through=True)
    setattr(sys, _NAMES[number], text)
    return True
