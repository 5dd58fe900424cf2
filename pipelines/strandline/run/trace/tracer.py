"""Traces rows through the pipelines of a file, in the order in which the pipelines run.

The module must not depend on the presentation of a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from strandline.ledger.access.output_location import locate_outputs
from strandline.ledger.access.session import opened_to_read
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stages.ends import Source
from strandline.run.attempt.sources.partitions import open_listing
from strandline.run.attempt.sources.schema_inference import recall_schema
from strandline.run.trace.assembly import TraceAssembly
from strandline.run.trace.follower import RowFollower, make_observer
from strandline.run.trace.output_rows import OutputKeys
from strandline.run.trace.replay import list_replayed, replay
from strandline.run.trace.row_search import RowSearch
from strandline.run.trace.source_records import SourceFacts, SourceRecords
from strandline.run.trace.steps import PipelineTrace, TracedRow
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.latest import resolve
from strandline_api.documents.problems import SpecError

_NOT_RUN = "the pipeline has not run on this volume"
_DRAWN = 1024  # sources per read of a listing


def trace_rows(
    plans: Sequence[PipelinePlan],
    volume: Path,
    rows: Sequence[TracedRow],
    note: Callable[[str], None] = lambda _: None,
) -> list[list[PipelineTrace]]:
    """Return the history of each row: one trace per pipeline.

    Args:
        plans: the pipelines, in the order in which they run.
        volume: folder with their ledgers.
        rows: the rows; all have the same column of keys.
        note: receives sentences about slow work.

    Raises:
        LedgerError: if a ledger can't be read.
        StageSetupError: if a stage can't run here.
    """
    tracers = [PipelineTracer(plan, volume, note) for plan in plans]
    locations = [each.location for each in tracers]
    found = [each.trace(rows, locations[:at]) for at, each in enumerate(tracers)]
    return [list(traces) for traces in zip(*found, strict=True)]


class PipelineTracer:
    """Traces rows through one pipeline.

    Args:
        plan, volume, note: see `trace_rows`.

    Attributes:
        location: folder or URL of the pipeline's outputs.
    """

    def __init__(
        self,
        plan: PipelinePlan,
        volume: Path,
        note: Callable[[str], None],
    ) -> None:
        self._plan, self._volume, self._note = plan, volume, note
        self._folder = PipelineFolder.on_volume(volume, plan.namespace, plan.name)
        self.location = locate_outputs(plan, self._folder)
        self._order = [each.name for each in (plan.source, *plan.stages)]

    def trace(self, rows: Sequence[TracedRow], earlier: Sequence[str]) -> list[PipelineTrace]:
        """Trace the rows, and add the files that have them to `files` of each row.

        Args:
            earlier: output locations of the earlier pipelines.
        """
        traces = [PipelineTrace(self._plan.name, self.location) for _ in rows]
        if earlier and not (self._folder.ledger / "data.mdb").exists():
            for trace in traces:
                trace.notes.append(_NOT_RUN)
            return traces
        with opened_to_read(self._folder.ledger) as store:
            self._plan = recall_schema(self._plan, store)
            records = SourceRecords(self._plan, store, *self._list_sources())
            output_keys = OutputKeys(self.location, rows[0].name.column)
            arguments = self._plan.stages, self._order, records, output_keys
            search = RowSearch(*arguments, self._locate, self._note)
            chosen = search.choose(rows, earlier, traces)
            facts = {key: records.read(key) for keys in chosen for key in keys}
            followers = [
                RowFollower(row.name.number_in(is_source=row.source in keys), self._order)
                for row, keys in zip(rows, chosen, strict=True)
            ]
            failures = self._follow(list(facts.values()), followers)
            assembly = TraceAssembly(self._plan, store, output_keys)
            for row, follower, keys, trace in zip(rows, followers, chosen, traces, strict=True):
                if row.is_whole_source:
                    for key in keys:
                        assembly.add_source(facts[key], trace)
                    continue
                assembly.add_row(follower, [facts[key] for key in keys], trace)
                trace.notes += [failures[key] for key in keys if key in failures]
                row.files += [f"{output_keys.location}/{each.file}" for each in trace.outputs]
                trace.publication = self._find_publication(trace)
        return traces

    def _find_publication(self, trace: PipelineTrace) -> str:
        """Return the name of `latest` if the publication has the row, or an empty text."""
        attempts = [each.attempt for each in trace.sources if each.attempt is not None]
        published = resolve(self._folder) if trace.outputs else None
        # The output of a source belongs to every later publication.
        has_all = published is not None and published.attempt >= max(attempts, default=0)
        return published.identity.name if published is not None and has_all else ""

    def _list_sources(self) -> tuple[dict[str, Source], str]:
        """Return the current sources by key, and why they can't be listed, or an empty text."""
        found: dict[str, Source] = {}
        try:
            listing = open_listing(self._plan, self._volume)
            while not listing.is_ended:
                found.update((each.key, each) for each in listing.draw_sources(_DRAWN))
        except (StrandlineError, SpecError) as error:
            return {}, f"the sources can't be listed now: {error}"
        return found, ""

    def _locate(
        self,
        sources: Collection[Source],
        stages: Sequence[StagePlan],
        followers: Sequence[RowFollower],
    ) -> None:
        """Run sources through stages until all rows are found; see `Locate`."""
        replayed = list_replayed(self._plan, None)[: len(stages)]
        self._replay(replayed, sources, followers, lambda: all(each.sources for each in followers))

    def _follow(
        self, facts: Sequence[SourceFacts], followers: Sequence[RowFollower]
    ) -> dict[str, str]:
        """Run sources through all stages that have not changed. Return failures by source."""
        by_stage: dict[str | None, list[Source]] = {}
        for each in facts:
            if each.source is not None:
                by_stage.setdefault(each.until, []).append(each.source)
        failures: dict[str, str] = {}
        for until, sources in by_stage.items():
            stages = list_replayed(self._plan, until)
            failures |= self._replay(stages, sources, followers, bool)
        return failures

    def _replay(
        self,
        stages: Sequence[StagePlan],
        sources: Collection[Source],
        followers: Sequence[RowFollower],
        must_stop: Callable[[], bool],
    ) -> dict[str, str]:
        observe = make_observer(followers)
        return replay(self._plan, stages, sources, self._folder.path, observe, must_stop)
