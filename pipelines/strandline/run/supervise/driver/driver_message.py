"""The sentence of an error that ends a driver, handed to its parent through a pipe.

It knows text and descriptors, nothing of attempts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from strandline.plan.errors import StrandlineError
from strandline.run.supervise.variables import LAST_WORDS

# A pipe takes so much at once even without a reader.
MOST_BYTES = 2000
_LASTING = "lasting"


class LastMessage(NamedTuple):
    """What a driver says of the error that has ended it.

    Attributes:
        text: its sentence; empty where there was none.
        is_lasting: see `StrandlineError`.
    """

    text: str = ""
    is_lasting: bool = False


@dataclass(slots=True)
class DriverMessage:
    """The parent's end of the pipe, and until the driver is started the driver's own.

    Attributes:
        source, sink: file descriptors; the driver inherits `sink`.
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
        """Return what the driver has left. Closes the pipe."""
        os.close(self.sink)
        try:
            written = os.read(self.source, MOST_BYTES).decode(errors="replace")
        except BlockingIOError:  # a process that the driver started holds its end
            return LastMessage()
        finally:
            os.close(self.source)
        kind, _, text = written.partition("\n")
        return LastMessage(text.strip(), is_lasting=kind == _LASTING)


@contextmanager
def leaving_message(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Pass on the sentence of an error that leaves the block, where a parent wants it."""
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
