"""Finds answers in a log by request digest, and adds new answers.

Memory holds the positions of answers, not the answers, because an embedding takes as much memory as
hundreds of positions. The module must not depend on whether the log is on a disk or in a store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from strandline_packs.models.asking.answers import ModelAnswer
from strandline_packs.models.asking.log.answer_index import AnswerIndex
from strandline_packs.models.asking.log.log_blocks import (
    LogBlock,
    LogEntry,
    PackedEntry,
    build_block,
    find_blocks,
    pack,
    read_entries,
    unpack,
)
from strandline_packs.models.asking.log.request_log import LogPart, RequestLog
from strandline_packs.models.asking.verdicts.messages import find_answer_fault

_START_BITS = 40  # the low bits of a position are the start, the high bits are the part's index
_STARTS = (1 << _START_BITS) - 1
_LOOK_SHARE = 20  # pause before the next scan, as a multiple of the last scan's duration
_URGENT_SECONDS = 0.25  # time limit for a sync while the run stops
_MOST_BYTES = 8 << 20  # maximum size of answers that wait for a write
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


class KeepingTerms(NamedTuple):
    """Conditions for writing answers and making them durable.

    Attributes:
        group: number of answers that triggers a sync.
        seconds: time after which fewer answers are synced too.
        is_eager: whether answers are written immediately, so that they survive a process crash.
    """

    group: int
    seconds: float
    is_eager: bool


class _Scan(NamedTuple):
    """Scan progress in a part: index and identity of the part, and the end of the scanned bytes."""

    number: int
    identity: int
    end: int


class AnswerBook:
    """Stores answers, and finds them by the digests of their requests.

    Args:
        log: log of all processes.
        keeping: conditions for writing answers.
        now: clock in seconds from any fixed point.
        time: clock in seconds since the epoch.
    """

    def __init__(
        self,
        log: RequestLog,
        keeping: KeepingTerms,
        now: Callable[[], float],
        time: Callable[[], float],
    ) -> None:
        self._log, self._keeping = log, keeping
        self._now, self._time = now, time
        self._index = AnswerIndex()
        self._parts: list[LogPart] = []  # by part number
        self._scans: dict[str, _Scan] = {}
        self._look_at = float("-inf")
        self._waiting: dict[bytes, PackedEntry] = {}
        self._bytes = 0
        self._undurable = 0
        self._began = 0.0

    def find(self, digests: Collection[bytes]) -> dict[bytes, ModelAnswer]:
        """Return the logged answers to requests, from the logs of all workers.

        Raises:
            VolumeError: the log can't be read.
        """
        self._look()
        waiting = [self._waiting[each] for each in digests if each in self._waiting]
        found = {packed.digest: unpack(packed).answer for packed in waiting}
        missing = {each: self._index.find(each) for each in digests if each not in found}
        # The first position usually suffices. Further positions are tried if an answer is damaged
        # or belongs to another digest with the same key.
        while missing := {each: rest for each, rest in missing.items() if rest}:
            firsts = sorted((rest.pop(0), digest) for digest, rest in missing.items())
            good = (each for each in self._fetch(firsts) if find_answer_fault(each.answer) is None)
            found.update((entry.digest, entry.answer) for entry in good)
            missing = {each: rest for each, rest in missing.items() if each not in found}
        return found

    def put(self, digest: bytes, answer: ModelAnswer, keys: Sequence[str] = ()) -> None:
        """Add an answer to the next write, with the keys of the rows that need the answer."""
        # The time limit counts from the oldest answer that is not durable.
        if not self._waiting and not self._undurable:
            self._began = self._now()
        packed = pack(LogEntry(digest, self._time(), answer, tuple(keys)))
        self._waiting[digest] = packed
        self._bytes += len(packed.content)

    def remind(self, *, is_urgent: bool = False) -> None:
        """Write new answers according to the terms, and sync if enough answers or time accumulated.

        Args:
            is_urgent: the process may end at any moment.

        Raises:
            VolumeError: the log can't be written.
        """
        count, keeping = len(self._waiting) + self._undurable, self._keeping
        if not count:
            return
        limit = min(keeping.seconds, _URGENT_SECONDS) if is_urgent else keeping.seconds
        is_due = count >= keeping.group or self._now() - self._began >= limit
        if is_due or self._bytes >= _MOST_BYTES:
            self.sync()
        elif keeping.is_eager:
            self._write()

    def sync(self) -> None:
        """Write and sync all answers.

        Raises:
            VolumeError: the log can't be written.
        """
        self._write()
        if self._undurable:
            self._log.sync()
            self._undurable = 0

    def _write(self) -> None:
        if not self._waiting:
            return
        entries = list(self._waiting.values())
        (name, identity, end), start = self._log.append(build_block(entries))
        number = self._number(LogPart(name, identity, end))
        scan = self._scans.get(name)
        if start == (0 if scan is None else scan.end):  # the next scan fills a gap
            self._scans[name] = _Scan(number, identity, end)
        for entry in entries:
            self._index.add(entry.digest, _join_position(number, start))
        self._undurable += len(entries)
        self._waiting, self._bytes = {}, 0

    def _look(self) -> None:
        """Index the blocks that any process appended since the last scan."""
        begun = self._now()
        if begun < self._look_at:
            return
        parts = [part for part in self._log.list_parts() if self._is_new(part)]
        for part, blocks in self._map(self._read_blocks, parts):
            number = self._number(part)
            for block in blocks:
                self._scans[part.name] = _Scan(number, part.identity, block.end)
                for digest in block.digests:
                    self._index.add(digest, _join_position(number, block.start))
        self._look_at = self._now() + _LOOK_SHARE * (self._now() - begun)

    def _is_new(self, part: LogPart) -> bool:
        scan = self._scans.get(part.name)
        return scan is None or (scan.identity, scan.end) != (part.identity, part.size)

    def _read_blocks(self, part: LogPart) -> tuple[LogPart, list[LogBlock]]:
        scan = self._scans.get(part.name)
        # A part that was replaced or became shorter is read from the start.
        is_same = scan is not None and scan.identity == part.identity and scan.end <= part.size
        start = scan.end if scan is not None and is_same else 0
        with self._log.open_part(part) as reader:
            return part, list(find_blocks(reader, start, part.size))

    def _number(self, part: LogPart) -> int:
        """Return the index of a part, which remains the same if the part grows or is replaced."""
        scan = self._scans.get(part.name)
        if scan is None:
            self._parts.append(part)
            number = len(self._parts) - 1
            self._scans[part.name] = _Scan(number, part.identity, 0)
            return number
        self._parts[scan.number] = part
        return scan.number

    def _fetch(self, positions: Sequence[tuple[int, bytes]]) -> Iterable[LogEntry]:
        """Return the log entries at sorted positions.

        Missing entries, and entries with another digest, are omitted.
        """
        parts: dict[int, dict[int, set[bytes]]] = {}  # digests by start, by part
        for position, digest in positions:
            starts = parts.setdefault(position >> _START_BITS, {})
            starts.setdefault(position & _STARTS, set()).add(digest)
        works = [(self._parts[number], starts) for number, starts in parts.items()]
        return (entry for entries in self._map(self._fetch_part, works) for entry in entries)

    def _fetch_part(self, work: tuple[LogPart, dict[int, set[bytes]]]) -> list[LogEntry]:
        part, wanted = work
        with self._log.open_part(part) as reader:
            return [
                entry
                for start, digests in wanted.items()
                for entry in read_entries(reader, start, part.size, digests)
            ]

    def _map(self, work: Callable[[_Item], _Found], items: Sequence[_Item]) -> Iterable[_Found]:
        if self._log.threads == 1 or len(items) < 2:  # noqa: PLR2004 - a thread helps no single item
            return map(work, items)
        with ThreadPoolExecutor(min(self._log.threads, len(items))) as pool:
            return list(pool.map(work, items))


class ConversationStore:
    """The answers that conversations may reuse: from the book or, without a book, from the task.

    Attributes:
        hits: how many answers were found.
    """

    def __init__(self, book: AnswerBook | None) -> None:
        self._book = book
        self._own: dict[bytes, ModelAnswer] = {}
        self.hits = 0
        if book is not None:
            book.find(())  # run the slow first scan here, because later it would block the loop

    def find(self, digest: bytes) -> ModelAnswer | None:
        """Return the answer to a request, or None if the request has no answer yet.

        Raises:
            VolumeError: the log can't be read.
        """
        answer = self._own.get(digest)
        if answer is None and self._book is not None:
            answer = self._book.find((digest,)).get(digest)
        self.hits += answer is not None
        return answer

    def put(self, digest: bytes, answer: ModelAnswer, keys: Sequence[str] = ()) -> None:
        """Keep an answer, and add it to the book."""
        self._own[digest] = answer
        if self._book is not None:
            self._book.put(digest, answer, keys)


def _join_position(number: int, start: int) -> int:
    return number << _START_BITS | start
