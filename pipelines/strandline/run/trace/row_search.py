"""Chooses the sources in which a row is searched, with as little work as possible.

The order is: the named source; sources that read the files that have the row; sources whose name
the row's key begins with; sources whose output has the row; all sources.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from strandline.plan.pipeline import StagePlan
from strandline.plan.stages.ends import Source
from strandline.plan.token import digest_key
from strandline.run.trace.follower import RowFollower
from strandline.run.trace.output_rows import OutputKeys, find_sources
from strandline.run.trace.source_records import SourceRecords
from strandline.run.trace.source_search import find_last_keying, find_likely, list_paths
from strandline.run.trace.steps import PipelineTrace, RowName, TracedRow

_FEW = 4  # sources that run at once, without a search by the first stages
_MOST = 64  # sources that run although each may have no part of the row
_SEARCHING = "searching {:,} sources for the row; `--source KEY` would name its source"
_UNREACHED = "no row of it reaches this pipeline"
_MANY = "{:,} sources may have read the row; shown are those whose output has it ({})"

# Runs sources through some stages, until the followers have found their rows.
Locate = Callable[[Collection[Source], Sequence[StagePlan], Sequence[RowFollower]], None]


@dataclass(slots=True)
class RowSearch:
    """Chooses sources of a pipeline.

    Attributes:
        stages: stages of the pipeline.
        order: names of the stages, with the source stage first.
        records: sources of the pipeline.
        output_keys: keys in the pipeline's output.
        locate: see `Locate`.
        note: receives sentences about slow work.
    """

    stages: Sequence[StagePlan]
    order: Sequence[str]
    records: SourceRecords
    output_keys: OutputKeys
    locate: Locate
    note: Callable[[str], None]
    _paths: dict[str, frozenset[str]] = field(default_factory=dict)
    _known: dict[int, frozenset[str]] = field(default_factory=dict)

    def choose(
        self, rows: Sequence[TracedRow], earlier: Collection[str], traces: Sequence[PipelineTrace]
    ) -> list[list[str]]:
        """Return the keys of the sources that may have each row.

        Args:
            earlier: output locations of the earlier pipelines of the file.
            traces: gain notes if a row reaches no source.
        """
        upstream = self._find_upstream(earlier)
        chosen: list[list[str]] = []
        unknown: list[int] = []
        for at, (row, trace) in enumerate(zip(rows, traces, strict=True)):
            if row.source is not None and not row.files and self.records.has(row.source):
                chosen.append([row.source])
            elif upstream:
                chosen.append(self._choose_readers(row, upstream, trace))
            elif row.source is not None:
                chosen.append([row.source] if self.records.has(row.source) else [])
            else:
                chosen.append([])
                unknown.append(at)
        names = [rows[at].name for at in unknown]
        for at, keys in zip(unknown, self._search(names), strict=True):
            chosen[at] = keys
        return chosen

    def _find_upstream(self, earlier: Collection[str]) -> list[str]:
        """Return the locations of earlier pipelines that the first source reads."""
        first = next(iter(self.records.listed.values()), None)
        paths = frozenset() if first is None else list_paths(first)
        return [each for each in earlier if any(path.startswith(f"{each}/") for path in paths)]

    def _choose_readers(
        self, row: TracedRow, upstream: Collection[str], trace: PipelineTrace
    ) -> list[str]:
        files = {path for path in row.files if path.startswith(tuple(upstream))}
        if not self._paths:
            for key, source in self.records.listed.items():
                # Sources such as partitions share one table with all files.
                known = self._known.setdefault(id(source.data), list_paths(source))
                self._paths[key] = known
        readers = [key for key, paths in self._paths.items() if files & paths]
        if len(readers) > _MOST:
            found = self._find_by_output(row.name)
            trace.notes.append(_MANY.format(len(readers), len(found)))
            return found
        if not readers:
            trace.notes.append(_UNREACHED)
        return readers

    def _search(self, names: Sequence[RowName]) -> list[list[str]]:
        """Return the sources of rows of which only the key is known."""
        listed = list(self.records.listed.values())
        found = [[each.key for each in find_likely(listed, name.keys)] for name in names]
        found = self._narrow(names, found)
        missing = [at for at, keys in enumerate(found) if not keys]
        for at in missing:
            found[at] = self._find_by_output(names[at])
        missing = [at for at in missing if not found[at]]
        if missing and listed:
            if len(listed) > _FEW:
                self.note(_SEARCHING.format(len(listed)))
            rest = [[each.key for each in listed] for _ in missing]
            narrowed = self._narrow([names[at] for at in missing], rest)
            for at, keys in zip(missing, narrowed, strict=True):
                found[at] = keys
        return found

    def _narrow(self, names: Sequence[RowName], keys: Sequence[list[str]]) -> list[list[str]]:
        """Return only the sources that yield the rows, by running the stages that set keys."""
        many = [at for at, each in enumerate(keys) if len(each) > _FEW]
        narrowed = list(keys)
        if not many:
            return narrowed
        followers = [RowFollower(_copy(names[at]), self.order) for at in many]
        union = dict.fromkeys(key for at in many for key in keys[at])
        sources = [self.records.listed[key] for key in union]
        column = names[many[0]].column
        self.locate(sources, self.stages[: find_last_keying(self.stages[:-1], column)], followers)
        digests = {digest_key(key): key for key in union}
        for at, follower in zip(many, followers, strict=True):
            narrowed[at] = [digests[each] for each in follower.sources]
        return narrowed

    def _find_by_output(self, name: RowName) -> list[str]:
        found = find_sources(self.records.store, self.output_keys, name.keys)
        return [record.key for record in found.values()]


def _copy(name: RowName) -> RowName:
    return RowName(name.column, dict(name.keys))
