"""Keeping what replaces finished sources of an older recipe.

A source keeps its outputs and its record until all of its new ones are durable: then one
transaction puts the new record in the old one's stead. What stages above a cut have left stays. It
must not know what a recipe is, nor how a cut is read.
"""

from __future__ import annotations

from typing import Any

from strandline.ledger.gather.pieces import split
from strandline.ledger.location import Redo
from strandline.ledger.records.entries import (
    Change,
    FailureRecord,
    Finish,
    FinishedEntry,
    SourceRecord,
    drop_cuts,
)
from strandline.ledger.store.store import Store
from strandline.plan.receipt import (
    READ_KEPT_OUTPUT,
    ROOT,
    Failure,
    Left,
    Output,
    Work,
    split_work,
)
from strandline.run.revise.dead_letters.rejoining import RevisingKeeper
from strandline.storage.outputs.names import name_output

# The stage that reads a cut; a source that fails there is not to blame.
READING = READ_KEPT_OUTPUT
_READING_NAMES = {READING, "read-kept"}  # older releases wrote the second one


class RedoingKeeper(RevisingKeeper):
    """Writes an attempt at finished sources of an older recipe.

    Args:
        redo: how they are replaced.
        *arguments, **options: those of `Keeper`.
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
        kept_outputs = _keep_equal(before, outputs)
        # A look at a store is a request, so only where the bytes are those of before.
        if kept_outputs is not outputs and self._has_whole(source, before):
            outputs = kept_outputs
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


def _keep_equal(before: SourceRecord, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
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
