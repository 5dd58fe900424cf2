"""Writes the replacements of finished sources of older recipes.

A source keeps its outputs and its record until all new outputs are durable. Then one transaction
replaces the record. Kept outputs of stages before the starting point stay. The writer must not
depend on the meaning of a recipe, or on the reader of a cut.
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

# Name of the stage that reads kept output. A failure in this stage is not the source's fault.
READING = READ_BACK
_READING_NAMES = {READING, "read-kept"}  # older releases recorded "read-kept"


class Redo(NamedTuple):
    """Settings for replacing finished sources of an older recipe.

    Attributes:
        above: the stages that are not repeated, in order; the output of the last of these stages is
            read back. If empty, sources are processed from the beginning.
        notes_unreadable: whether to record in the ledger that a source's output can't be read.
            False for a cut, which is dropped instead.
        finished, remaining: number of sources that the attempt has already finished, and that it
            has to finish in total, if known.
        total: number of sources that the attempt replaces.
        listed, skipped, quarantined, failed: counts of the attempt's other sources.
        reason: starting points and changed stages, in words.
    """

    above: tuple[str, ...] = ()
    notes_unreadable: bool = False
    finished: int = 0
    remaining: int | None = None
    total: int = 0
    reason: str = ""
    listed: int = 0
    skipped: int = 0
    quarantined: int = 0
    failed: int = 0


class RevisingWriter(LedgerWriter):
    """Writes the ledger for finished sources, which stay finished even if the attempt fails.

    Args:
        *arguments, **options: arguments of `LedgerWriter`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **options)
        self._former: dict[bytes, tuple[FinishedEntry, SourceRecord]] = {}
        self._failed_before: dict[bytes, FailureRecord] = {}

    def _is_due(self, entry: FinishedEntry, record: SourceRecord) -> bool:
        """Return True if a finished source must be processed again."""
        raise NotImplementedError

    @naming_volume("the ledger")
    def admit(self, batch: Sequence[ListedSource], passed: int = 0) -> list[int]:
        """Release the finished sources of a batch that must be processed again."""
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
            # Ignore failures of another version.
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
            # After a crash, the folders may contain files without a record, so the next attempt has
            # to check them.
            self._store.write(Change(untidy=[source for source, _ in released]))
            faults.reach("listing.marked")
            self._tally.announce(iter(released))
        self._skipped += passed + len(batch) - len(released)
        return verdicts

    def end_listing(self, total: int, *, is_whole: bool = True, gaps: Sequence[str] = ()) -> None:
        """Record nothing: this listing does not show which other sources still exist."""


class RedoingWriter(RevisingWriter):
    """Writes the ledger while finished sources of older recipes are replaced.

    Args:
        redo: how the sources are replaced.
        *arguments, **options: arguments of `LedgerWriter`.
    """

    def __init__(self, redo: Redo, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **options)
        self._redo = redo
        self._above = frozenset(redo.above)
        self._unreadable = 0  # unreadable sources in the group being written

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
        # Forget the sources only now: after an error, the group would be written again.
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
        # Check for the old files only if the bytes are unchanged, because each check of a store
        # costs a request.
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
        """Return True if the previous outputs exist with their recorded sizes."""
        failure = self._failed_before.get(source)
        if failure is not None and failure.stage in _READING_NAMES:
            return False
        own = (output for output in before.data if output.part is None)
        return all(self._outputs.has(name_output(source, output), output.size) for output in own)

    def _stays(self, output: Output) -> bool:
        stage = output.cut[0] if output.cut else output.dead_stage
        return stage in self._above

    def _join_work(self, source: bytes, before: SourceRecord) -> Work:
        """Join the previous work of unrepeated stages with the new work of later stages."""
        efforts, changes = split_work(self._tally.efforts.get(source, {}).values())
        above = self._above | {ROOT} if self._above else self._above
        return (
            (*(each for each in before.efforts if each.stage in above), *efforts),
            (*(each for each in before.changes if each.stage in above), *changes),
        )

    def _fail(self, failure: Failure, change: Change) -> None:
        source = failure.source
        entry, record = self._former[source]
        if failure.stage == READING and self._redo.notes_unreadable:
            # This is not the source's fault. Record that the files are unreadable, so that a later
            # phase starts the source from an earlier point.
            note = note_unreadable(record.key, entry, self._attempt, failure.message)
            change.fail.append((source, note))
            self._unreadable += 1
            return
        lighter = drop_cuts(record, self._redo.above[-1:])
        if failure.stage != READING or lighter == record:
            super()._fail(failure, change)
            return
        # The cut is missing or damaged. Drop it, so that a later phase starts the source from an
        # earlier point.
        change.rewrite.append(Finish(source, entry.version, lighter))
        change.untidy.append(source)


def note_unreadable(key: str, entry: FinishedEntry, attempt: int, message: str) -> FailureRecord:
    """Return a failure record with 0 failures for a source whose outputs can't be read back."""
    return FailureRecord(key, attempt, READING, message, 0, entry.version)


def list_unreadable(store: Store) -> set[bytes]:
    """Return the finished sources whose outputs can't be read back."""
    failures = store.list_failures()
    return {source for source, failure in failures if failure.stage in _READING_NAMES}


def _reuse_equal(before: SourceRecord, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    """Return the new outputs, but with the old data files if their bytes are unchanged.

    Downstream pipelines then see no change.
    """
    new = [output for output in outputs if output.is_data]
    if sorted(map(_describe, new)) != sorted(map(_describe, before.data)):
        return outputs
    return (*before.data, *(output for output in outputs if not output.is_data))


def _describe(output: Output) -> tuple[str, int, bytes, int, bool, bytes]:
    # Names of parts of shared files contain their position, so include the token: such parts never
    # count as equal.
    alone = b"" if output.part is None else output.token
    return output.suffix, output.size, output.digest, output.rows, output.part is None, alone
