"""The order in which things become durable, so that a crash anywhere loses nothing and lies never.

For each source: its mark in `inflight`, before it is released; its outputs, by the sinks; what an
earlier try left in its folder goes; then one transaction says finished, keeps the record and
removes the mark. Counting is the tally's, bytes are the store's. One keeper writes a ledger; it
knows no engine: whoever hosts it calls it from one thread at a time and passes the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from strandline.ledger.entries import Change, FailureRecord, Finish, Mark, Record
from strandline.ledger.errors import DuplicateKeyError, NegativePendingCountError
from strandline.ledger.seen import Seen
from strandline.ledger.store import Store
from strandline.ledger.tally import Tally
from strandline.plan.receipt import Event, Failure, Output
from strandline.plan.token import derive_root
from strandline.storage import faults
from strandline.storage.outputs import OutputStore

GROUP_SECONDS = 0.1
GROUP_SOURCES = 10_000
_NEVER = (None, None)


class Listed(NamedTuple):
    """A listed source as the ledger sees it: digests of key (16) and version (8), key, place."""

    source: bytes
    version: bytes
    key: str
    ordinal: int


class Standing(NamedTuple):
    """How the sources of an attempt stand after a drain.

    Attributes:
        finished: sources finished by this attempt.
        skipped: sources that an earlier attempt had finished.
        failed: sources that failed in this attempt.
        unfinished: sources still open: work in flight was lost or stopped.
        removed: sources that are no longer listed and were cleaned away.
    """

    finished: int
    skipped: int
    failed: int
    unfinished: int
    removed: int


class _Live(NamedTuple):
    key: str
    ordinal: int
    version: bytes
    is_stale: bool
    failed_before: int


class Keeper:
    """Writes one attempt into a ledger.

    Args:
        store: holds the lease of this attempt.
        outputs: where the sinks write, for removing leftovers.
        attempt: number of this attempt.
        now: seconds from any fixed point.
        deletes_vanished: sources that are no longer listed are removed with their outputs.
    """

    def __init__(
        self,
        store: Store,
        outputs: OutputStore,
        attempt: int,
        now: Callable[[], float],
        *,
        deletes_vanished: bool = False,
    ) -> None:
        self._store = store
        self._outputs = outputs
        self._attempt = attempt
        self._now = now
        self._live: dict[bytes, _Live] = {}
        self._waiting: dict[bytes, list[Output]] = {}
        self._failed: list[Failure] = []
        self._tally = Tally(self._is_over)
        self._seen = Seen() if deletes_vanished else None
        self._applied = 0
        self._waiting_since = 0.0
        self._finished_count = self._skipped = self._failed_count = self._removed = 0

    @property
    def finished(self) -> int:
        """Sources that this attempt has made durable so far."""
        return self._finished_count

    def admit(self, batch: Sequence[Listed]) -> list[bool]:
        """Mark the sources of a listing batch that are not finished; True where one is released.

        Raises:
            DuplicateKeyError: a key is listed twice.
            VolumeError: the marks can't be written; none is released.
        """
        digests = [listed.source for listed in batch]
        finished = self._store.find_finished(digests)
        if self._seen is not None:
            self._seen.add(digests)
        fresh, verdicts = [], []
        for listed in batch:
            version, attempt = finished.get(listed[0], _NEVER)
            if attempt == self._attempt:
                raise _duplicate(listed, "once before, when it was finished")
            is_open = version != listed[1]
            verdicts.append(is_open)
            if is_open:
                fresh.append(listed)
        if fresh:
            self._mark(fresh, set(finished))
        self._skipped += len(batch) - len(fresh)
        return verdicts

    def apply(self, number: int, events: Sequence[Event], failures: Sequence[Failure] = ()) -> None:
        """Count what the `number`th message says; commit when a group is due.

        Raises:
            NonDeterministicTaskError: a stage gave two answers to one task.
            ValueError: a message is missing; nothing of this one is counted.
        """
        if number != self._applied + 1:
            msg = f"message {number} came after message {self._applied}"
            raise ValueError(msg)
        was_waiting = bool(self._waiting or self._failed)
        self._waiting.update(self._tally.count(events))
        self._failed += self._tally.fail(failures)
        if not was_waiting and (self._waiting or self._failed):
            self._waiting_since = self._now()
        self._applied = number
        faults.reach("source.settled")
        self.commit_due()

    def commit_due(self) -> None:
        """Commit the waiting group where it is full or old enough."""
        size = len(self._waiting) + len(self._failed)
        if size >= GROUP_SOURCES or (size and self._now() - self._waiting_since >= GROUP_SECONDS):
            self.commit()

    def commit(self) -> None:
        """Make every waiting source durable in one transaction.

        Raises:
            VolumeError: the disk is full or fails; the sources stay waiting.
        """
        if not (self._waiting or self._failed):
            return
        faults.reach("commit.begun")
        for source, outputs in self._waiting.items():
            if self._live[source].is_stale:
                keep = {output.token.hex() + output.suffix for output in outputs}
                self._outputs.remove_others(source, keep)
        faults.reach("commit.cleaned")
        finish = [self._finish(source, outputs) for source, outputs in self._waiting.items()]
        fail = [(failure.source, self._fail(failure)) for failure in self._failed]
        self._store.write(Change(finish=finish, fail=fail))
        faults.reach("commit.synced")
        self._finished_count += len(finish)
        self._failed_count += len(fail)
        for source in self._waiting:
            del self._live[source]
        for source, _ in fail:
            del self._live[source]
            self._tally.forget(source)
        self._waiting.clear()
        self._failed.clear()

    def end_listing(self, total: int) -> None:
        """Note that the listing is complete, and clean away what it no longer names.

        Unfinished sources of earlier attempts go with whatever they left; finished ones only where
        `deletes_vanished` was asked for.
        """
        # A list, not a stream: the map can't grow under a transaction that still reads.
        vanished = iter(list(self._find_vanished()))
        while group := list(islice(vanished, 1000)):
            # Marked first: were we killed between, a record would speak of files that are gone.
            marks = [(source, Mark(key, b"", 0, 0, is_stale=True)) for source, key in group]
            self._store.write(Change(mark=marks))
            for source, _ in group:
                self._outputs.remove_others(source, ())
            self._store.write(Change(forget=[source for source, _ in group]))
            self._removed += len(group)
        self._store.write(Change(meta={"listed": total}))

    def drain(self, number: int, *, anything_died: bool) -> Standing:
        """Commit all that is finished after message `number`, and say how the sources stand.

        Raises:
            NegativePendingCountError: a token was settled that nobody announced, and no worker
                died that could have taken the announcement with it.
            ValueError: not every message has arrived.
        """
        if number != self._applied:
            msg = f"the last message is {number}, but {self._applied} have arrived"
            raise ValueError(msg)
        self.commit()
        source = self._tally.find_unannounced()
        if source is not None and not anything_died:
            msg = f"source {self._live[source].key!r}: a task was settled that nobody announced"
            raise NegativePendingCountError(msg)
        unfinished = len(list(self._tally.list_open()))
        return Standing(
            self._finished_count, self._skipped, self._failed_count, unfinished, self._removed
        )

    def _is_over(self, source: bytes) -> bool:
        return source in self._waiting or source not in self._live

    def _mark(self, fresh: Sequence[Listed], superseded: set[bytes]) -> None:
        digests = [listed.source for listed in fresh]
        old_marks = self._store.find_marks(digests)
        failures = self._store.find_failures(digests)
        marks = []
        for listed in fresh:
            source, version, key, ordinal = listed
            old, failure = old_marks.get(source), failures.get(source)
            if source in self._live:
                raise _duplicate(listed, f"as item {self._live[source].ordinal}")
            if failure is not None and failure.attempt == self._attempt:
                raise _duplicate(listed, "once before, when it failed")
            is_stale = bool(old or failure) or source in superseded
            before = failure.times if failure else old.failed_before if old else 0
            marks.append((source, Mark(key, version, self._attempt, ordinal, is_stale, before)))
            self._live[source] = _Live(key, ordinal, version, is_stale, before)
        if marks:
            self._store.write(Change(mark=marks))
            faults.reach("listing.marked")
        self._tally.count(
            Event(source, (), (derive_root(source, mark.version),)) for source, mark in marks
        )

    def _finish(self, source: bytes, outputs: list[Output]) -> Finish:
        live = self._live[source]
        return Finish(source, live.version, Record(live.key, tuple(sorted(outputs))))

    def _fail(self, failure: Failure) -> FailureRecord:
        times = self._live[failure.source].failed_before + 1
        return FailureRecord(failure.key, self._attempt, failure.stage, failure.message, times)

    def _find_vanished(self) -> Iterator[tuple[bytes, str]]:
        unfinished: Iterator[tuple[bytes, Mark | FailureRecord]]
        unfinished = chain(self._store.list_marks(), self._store.list_failures())
        for source, entry in unfinished:
            if entry.attempt != self._attempt and source not in self._live:
                yield source, entry.key
        if self._seen is None:
            return
        finished = ((source, record.key) for source, _, record in self._store.list_records())
        while group := dict(islice(finished, 10_000)):
            for source in self._seen.find_missing(list(group)):
                yield source, group[source]


def _duplicate(listed: Listed, where: str) -> DuplicateKeyError:
    return DuplicateKeyError(
        f"the source key {listed.key!r} is listed twice: as item {listed.ordinal} and {where}; "
        "keys must be unique"
    )
