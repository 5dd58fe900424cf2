"""Processes that look up listed sources in a ledger side by side, which LMDB allows.

One process of Python looks up 400,000 sources a second, whatever the disk does. A resumed run may
have many millions to pass over, and meanwhile nothing else to do. What is found finished here needs
no writer; all the rest is asked of it as ever, so a process that dies or can't open the ledger
costs time and nothing else. This module must not know what is listed but key and version, nor what
lists it.
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
# A process has so many chunks to go on with, whatever its asker is busy with.
AHEAD = 4
# Where most of a chunk is not finished, so many are passed on unasked: it is lost work.
RESTING = 16
PIPE_BYTES = 1 << 20  # a chunk should fit, or its asker waits for the reader
_END_SECONDS = 5.0
_get_names = attrgetter("key", "version")
# The constructor of the class takes twice as long.
_new_tuple = tuple.__new__
_SIZE = Struct(">I")


class Named(Protocol):
    """A source, as far as it is looked up."""

    @property
    def key(self) -> str:
        """Identity across runs."""

    @property
    def version(self) -> str:
        """Changes when the content does."""


Item = TypeVar("Item", bound=Named)


class LookedUp(NamedTuple, Generic[Item]):
    """What is known of a chunk.

    Attributes:
        start: as it was asked with.
        chunk: as it was asked.
        left: indices of sources that are not known to be finished, in order.
    """

    start: int
    chunk: Sequence[Item]
    left: Sequence[int]


class LookUps(Generic[Item]):
    """Asks some processes in turn, and gives back their answers in the order of the questions.

    Args:
        path: folder of the ledger.
        attempt: what it has finished itself is not passed over: it would be listed twice.
        count: processes, which start at once.

    Attributes:
        asked: sources of chunks with answers that are still to be taken.
    """

    def __init__(self, path: Path, attempt: int, count: int) -> None:
        self._readers = [_Reader(path, attempt) for _ in range(count)]
        self._asked: deque[tuple[int, Sequence[Item], _Reader | None]] = deque()
        self._turn = 0
        self._resting = 0
        self.asked = 0

    @property
    def has_room(self) -> bool:
        """Return whether another question would not have to wait."""
        return len(self._asked) < AHEAD * len(self._readers)

    def ask(self, start: int, chunk: Sequence[Item], *, is_quick: bool = True) -> None:
        """Have a chunk looked up.

        Args:
            start: any number, for the answer.
            is_quick: False: nothing is looked up, and all of the chunk is left.
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
        """Wait for the answer to the oldest question."""
        start, chunk, reader = self._asked.popleft()
        self.asked -= len(chunk)
        left = None if reader is None else reader.take()
        if left is None:
            return LookedUp(start, chunk, range(len(chunk)))
        if 2 * len(left) > len(chunk):
            self._resting = RESTING
        return LookedUp(start, chunk, left)

    def close(self) -> None:
        """End the processes."""
        for reader in self._readers:
            reader.close()


class _Reader:
    """A process that looks up; once it has died it says so of each question."""

    def __init__(self, path: Path, attempt: int) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", __name__, str(path), str(attempt)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a terminal's interrupt is the driver's
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None  # pipes
        self._questions: BinaryIO = self._process.stdin  # type: ignore[assignment]
        self._answers: BinaryIO = self._process.stdout  # type: ignore[assignment]
        self._is_dead = False
        with suppress(OSError):  # where it may not be as large, it is as large as it is
            fcntl.fcntl(self._questions, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def ask(self, chunk: Sequence[Named]) -> bool:
        """Send a question; False where there will be no answer."""
        names = list(chain.from_iterable(map(_get_names, chunk)))
        try:
            # A name that is no text is for the listing's own code to refuse.
            packed = msgpack.packb(names)
        except (TypeError, ValueError, OverflowError):
            return False
        try:
            _write(self._questions, packed)
        except OSError:
            self._is_dead = True
        return not self._is_dead

    def take(self) -> list[int] | None:
        """Return the answer to the oldest question; None: there is none."""
        packed = None if self._is_dead else _read(self._answers)
        if packed is None:
            self._is_dead = True
            return None
        return msgpack.unpackb(packed)  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the process, which ends by itself where no question can come any more."""
        with suppress(OSError):  # questions that were not sent yet can't be sent
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
    """Return the next message; None at the end."""
    head = pipe.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack(head)
    packed = pipe.read(size)
    return packed if len(packed) == size else None


def _serve(store: Store, attempt: int) -> None:
    """Answer until no question can come any more."""
    while (packed := _read(sys.stdin.buffer)) is not None:
        names = msgpack.unpackb(packed)
        _write(sys.stdout.buffer, msgpack.packb(_look_up(store, attempt, names)))


def _look_up(store: Store, attempt: int, names: list[str]) -> list[int]:
    """Return the indices of sources, given as key and version in turn, that are not finished."""
    each = iter(names)
    try:
        batch = [
            _new_tuple(ListedSource, (digest_key(key), digest_version(version), key, 0))
            for key, version in zip(each, each, strict=True)
        ]
    except AttributeError:  # no text, see above
        return list(range(len(names) // 2))
    return [index for index, _, _ in store.find_unfinished(batch, attempt)]


if __name__ == "__main__":
    gc.disable()  # objects here have no circles, and come and go by the thousand
    with closing(Store(Path(sys.argv[1]), readonly=True)) as opened:
        _serve(opened, int(sys.argv[2]))
