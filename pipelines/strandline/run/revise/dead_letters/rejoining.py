"""Adds the results of retried dead letters to the outputs of finished sources.

A finished source stays finished even if the attempt fails: its record changes in one transaction,
after all results of its dead letters are durable. This module must not depend on the reader of dead
letters.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from strandline.ledger.gather.pieces import split
from strandline.ledger.output_root import name_own_files
from strandline.ledger.records.entries import Change, Finish, FinishedEntry, SourceRecord, drop_cuts
from strandline.plan.receipt import Effort, Left, Work, add_changes, add_efforts, split_work
from strandline.run.revise.redoing import RevisingWriter
from strandline.storage import faults


class RejoiningWriter(RevisingWriter):
    """Writes the ledger in a retrial of one stage's dead letters.

    Args:
        stage: name of the stage.
        stale_cuts: this stage and the later stages, whose cuts lack the rejoined rows.
        *arguments, **options: arguments of `LedgerWriter`.
    """

    def __init__(
        self,
        stage: str,
        stale_cuts: Collection[str],
        *arguments: Any,  # noqa: ANN401 - see above
        **options: Any,  # noqa: ANN401 - see above
    ) -> None:
        super().__init__(*arguments, **options)
        self._stage = stage
        self._stale_cuts = stale_cuts

    def _is_due(self, _: FinishedEntry, record: SourceRecord) -> bool:
        return self._stage in record.count_dead()

    def _write_group(self) -> None:
        faults.reach("commit.begun")
        rewrite = [self._rejoin(source, left) for source, left in self._waiting.items()]
        if self._pieces is not None:
            self._pieces.sync()
        change = Change(rewrite=rewrite)
        if any(record.pieces for _, _, record in rewrite):
            # The old pieces of the record may already be merged. Invalidate the merged files, so
            # that the next gathering reads all pieces again.
            change.meta["drops"] = int(self._store.read_meta("drops") or 0) + 1
        self._store.write(change)
        faults.reach("commit.synced")
        self._untidy |= {source: name_own_files(record) for source, _, record in rewrite}
        self.note_progress()
        self._finished_count += len(rewrite)
        # A source that has failed again keeps its record, including its dead letters.
        self._failed_count += len(self._failed)
        for source in (*self._waiting, *(failure.source for failure in self._failed)):
            del self._live[source]
            del self._former[source]
            self._tally.forget(source)
        self._waiting.clear()
        self._failed.clear()

    def _rejoin(self, source: bytes, left: list[Left]) -> Finish:
        entry, before = self._former[source]
        outputs, pieces = split(left) if left else ((), [])
        kept = self._pieces.keep(source, pieces) if self._pieces is not None else ()
        efforts, changes = self._join_work(source, before)
        whole = drop_cuts(before, self._stale_cuts).outputs
        stay = tuple(output for output in whole if output.dead_stage != self._stage)
        record = SourceRecord(
            before.key,
            (*stay, *outputs),
            (*before.pieces, *kept),
            # If the source has no earlier efforts, it was not measured, and a sum would be
            # incomplete.
            efforts if before.efforts else (),
            changes,
        )
        return Finish(source, entry.version, record)

    def _join_work(self, source: bytes, before: SourceRecord) -> Work:
        """Return the total work of a source, from before and from the retrial.

        The stage has received the dead letters before, so subtract them from its input once.
        """
        own = dict(self._tally.efforts.get(source, {}))
        letters = before.count_dead().get(self._stage, 0)
        add_efforts(own, (Effort(self._stage, -letters, 0),))
        measured, changes = split_work(own.values())
        efforts = {effort.stage: effort for effort in before.efforts}
        add_efforts(efforts, measured)
        return tuple(efforts.values()), add_changes(before.changes, changes)
