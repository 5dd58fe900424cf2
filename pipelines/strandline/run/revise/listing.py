"""Finds finished sources of older recipes, determines where they start again, and lists them.

This module must not depend on how the sources are processed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import NamedTuple

from strandline.engine.core.odd_sources import identify
from strandline.engine.core.ports import ADMIT_BATCH, Listing
from strandline.ledger.access.lease import Claim, list_recipes
from strandline.ledger.records.entries import FinishedEntry, SourceRecord
from strandline.ledger.store.recipes import Changes, read_changes
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Output
from strandline.plan.stages.ends import Source
from strandline.run.revise.cuts.rows import CutFile
from strandline.run.revise.redoing import list_unreadable
from strandline.run.revise.starts.rules import RULES, describe_start, find_start
from strandline.run.revise.starts.start import DueSource, Start, find_position
from strandline.storage.outputs.names import name_output


class Survey(NamedTuple):
    """Counts of finished sources of older recipes.

    Attributes:
        starts: number of sources by starting point.
        first: number of sources by the first stage that has changed.
        refused: number of quarantined sources, which are not replaced.
    """

    starts: Counter[Start]
    first: Counter[str]
    refused: int = 0

    @property
    def total(self) -> int:
        """Number of sources to replace."""
        return self.starts.total()


def describe_redo(look: Survey) -> str:
    """Describe starting points and changed stages in words, without the total number."""
    ways = sorted(look.starts.items(), key=lambda way: -way[1])
    if len(ways) == 1:
        starts = describe_start(ways[0][0])
    else:
        starts = " and ".join(f"{describe_start(start)} ({number})" for start, number in ways)
    changed = " and ".join(repr(stage) for stage, _ in look.first.most_common())
    return f"{starts}, because {changed} changed"


class RedoStarts:
    """Determines from which starting point a finished source of an older recipe is processed again.

    Args:
        changes: differences between recipes.
        plan: the plan of the last recipe.
        unreadable: sources whose outputs can't be read back.
    """

    def __init__(
        self, changes: Changes, plan: PipelinePlan, unreadable: Collection[bytes] = ()
    ) -> None:
        self.changes = changes
        self._plan = plan
        self._unreadable = unreadable

    def is_due(self, entry: FinishedEntry) -> bool:
        """Return True if a finished source has an older recipe."""
        return self.changes.find_first(entry.attempt) is not None

    def find(self, source: bytes, entry: FinishedEntry, record: SourceRecord) -> Start:
        """Return the latest possible starting point of a source with an older recipe."""
        is_readable = source not in self._unreadable
        return find_start(DueSource(entry, record, is_readable, self.changes, self._plan))

    def rank(self, start: Start) -> tuple[int, Start]:
        """Return a sort key that is greater for later starting points."""
        return (-1 if start.after is None else self.changes.order.index(start.after)), start

    def list_above(self, start: Start) -> tuple[str, ...]:
        """Return the stages that a redo from a starting point does not repeat."""
        return tuple(self.changes.order[: self.rank(start)[0] + 1])

    def survey(self, store: Store) -> Survey:
        """Count the finished sources of older recipes."""
        starts: Counter[Start] = Counter()
        first: Counter[str] = Counter()
        quarantined = {source for source, _ in store.list_quarantined()}
        refused = 0
        for source, entry, record in store.list_records():
            changed = self.changes.find_first(entry.attempt)
            if changed is None:
                continue
            if source in quarantined:
                refused += 1
                continue
            first[changed] += 1
            starts[self.find(source, entry, record)] += 1
        return Survey(starts, first, refused)


def read_starts(store: Store, plan: PipelinePlan) -> RedoStarts | None:
    """Return an object that finds starting points, or None if all sources have the last recipe."""
    changes = read_changes(store)
    return None if changes is None else RedoStarts(changes, plan, list_unreadable(store))


def preview(store: Store, claim: Claim, plan: PipelinePlan) -> Survey | None:
    """Count the sources that a run of a plan would redo. Return None if nothing has changed."""
    changes = Changes(list_recipes(store, claim, sys.maxsize))
    return RedoStarts(changes, plan).survey(store) if changes.is_any else None


class RedoListing(Listing):
    """A listing of the sources that have an older recipe and the same starting point.

    Args:
        plan: the plan of the last recipe.
        listing: all sources.
        open_store: opens the ledger for reading.
        starts: finds the starting point of a source.
        start: the starting point of the sources to list.
        location: folder or URL of the outputs.
    """

    def __init__(
        self,
        plan: PipelinePlan,
        listing: Listing,
        open_store: Callable[[], AbstractContextManager[Store]],
        starts: RedoStarts,
        start: Start,
        location: str,
    ) -> None:
        # The listing is incomplete, so it must not make other sources count as removed.
        super().__init__(self._list(), lambda: False)
        self._all = listing
        self._open_store = open_store
        self._starts = starts
        self._start = start
        self._root = location.rstrip("/")
        self._rule = RULES.get(start.rule)
        reads_cut = self._rule is not None and self._rule.reads_cut
        self._has_slots = reads_cut and _joins_below(plan, start)
        # Part of the version of each source: tokens, and thus output names, must differ from the
        # tokens of all older recipes.
        self._tag = plan.fingerprint.digest

    def limit(self, most: int) -> None:
        """Limit the number of listed sources."""
        self._sources = _limit(self._sources, most)

    def has_any(self) -> bool:
        """Return True if at least one source is left."""
        first = next(self._sources, None)
        if first is not None:
            self._sources = _put_back(first, self._sources)
        return first is not None

    def close(self) -> None:
        super().close()
        self._all.close()

    def _list(self) -> Iterator[Source]:
        while True:
            sources = self._all.draw_sources(ADMIT_BATCH)
            yield from self._choose(sources)
            if self._all.is_ended:
                return

    def _choose(self, sources: list[Source]) -> list[Source]:
        listed = [(identify(source, 0), source) for source in sources]  # digests need no position
        digests = [each.source for each, _ in listed]
        with self._open_store() as store:
            entries, records = store.find_finished(digests), store.find_records(digests)
            quarantined = store.find_quarantined(digests)
        chosen: list[tuple[tuple[bytes, int, bytes], Source]] = []
        for (digest, version, *_), source in listed:
            entry, record = entries.get(digest), records.get(digest)
            # Skip unfinished sources. A source whose version has changed counts as unfinished.
            if entry is None or record is None or entry.version != version:
                continue
            if digest in quarantined or not self._starts.is_due(entry):
                continue
            if self._starts.find(digest, entry, record) == self._start:
                firsts = map(find_position, self._list_files(record))
                position = min(firsts, default=(b"", 0, b""))
                chosen.append((position, self._make(source, digest, record)))
        # Place sources that share a file next to each other. Other sources keep their order.
        chosen.sort(key=lambda each: each[0][:2])
        return [source for _, source in chosen]

    def _make(self, source: Source, digest: bytes, record: SourceRecord) -> Source:
        data = source.data
        if self._start.after is not None:
            data = [self._find_file(digest, output) for output in self._list_files(record)]
        if self._has_slots:
            data = list(_spread(data, self._list_files(record)))
        return source._replace(version=f"{source.version} by {self._tag}", data=data)

    def _find_file(self, source: bytes, output: Output) -> CutFile:
        part = output.part
        rows = None if part is None else range(part.begin, part.begin + output.rows)
        return CutFile(f"{self._root}/{name_output(source, output)}", output.digest, rows)

    def _list_files(self, record: SourceRecord) -> list[Output]:
        return [] if self._rule is None else self._rule.list_files(self._start, record)


def _joins_below(plan: PipelinePlan, start: Start) -> bool:
    """Return True if a stage after the starting point joins the outputs of a fan-out."""
    names = [stage.name for stage in plan.stages]
    if start.after not in names:
        return False
    return any(stage.group is not None for stage in plan.stages[names.index(start.after) + 1 :])


def _spread(files: Sequence[CutFile], outputs: Sequence[Output]) -> Iterator[CutFile | None]:
    """Yield the files of a cut by slot, and None for slots whose task did not reach the cut."""
    slot = 0
    for file, output in zip(files, outputs, strict=True):
        assert output.cut is not None  # all outputs here belong to a cut
        for _ in range(slot, output.cut[1]):
            yield None
        yield file
        slot = output.cut[1] + 1


def _limit(sources: Iterator[Source], most: int) -> Iterator[Source]:
    yield from islice(sources, most)


def _put_back(first: Source, rest: Iterator[Source]) -> Iterator[Source]:
    yield first
    yield from rest
