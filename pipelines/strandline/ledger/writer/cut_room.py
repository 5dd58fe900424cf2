"""The bytes that cuts may have: what no longer fits is not kept, the least worth of a source first.

The room knows no disk and no transaction; the ledger's writer reports what became durable.
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.ledger.records.entries import Finish, SourceRecord, drop_cuts, measure_cuts


class CutRoom:
    """Room for cuts.

    Args:
        size: bytes that are left; None: any number.
        worth: stages, those first whose cuts save most; others come behind them.
    """

    def __init__(self, size: int | None = None, worth: Sequence[str] = ()) -> None:
        self._size = self._open = size
        self._worth = list(worth)

    def begin(self) -> None:
        """Begin a group anew: what was taken and is not durable is free."""
        self._open = self._size

    def commit(self) -> None:
        """Note that what was taken is durable."""
        self._size = self._open

    def free(self, record: SourceRecord) -> None:
        """Note that the cuts of a record go; those that stay are fitted in with its successor."""
        if self._open is not None:
            self._open += sum(measure_cuts(record).values())

    def fit_all(self, group: list[Finish]) -> tuple[list[Finish], set[bytes]]:
        """Return a group with the cuts that there is room for, and the sources that lost some."""
        if self._open is None:
            return group, set()
        fitted = [each._replace(record=self._fit(each.record)) for each in group]
        both = zip(group, fitted, strict=True)
        return fitted, {new.source for old, new in both if old.record is not new.record}

    def _fit(self, record: SourceRecord) -> SourceRecord:
        sizes, room = measure_cuts(record), self._open or 0
        dropped = set()
        for stage in sorted(sizes, key=self._rank):
            if sizes[stage] <= room:
                room -= sizes[stage]
            else:
                dropped.add(stage)
        self._open = room
        return drop_cuts(record, dropped) if dropped else record

    def _rank(self, stage: str) -> int:
        return self._worth.index(stage) if stage in self._worth else len(self._worth)
