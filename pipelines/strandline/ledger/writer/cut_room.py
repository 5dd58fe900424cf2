"""Limits the space for cuts: drops cuts of a source that no longer fit, least valuable first.

The module does no I/O; the ledger's writer reports durable changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.ledger.records.entries import Finish, SourceRecord, drop_cuts, measure_cuts


class CutRoom:
    """Tracks the remaining space for cuts.

    Args:
        size: available bytes, or None for no limit.
        worth: stages, sorted by the work that their cuts save, largest first; unlisted stages rank
            last.
    """

    def __init__(self, size: int | None = None, worth: Sequence[str] = ()) -> None:
        self._size = self._open = size
        self._worth = list(worth)

    def begin(self) -> None:
        """Begin a group. If the previous group was not committed, its space becomes free again."""
        self._open = self._size

    def commit(self) -> None:
        """Make the space taken by the group permanent."""
        self._size = self._open

    def free(self, record: SourceRecord) -> None:
        """Free the space of a replaced record's cuts. The new record counts the cuts that stay."""
        if self._open is not None:
            self._open += sum(measure_cuts(record).values())

    def fit_all(self, group: list[Finish]) -> tuple[list[Finish], set[bytes]]:
        """Return a group without cuts that do not fit, and the sources that have lost cuts."""
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
