"""Finds finished sources of older recipes and their starting points, and lists them.

This module must not depend on how the sources are processed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, NamedTuple

from strandline.engine.core.odd_sources import identify
from strandline.engine.core.ports import ADMIT_BATCH, Listing
from strandline.ledger.access.lease import Claim, list_recipes
from strandline.ledger.records.entries import FinishedEntry, SourceRecord
from strandline.ledger.store.recipes import Changes, read_changes
from strandline.ledger.store.store import Store
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Output
from strandline.plan.stages.ends import Source
from strandline.plan.stages.stage import Stage
from strandline.run.revise.cuts.rows import CutFile, RereadableSink
from strandline.run.revise.redoing import list_unreadable
from strandline.storage.outputs.names import name_output


class Start(NamedTuple):
    """The point from which a finished source is redone.

    Attributes:
        after: the last stage that is not repeated, or None to repeat all stages.
        from_output: whether to read that stage's output from the sink's own files, not from a cut.
        without: columns to drop from those files, because later stages added them.
    """

    after: str | None = None
    from_output: bool = False
    without: tuple[str, ...] = ()


def describe_start(start: Start) -> str:
    """Describe a starting point in words."""
    if start.after is None:
        return "from the beginning"
    if start.from_output:
        added = f" without {', '.join(start.without)}" if start.without else ""
        return f"from the files of the sink{added}"
    return f"from the output of {start.after!r}"


class Survey(NamedTuple):
    """Finished sources of older recipes.

    Attributes:
        starts: number of sources by starting point.
        first: number of sources by the first stage that has changed.
        refused: number of quarantined sources, which could not be replaced.
    """

    starts: Counter[Start]
    first: Counter[str]
    refused: int = 0

    @property
    def total(self) -> int:
        """Number of sources that are not refused."""
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
    """Finds the starting points of finished sources of older recipes.

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
        """Return the latest possible starting point of a source of an older recipe."""
        unchanged = self.changes.list_unchanged(entry.attempt)
        # Prefer the sink's own files: they contain the last stage's output and always exist.
        added = self._find_added(entry, record)
        if added is not None and source not in self._unreadable:
            return Start(unchanged[-1], from_output=True, without=added)
        cuts = {output.cut[0] for output in record.outputs if output.cut}
        return Start(next((stage for stage in reversed(unchanged) if stage in cuts), None))

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

    def _find_added(self, entry: FinishedEntry, record: SourceRecord) -> tuple[str, ...] | None:
        """Return the columns to drop from the sink's files to get the input of the later stages.

        Return None if the files can't provide that input.
        """
        sink, tail = self._plan.sink, self.changes.find_tail(entry.attempt)
        if tail is None or not (isinstance(sink, RereadableSink) and sink.holds_tables):
            return None
        below = self._plan.stages[tail.begin - 1 : -1]  # `plan.stages` excludes the source
        # A stage that declares nothing about columns may need data that no file has, such as the
        # metadata of a task.
        if not all(stage.stage.keeps_columns and stage.group is None for stage in below):
            return None
        if any(each.suffix != sink.suffix for each in record.data):
            return None
        if tail.renewed is None:
            return ()
        # The files lack the rows that this stage dropped or failed on.
        if tail.has_dropped or below[0].name in record.count_dead():
            return None
        return _list_added(below[0].stage, tail.renewed)


def read_starts(store: Store, plan: PipelinePlan) -> RedoStarts | None:
    """Return the finder of starting points, or None if all sources have the last recipe."""
    changes = read_changes(store)
    return None if changes is None else RedoStarts(changes, plan, list_unreadable(store))


def preview(store: Store, claim: Claim, plan: PipelinePlan) -> Survey | None:
    """Count the sources that a run of a plan would redo. Return None if nothing has changed."""
    changes = Changes(list_recipes(store, claim, sys.maxsize))
    return RedoStarts(changes, plan).survey(store) if changes.is_any else None


class RedoListing(Listing):
    """The sources of a listing that have an older recipe and share a starting point.

    Args:
        plan: the plan of the last recipe.
        listing: all sources.
        open_store: opens the ledger for reading.
        starts: finds the starting point of a source.
        start: the shared starting point.
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
        super().__init__(self._list(), lambda: False)
        self._all = listing
        self._open_store = open_store
        self._starts = starts
        self._start = start
        self._root = location.rstrip("/")
        self._has_slots = not start.from_output and _joins_below(plan, start)
        # Makes tokens, and so output names, different from those of all older recipes.
        self._tag = plan.fingerprint.digest

    def limit(self, most: int) -> None:
        """Limit the number of listed sources."""
        self._sources = _limit(self._sources, most)

    def has_any(self) -> bool:
        """Return True if at least one source remains to be drawn."""
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
        listed = [(identify(source, 0), source) for source in sources]
        digests = [each.source for each, _ in listed]
        with self._open_store() as store:
            entries, records = store.find_finished(digests), store.find_records(digests)
            quarantined = store.find_quarantined(digests)
        chosen: list[tuple[tuple[bytes, int, bytes], Source]] = []
        for (digest, version, *_), source in listed:
            entry, record = entries.get(digest), records.get(digest)
            # A source that has changed counts as unfinished and starts from the beginning.
            if entry is None or record is None or entry.version != version:
                continue
            if digest in quarantined or not self._starts.is_due(entry):
                continue
            if self._starts.find(digest, entry, record) == self._start:
                firsts = map(_find_position, self._list_cut_files(record))
                position = min(firsts, default=(b"", 0, b""))
                chosen.append((position, self._make(source, digest, record)))
        # Sources that share a file must follow each other.
        if self._start.from_output:
            chosen.sort(key=lambda each: each[0][:2])
        return [source for _, source in chosen]

    def _make(self, source: Source, digest: bytes, record: SourceRecord) -> Source:
        data = source.data
        if self._start.after is not None:
            data = [self._find_file(digest, output) for output in self._list_cut_files(record)]
        if self._has_slots:
            data = list(_spread(data, self._list_cut_files(record)))
        return source._replace(version=f"{source.version} by {self._tag}", data=data)

    def _find_file(self, source: bytes, output: Output) -> CutFile:
        part = output.part
        rows = None if part is None else range(part.begin, part.begin + output.rows)
        return CutFile(f"{self._root}/{name_output(source, output)}", output.digest, rows)

    def _list_cut_files(self, record: SourceRecord) -> list[Output]:
        if self._start.from_output:
            return sorted(record.data, key=_find_position)
        cut = [
            (output.cut[1], output)
            for output in record.outputs
            if output.cut and output.cut[0] == self._start.after
        ]
        return [output for _, output in sorted(cut)]


def _joins_below(plan: PipelinePlan, start: Start) -> bool:
    """Return True if a stage after a cut joins groups."""
    names = [stage.name for stage in plan.stages]
    if start.after not in names:
        return False
    return any(stage.group is not None for stage in plan.stages[names.index(start.after) + 1 :])


def _spread(files: Sequence[CutFile], outputs: Sequence[Output]) -> Iterator[CutFile | None]:
    """Yield the files of a cut at their slots, and None for slots that did not get this far."""
    slot = 0
    for file, output in zip(files, outputs, strict=True):
        assert output.cut is not None  # all outputs here belong to a cut
        for _ in range(slot, output.cut[1]):
            yield None
        yield file
        slot = output.cut[1] + 1


def _find_position(output: Output) -> tuple[bytes, int, bytes]:
    """Return the key that sorts outputs by file, and by position in the file."""
    file, begin = (b"", 0) if output.part is None else output.part[:2]
    return file, begin, output.token


def _list_added(stage: Stage, params: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the columns that a stage added with its former parameters.

    Return None if the stage did more than add columns. Its class, version, and name are unchanged.
    """
    try:
        written = json.dumps(_unflatten(params))
        former = type(stage)(type(stage).Params.model_validate_json(written))
    # The former parameters may name a deleted file, and a key with a dot can't be restored.
    except (ValueError, TypeError, AttributeError, OSError, StrandlineError):
        return None
    former.planned_name = stage.planned_name
    return former.list_added() if former.only_adds else None


def _unflatten(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in nested form. Assume that no key contains a dot."""
    values: dict[str, Any] = {}
    for path, value in sorted(params.items(), key=lambda each: each[0]):
        *above, name = path.split(".")
        inner = values
        for key in above:
            inner = inner.setdefault(key, {})
        inner[name] = value
    return values


def _limit(sources: Iterator[Source], most: int) -> Iterator[Source]:
    yield from islice(sources, most)


def _put_back(first: Source, rest: Iterator[Source]) -> Iterator[Source]:
    yield first
    yield from rest
