"""Passes the message of a driver's final error to its parent through a pipe.

This module handles text and file descriptors, and must not depend on attempts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from strandline.plan.errors import StrandlineError
from strandline.run.supervise.variables import LAST_WORDS

# Maximum size of a message. A pipe can buffer this much even if nothing reads it.
MOST_BYTES = 2000
_LASTING = "lasting"


class LastMessage(NamedTuple):
    """A driver's message about the error that ended it.

    Attributes:
        text: the message, or empty if there is no error.
        is_lasting: see `StrandlineError`.
    """

    text: str = ""
    is_lasting: bool = False


@dataclass(slots=True)
class DriverMessage:
    """A pipe for the driver's message.

    Attributes:
        source, sink: file descriptors for reading and writing; the driver inherits `sink`.
    """

    source: int
    sink: int

    @classmethod
    def open(cls) -> DriverMessage:
        """Return a new pipe."""
        source, sink = os.pipe()
        os.set_blocking(source, False)
        return cls(source, sink)

    def read(self) -> LastMessage:
        """Return the driver's message, and close the pipe."""
        os.close(self.sink)
        try:
            written = os.read(self.source, MOST_BYTES).decode(errors="replace")
        except BlockingIOError:  # a child of the driver still has `sink` open
            return LastMessage()
        finally:
            os.close(self.source)
        kind, _, text = written.partition("\n")
        return LastMessage(text.strip(), is_lasting=kind == _LASTING)


@contextmanager
def leaving_message(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Send the message of an error that leaves the block to the parent, if there is a parent."""
    named = environment.pop(LAST_WORDS, "")
    sink = int(named) if named.isdigit() else None
    if sink is not None:
        os.set_inheritable(sink, False)  # noqa: FBT003 - its only form
    try:
        yield
    except Exception as error:
        if sink is not None:
            kind = _LASTING if isinstance(error, StrandlineError) and error.is_lasting else ""
            text = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
            with suppress(OSError):
                os.write(sink, f"{kind}\n{text}".encode(errors="replace")[:MOST_BYTES])
        raise
