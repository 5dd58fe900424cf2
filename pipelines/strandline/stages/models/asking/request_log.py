"""The log of requests that were answered: a file for each source, of blocks with checksums.

A block is whole or passed over: what a crash has torn off at the end is cut, and after one that is
hurt the next is looked for. Writers take turns by a lock. In a store each block is an object of its
own, since nothing can be appended there. It must not know rows or servers.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, NamedTuple, Protocol

from strandline.stages.models.asking.answers import ModelAnswer
from strandline.storage.layout import make_folder, sync_folder
from strandline.storage.outputs.whole_files import write_whole
from strandline.storage.stores import open_store

SUFFIX = ".requests"
_MAGIC = b"SRQ1"
_HEAD = Struct(">4sI8s")  # the magic, bytes of the content, and their checksum
_CHECK_BYTES = 8
_FAN = 2


class LogEntry(NamedTuple):
    """A request that was answered.

    Attributes:
        digest: of the request.
        time: when it was kept, in seconds since the epoch.
        answer: what came back.
    """

    digest: bytes
    time: float
    answer: ModelAnswer


class RequestLog(Protocol):
    """The answers of one source."""

    def read(self) -> Iterator[LogEntry]:
        """Yield what was appended since it was read last, by whomever."""

    def append(self, entries: Sequence[LogEntry]) -> None:
        """Make entries durable, all or none of them."""


class FileLog:
    """A log on a disk.

    Args:
        path: of the file; it is made with its folder when something is appended.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0  # bytes that were handed out
        self._end = 0  # of the last block that is known to be whole

    def read(self) -> Iterator[LogEntry]:
        """See `RequestLog`; a block that is hurt is passed over.

        Raises:
            OSError: the file can't be read.
        """
        try:
            with self._path.open("rb") as file:
                if self._read > os.fstat(file.fileno()).st_size:  # it was pruned
                    self._read = 0
                file.seek(self._read)
                content = file.read()
        except FileNotFoundError:
            return
        blocks, whole = split_blocks(content)
        self._read += whole
        for block in blocks:
            yield from unpack(block)

    def append(self, entries: Sequence[LogEntry]) -> None:
        """See `RequestLog`.

        Raises:
            OSError, VolumeError: it can't be written.
        """
        make_folder(self._path.parent)
        with open_locked(self._path) as file:
            start = min(self._end, os.fstat(file.fileno()).st_size)
            file.seek(start)
            whole = start + split_blocks(file.read())[1]
            file.truncate(whole)
            file.seek(whole)
            self._end = whole + file.write(pack(entries))
            file.flush()
            os.fsync(file.fileno())
            if not whole:
                sync_folder(self._path.parent)


class StoreLog:
    """A log behind a URL.

    Args:
        url: of the folder for its objects.
        writer: how the names of this process' objects begin; of no other's.
    """

    def __init__(self, url: str, writer: str) -> None:
        self._url, self._writer = url.rstrip("/"), writer
        self._written = 0
        self._known: set[str] = set()

    def read(self) -> Iterator[LogEntry]:
        """See `RequestLog`.

        Raises:
            OSError: the store does not answer; and whatever its library raises.
        """
        store, root = open_store(self._url)
        try:
            names = sorted(name for name in store.ls(root, detail=False) if name.endswith(SUFFIX))
        except FileNotFoundError:
            return
        for name in names:
            if name not in self._known:
                self._known.add(name)
                for block in split_blocks(store.cat_file(name))[0]:
                    yield from unpack(block)

    def append(self, entries: Sequence[LogEntry]) -> None:
        """See `RequestLog`.

        Raises:
            OSError: the store does not answer; and whatever its library raises.
        """
        store, root = open_store(self._url)
        name = f"{root}/{self._writer}-{self._written:06d}{SUFFIX}"
        self._written += 1
        store.makedirs(root, exist_ok=True)
        store.pipe_file(name, pack(entries))


class AnswerBook:
    """What a source's requests were answered: read before one is made, kept in groups.

    Args:
        log: of the source.
        group: answers that are made durable together, at most.
        seconds: after which a smaller group is.
        now: seconds from any fixed point.
        time: seconds since the epoch.
    """

    def __init__(
        self,
        log: RequestLog,
        group: int,
        seconds: float,
        now: Callable[[], float],
        time: Callable[[], float],
    ) -> None:
        self._log, self._group, self._seconds = log, group, seconds
        self._now, self._time = now, time
        self._answers: dict[bytes, ModelAnswer] = {}
        self._waiting: list[LogEntry] = []
        self._began = 0.0

    def refresh(self) -> Mapping[bytes, ModelAnswer]:
        """Return all answers there are, by the digest of the request."""
        self._answers.update((entry.digest, entry.answer) for entry in self._log.read())
        return self._answers

    def put(self, digest: bytes, answer: ModelAnswer) -> None:
        """Take an answer, to be made durable with others."""
        if not self._waiting:
            self._began = self._now()
        self._answers[digest] = answer
        self._waiting.append(LogEntry(digest, self._time(), answer))

    def remind(self) -> None:
        """Make durable what has waited for long enough, or is enough."""
        is_due = self._waiting and self._now() - self._began >= self._seconds
        if is_due or len(self._waiting) >= self._group:
            self.sync()

    def sync(self) -> None:
        """Make durable all that was put."""
        if self._waiting:
            self._log.append(self._waiting)
            self._waiting = []


class ConversationStore:
    """The answers of a source's book, or, where it has none, of one task.

    Attributes:
        hits: answers that were there.
    """

    def __init__(self, book: AnswerBook | None) -> None:
        self._book = book
        self._answers = {} if book is None else book.refresh()
        self._own: dict[bytes, ModelAnswer] = {}
        self.hits = 0

    def find(self, digest: bytes) -> ModelAnswer | None:
        """Return the answer to a request; None: there is none yet."""
        answer = self._answers.get(digest) or self._own.get(digest)
        self.hits += answer is not None
        return answer

    def put(self, digest: bytes, answer: ModelAnswer) -> None:
        """Take an answer, to be made durable with others."""
        self._own[digest] = answer
        if self._book is not None:
            self._book.put(digest, answer)


def pack(entries: Sequence[LogEntry]) -> bytes:
    """Return a block of entries."""
    rows = [[entry.digest.hex(), entry.time, *entry.answer] for entry in entries]
    content = zlib.compress(json.dumps(rows, ensure_ascii=True, separators=(",", ":")).encode())
    return _HEAD.pack(_MAGIC, len(content), _check(content)) + content


def unpack(content: bytes) -> Iterator[LogEntry]:
    """Yield the entries of a block's content."""
    rows: list[list[Any]] = json.loads(zlib.decompress(content))
    for digest, time, *answer in rows:
        yield LogEntry(bytes.fromhex(digest), time, ModelAnswer(*answer))


def split_blocks(data: bytes) -> tuple[list[bytes], int]:
    """Return the contents of the blocks that are whole, and where the last one of them ends."""
    blocks, at, whole = list[bytes](), 0, 0
    while (at := data.find(_MAGIC, at)) >= 0 and at + _HEAD.size <= len(data):
        _, length, check = _HEAD.unpack_from(data, at)
        content = data[at + _HEAD.size : at + _HEAD.size + length]
        if len(content) == length and _check(content) == check:
            blocks.append(content)
            at = whole = at + _HEAD.size + length
        else:
            at += 1  # hurt or torn: the next one is looked for
    return blocks, whole


def find_log(folder: str, source: bytes) -> str:
    """Return the path or URL of a source's log below a folder or URL, without its suffix."""
    name = source.hex()
    return f"{folder.rstrip('/')}/{name[:_FAN]}/{name}"


@contextmanager
def open_locked(path: Path) -> Iterator[BinaryIO]:
    """Hold a log alone, at its beginning; one that was put in its place meanwhile counts.

    Raises:
        OSError: it can't be opened.
    """
    while True:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            try:
                is_there = os.path.samestat(os.fstat(file.fileno()), path.stat())
            except FileNotFoundError:
                is_there = False
            if is_there:
                yield file
                return


def prune_file(path: Path, before: float) -> int:
    """Take out of a log what was kept before a time, and return how many entries that were.

    Raises:
        OSError, VolumeError: it can't be read or written.
    """
    with open_locked(path) as file:
        entries = [entry for block in split_blocks(file.read())[0] for entry in unpack(block)]
        left = [entry for entry in entries if entry.time >= before]
        if not left:
            path.unlink()
        elif len(left) < len(entries):
            write_whole(path, pack(left))
    return len(entries) - len(left)


def _check(content: bytes) -> bytes:
    return blake2b(content, digest_size=_CHECK_BYTES).digest()
