"""Writes what replaces finished sources of an older recipe.

A source keeps its outputs and its record until all of its new ones are durable: then one
transaction puts the new record in the old one's stead. What stages above a cut have left stays. The
writer must not know what a recipe is, nor how a cut is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from strandline.ledger.gather.pieces import split
from strandline.ledger.records.entries import (
    RELEASED,
    SKIPPED,
    Change,
    FailureRecord,
    Finish,
    FinishedEntry,
    ListedSource,
    Mark,
    SourceRecord,
    drop_cuts,
)
from strandline.ledger.store.store import Store
from strandline.ledger.writer.writer import LedgerWriter
from strandline.plan.receipt import READ_BACK, ROOT, Failure, Left, Output, Work, split_work
from strandline.plan.token import derive_root
from strandline.storage import faults
from strandline.storage.errors import naming_volume
from strandline.storage.outputs.names import name_output

# The stage that reads a cut; a source that fails there is not to blame.
READING = READ_BACK
_READING_NAMES = {READING, "read-kept"}  # older releases wrote the second one


class Redo(NamedTuple):
    """What replaces finished sources of an older recipe.

    Attributes:
        above: the stages that are not worked through again, in order; the last one is read from
            its cut. None of them: sources are worked on from the beginning.
        from_output: the last one is read from the sink's files instead.
        finished, remaining: sources that the attempt had finished before, and all that it has to
            finish where that is known.
        total: sources that the attempt replaces.
        listed, skipped, quarantined, failed: of all its sources, those that are not replaced.
        reason: from where, and since what has changed, in words.
    """

    above: tuple[str, ...] = ()
    from_output: bool = False
    finished: int = 0
    remaining: int | None = None
    total: int = 0
    reason: str = ""
    listed: int = 0
    skipped: int = 0
    quarantined: int = 0
    failed: int = 0


class RevisingWriter(LedgerWriter):
    """Writes an attempt at sources that are finished, and stay so whatever ends it.

    Args:
        *arguments, **options: those of `LedgerWriter`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **options)
        self._former: dict[bytes, tuple[FinishedEntry, SourceRecord]] = {}
        self._failed_before: dict[bytes, FailureRecord] = {}

    def _is_due(self, entry: FinishedEntry, record: SourceRecord) -> bool:
        """Return whether a finished source is to be worked on."""
        raise NotImplementedError

    @naming_volume("the ledger")
    def admit(self, batch: Sequence[ListedSource], passed: int = 0) -> list[int]:
        """Release the sources of a batch that are finished and due."""
        digests = [listed.source for listed in batch]
        records = self._store.find_records(digests)
        entries = self._store.find_finished(digests)
        failures = self._store.find_failures(digests)
        verdicts = []
        released = []
        for listed in batch:
            record = records.get(listed.source)
            if record is None or not self._is_due(entries[listed.source], record):
                verdicts.append(SKIPPED)
                continue
            entry = entries[listed.source]
            failure = failures.get(listed.source)
            before = failure.times if failure and failure.version == entry.version else 0
            self._former[listed.source] = entry, record
            if failure is not None:
                self._failed_before[listed.source] = failure
            mark = Mark(
                listed.key,
                entry.version,
                self._attempt,
                listed.ordinal,
                is_stale=True,
                failed_before=before,
            )
            self._live[listed.source] = mark
            released.append((listed.source, derive_root(listed.source, listed.version)))
            verdicts.append(RELEASED)
        if released:
            # A crash leaves files that no record names; the next attempt looks into these folders.
            self._store.write(Change(untidy=[source for source, _ in released]))
            faults.reach("listing.marked")
            self._tally.announce(iter(released))
        self._skipped += passed + len(batch) - len(released)
        return verdicts

    def end_listing(self, total: int, *, is_whole: bool = True, gaps: Sequence[str] = ()) -> None:
        """Note nothing: such a listing says nothing of sources that it does not name."""


class RedoingWriter(RevisingWriter):
    """Writes an attempt at finished sources of an older recipe.

    Args:
        redo: how they are replaced.
        *arguments, **options: those of `LedgerWriter`.
    """

    def __init__(self, redo: Redo, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **options)
        self._redo = redo
        self._above = frozenset(redo.above)
        self._unreadable = 0  # sources of the group that is being written

    def _is_due(self, entry: FinishedEntry, _: SourceRecord) -> bool:
        return entry.attempt != self._attempt

    def _describe_progress(self, finished: int) -> dict[str, int | None]:
        redo = self._redo
        done = redo.finished + finished
        return {"attempt": self._attempt, "finished": done, "remaining": redo.remaining}

    def _write_group(self) -> None:
        ended = [*self._waiting, *(failure.source for failure in self._failed)]
        self._unreadable = 0
        super()._write_group()
        self._failed_count -= self._unreadable
        # Only now: what could not be written is written once more.
        for source in ended:
            self._former.pop(source, None)
            self._failed_before.pop(source, None)

    def _amend(self, change: Change) -> None:
        change.replaced = [source for source, _, _ in change.finish]

    def _finish(self, source: bytes, left: list[Left]) -> Finish:
        entry, before = self._former[source]
        outputs, pieces = split(left) if left else ((), [])
        kept = self._pieces.keep(source, pieces) if self._pieces is not None else ()
        stay = tuple(filter(self._stays, before.outputs))
        self.room.free(before)
        same_outputs = _reuse_equal(before, outputs)
        # A look at a store is a request, so only where the bytes are those of before.
        if same_outputs is not outputs and self._has_whole(source, before):
            outputs = same_outputs
        record = SourceRecord(
            before.key,
            (*stay, *outputs),
            (*(piece for piece in before.pieces if piece.stage in self._above), *kept),
            *self._join_work(source, before),
        )
        return Finish(source, entry.version, record)

    def _has_whole(self, source: bytes, before: SourceRecord) -> bool:
        """Return whether the former outputs are there, as far as a look at their sizes shows."""
        failure = self._failed_before.get(source)
        if failure is not None and failure.stage in _READING_NAMES:
            return False
        own = (output for output in before.data if output.part is None)
        return all(self._outputs.has(name_output(source, output), output.size) for output in own)

    def _stays(self, output: Output) -> bool:
        stage = output.cut[0] if output.cut else output.dead_stage
        return stage in self._above

    def _join_work(self, source: bytes, before: SourceRecord) -> Work:
        """Return what stages above the cut did for a source before, and those below it now."""
        efforts, changes = split_work(self._tally.efforts.get(source, {}).values())
        above = self._above | {ROOT} if self._above else self._above
        return (
            (*(each for each in before.efforts if each.stage in above), *efforts),
            (*(each for each in before.changes if each.stage in above), *changes),
        )

    def _fail(self, failure: Failure, change: Change) -> None:
        source = failure.source
        entry, record = self._former[source]
        if failure.stage == READING and self._redo.from_output:
            # The source is not to blame: a later phase works on it from above its files. Until then
            # the note keeps these from being read once more.
            note = note_unreadable(record.key, entry, self._attempt, failure.message)
            change.fail.append((source, note))
            self._unreadable += 1
            return
        lighter = drop_cuts(record, self._redo.above[-1:])
        if failure.stage != READING or lighter == record:
            super()._fail(failure, change)
            return
        # Without the cut, which is missing or hurt, the source is worked on from above it.
        change.rewrite.append(Finish(source, entry.version, lighter))
        change.untidy.append(source)


def note_unreadable(key: str, entry: FinishedEntry, attempt: int, message: str) -> FailureRecord:
    """Return what is noted of a source with outputs that can't be read again; it has not failed."""
    return FailureRecord(key, attempt, READING, message, 0, entry.version)


def list_unreadable(store: Store) -> set[bytes]:
    """Return the finished sources with outputs that can't be read again."""
    failures = store.list_failures()
    return {source for source, failure in failures if failure.stage in _READING_NAMES}


def _reuse_equal(before: SourceRecord, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    """Return new outputs; of data with the bytes of before the former files, which stay.

    So pipelines behind this one see no change where there is none.
    """
    new = [output for output in outputs if output.is_data]
    if sorted(map(_describe, new)) != sorted(map(_describe, before.data)):
        return outputs
    return (*before.data, *(output for output in outputs if not output.is_data))


def _describe(output: Output) -> tuple[str, int, bytes, int, bool, bytes]:
    # Parts of a shared file are never equal: where they lie is in their name.
    alone = b"" if output.part is None else output.token
    return output.suffix, output.size, output.digest, output.rows, output.part is None, alone
