"""The sentence of a driver that could not begin, for its parent to pass on.

A driver that never took the ledger leaves no record, and what it prints is lost where nobody keeps
its log. It goes through a pipe, since the volume may be what is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

VARIABLE = "STRANDLINE_LAST_WORDS"
# A pipe takes so much at once even if nobody reads.
MOST_BYTES = 2000


@dataclass(slots=True)
class LastWords:
    """The parent's end of the pipe, and until the driver is started the driver's own.

    Attributes:
        source, sink: file descriptors; the driver inherits `sink`.
    """

    source: int
    sink: int

    @classmethod
    def open(cls) -> LastWords:
        """A new pipe."""
        source, sink = os.pipe()
        os.set_blocking(source, False)
        return cls(source, sink)

    def read(self) -> str:
        """What the driver has left; empty where it has not. Closes the pipe."""
        os.close(self.sink)
        try:
            return os.read(self.source, MOST_BYTES).decode(errors="replace").strip()
        except BlockingIOError:  # somebody whom the driver started holds its end
            return ""
        finally:
            os.close(self.source)


@contextmanager
def leaving_words(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Pass on the sentence of an error that leaves the block, where a parent wants it."""
    named = environment.pop(VARIABLE, "")
    sink = int(named) if named.isdigit() else None
    if sink is not None:
        os.set_inheritable(sink, False)  # noqa: FBT003 - its only form
    try:
        yield
    except Exception as error:
        if sink is not None:
            text = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
            with suppress(OSError):
                os.write(sink, text.encode(errors="replace")[:MOST_BYTES])
        raise
