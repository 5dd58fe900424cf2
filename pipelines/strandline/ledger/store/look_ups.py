"""Parallel processes that look up listed sources in a ledger.

A resumed run may have to skip many millions of sources before other work begins, and a Python
process looks up 400,000 sources per second, regardless of the disk. LMDB allows parallel readers.
Sources that these processes find finished need no writer; all others go to the writer as usual, so
a process that dies or cannot open the ledger only costs time. The module uses only key and version
of a source, and must not depend on the code that lists sources.
"""

from __future__ import annotations

import fcntl
import gc
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import chain
from operator import attrgetter
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Generic, NamedTuple, Protocol, TypeVar

import msgpack

from strandline.ledger.records.entries import ListedSource
from strandline.ledger.store.store import Store
from strandline.plan.token import digest_key, digest_version

CHUNK = 1024
# Maximum number of chunks queued per process. The processes stay busy while the caller does other
# work.
AHEAD = 4
# If most sources of a chunk are unfinished, skip the look-up for this many chunks: it would
# probably find few finished sources.
RESTING = 16
PIPE_BYTES = 1 << 20  # larger than a chunk, so that the caller need not wait
_END_SECONDS = 5.0
_get_names = attrgetter("key", "version")
# Create named tuples with `tuple.__new__`: calling their class takes twice as long.
_new_tuple = tuple.__new__
_SIZE = Struct(">I")


class NamedSource(Protocol):
    """The attributes of a source that a look-up needs."""

    @property
    def key(self) -> str:
        """Name of the source, the same in every run."""

    @property
    def version(self) -> str:
        """Value that changes with the source's content."""


Item = TypeVar("Item", bound=NamedSource)


class LookedUp(NamedTuple, Generic[Item]):
    """Result of the look-up of a chunk.

    Attributes:
        start: number passed to `ask`.
        chunk: sources passed to `ask`.
        left: sorted indices of the sources that may be unfinished.
    """

    start: int
    chunk: Sequence[Item]
    left: Sequence[int]


class LookUps(Generic[Item]):
    """Distributes chunks to several processes, and returns the results in the order of the chunks.

    Args:
        path: folder of the ledger.
        attempt: the current attempt. Sources that this attempt has finished count as unfinished, so
            that the writer can reject a second listing of the same source.
        count: number of processes, which start immediately.

    Attributes:
        asked: number of sources in chunks whose results were not taken yet.
    """

    def __init__(self, path: Path, attempt: int, count: int) -> None:
        self._readers = [_Reader(path, attempt) for _ in range(count)]
        self._asked: deque[tuple[int, Sequence[Item], _Reader | None]] = deque()
        self._turn = 0
        self._resting = 0
        self.asked = 0

    @property
    def has_room(self) -> bool:
        """Return True if another chunk can be sent without waiting."""
        return len(self._asked) < AHEAD * len(self._readers)

    def ask(self, start: int, chunk: Sequence[Item], *, is_quick: bool = True) -> None:
        """Request the look-up of a chunk.

        Args:
            start: any number, returned with the result.
            is_quick: if False, skip the look-up and count all sources as unfinished.
        """
        reader = None
        if self._resting:
            self._resting -= 1
        elif is_quick:
            self._turn += 1
            reader = self._readers[self._turn % len(self._readers)]
            if not reader.ask(chunk):
                reader = None
        self._asked.append((start, chunk, reader))
        self.asked += len(chunk)

    def take(self) -> LookedUp[Item]:
        """Wait for the result of the oldest chunk."""
        start, chunk, reader = self._asked.popleft()
        self.asked -= len(chunk)
        left = None if reader is None else reader.take()
        if left is None:
            return LookedUp(start, chunk, range(len(chunk)))
        if 2 * len(left) > len(chunk):
            self._resting = RESTING
        return LookedUp(start, chunk, left)

    def close(self) -> None:
        """Stop the processes."""
        for reader in self._readers:
            reader.close()


class _Reader:
    """A look-up process. After the process has died, chunks get no result."""

    def __init__(self, path: Path, attempt: int) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", __name__, str(path), str(attempt)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # only the driver handles Ctrl-C
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None  # both are pipes
        self._questions: BinaryIO = self._process.stdin  # type: ignore[assignment]
        self._answers: BinaryIO = self._process.stdout  # type: ignore[assignment]
        self._is_dead = False
        with suppress(OSError):  # keep the default size if a system limit forbids this size
            fcntl.fcntl(self._questions, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def ask(self, chunk: Sequence[NamedSource]) -> bool:
        """Send a chunk. Return False if there will be no result."""
        names = list(chain.from_iterable(map(_get_names, chunk)))
        try:
            # Packing fails for some values that are not strings. The writer rejects such sources.
            packed = msgpack.packb(names)
        except (TypeError, ValueError, OverflowError):
            return False
        try:
            _write(self._questions, packed)
        except OSError:
            self._is_dead = True
        return not self._is_dead

    def take(self) -> list[int] | None:
        """Return the result of the oldest chunk, or None if the process has died."""
        packed = None if self._is_dead else _read(self._answers)
        if packed is None:
            self._is_dead = True
            return None
        return msgpack.unpackb(packed)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Stop the process. Closing its input makes it exit."""
        with suppress(OSError):  # closing flushes unsent chunks, which fails if the process is dead
            self._questions.close()
        self._answers.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _write(pipe: BinaryIO, packed: bytes) -> None:
    pipe.write(_SIZE.pack(len(packed)) + packed)
    pipe.flush()


def _read(pipe: BinaryIO) -> bytes | None:
    """Return the next message, or None at the end of the stream."""
    head = pipe.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack(head)
    packed = pipe.read(size)
    return packed if len(packed) == size else None


def _serve(store: Store, attempt: int) -> None:
    """Answer requests until the input is closed."""
    while (packed := _read(sys.stdin.buffer)) is not None:
        names = msgpack.unpackb(packed)
        _write(sys.stdout.buffer, msgpack.packb(_look_up(store, attempt, names)))


def _look_up(store: Store, attempt: int, names: list[str]) -> list[int]:
    """Return the indices of unfinished sources. `names` alternates keys and versions."""
    each = iter(names)
    try:
        batch = [
            _new_tuple(ListedSource, (digest_key(key), digest_version(version), key, 0))
            for key, version in zip(each, each, strict=True)
        ]
    except AttributeError:  # a key is not a string; the writer rejects such sources
        return list(range(len(names) // 2))
    return [index for index, _, _ in store.find_unfinished(batch, attempt)]


if __name__ == "__main__":
    gc.disable()  # faster: many short-lived objects, but no cycles
    with closing(Store(Path(sys.argv[1]), readonly=True)) as opened:
        _serve(opened, int(sys.argv[2]))
