"""Assembles the trace of a row in a pipeline from the calls, the ledger, and the output.

The stages' present results are compared with the records of the run: contradictions become notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from strandline.ledger.records.entries import SourceRecord
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stages.ends import SharingSink
from strandline.plan.token import digest_key
from strandline.run.trace.follower import RowFollower
from strandline.run.trace.output_rows import OutputKeys, find_rows, read_letters
from strandline.run.trace.replay import list_replayed
from strandline.run.trace.source_records import SourceFacts
from strandline.run.trace.steps import (
    Decision,
    OutputRow,
    PipelineTrace,
    RowName,
    Step,
    merge_steps,
)
from strandline.storage.outputs.names import name_output

_CHANGED = "the stage has changed since attempt {}, so its decision is unknown"
_ASKED = "the stage sends requests and can't repeat its answers, so its decision is unknown"
_NO_ROW = "its files are read, but no stage passes on a row with its key"
_UNWRITTEN = "the stages pass the row on now, but the output does not have it"
_WRITTEN = "the output has the row, but the stages do not pass it on now"
_UNCOUNTED = "the run has counted no row of the source that {!r} dropped as {!r}"


@dataclass(slots=True)
class TraceAssembly:
    """Assembles traces of rows in one pipeline.

    Attributes:
        plan: the pipeline.
        store: the ledger.
        output_keys: keys in the output.
    """

    plan: PipelinePlan
    store: Store
    output_keys: OutputKeys

    def add_row(
        self, follower: RowFollower, facts: Sequence[SourceFacts], trace: PipelineTrace
    ) -> None:
        """Add what is known about a row.

        Args:
            follower: the calls that had the row.
            facts: the sources that may have the row.

        Raises:
            OSError: if a file of the output can't be read.
        """
        steps = list(follower.steps)
        for each in facts:
            outputs = list(self._find_outputs(each, follower))
            is_read = digest_key(each.traced.key) in follower.sources
            letters = [] if is_read else list(self._read_letters(each, follower.name))
            if is_read or outputs or letters:
                trace.sources.append(each.traced)
                trace.outputs += outputs
                steps += letters
            elif each.source is None:
                trace.skipped.append(each.traced)
        trace.notes += self.output_keys.problems
        if facts and not trace.sources and not trace.skipped:
            trace.notes.append(_NO_ROW)
        end = self._find_end(follower, facts)
        order = [self.plan.source.name, *(stage.name for stage in self.plan.stages)]
        trace.steps = merge_steps([*steps, *([end] if end else [])], order)
        if follower.sources:
            trace.notes += self._compare(follower, facts, trace, is_whole=end is None)

    def add_source(self, facts: SourceFacts, trace: PipelineTrace) -> None:
        """Add what the ledger has recorded about a source: files and dropped rows."""
        trace.sources.append(facts.traced)
        if facts.record is None:
            return
        digest, record = digest_key(facts.traced.key), facts.record
        trace.outputs += [OutputRow(name_output(digest, each), None) for each in record.data]
        for change in record.changes:
            for reason, rows in change.reasons:
                trace.steps.append(Step(change.stage, Decision.DROPPED, rows, reason=reason))
        for stage, rows in record.count_dead().items():
            trace.steps.append(Step(stage, Decision.DEAD_LETTER, rows))

    def _find_outputs(self, facts: SourceFacts, follower: RowFollower) -> Iterator[OutputRow]:
        if facts.record is None:
            return
        ends: dict[bytes, list[int]] = {}
        for token, index in follower.ends:
            ends.setdefault(token, []).append(index)
        is_ordered = isinstance(self.plan.sink, SharingSink)
        digest, outputs = digest_key(facts.traced.key), facts.record.data
        keys = follower.name.keys
        yield from find_rows(self.output_keys, digest, outputs, keys, ends, is_ordered=is_ordered)

    def _read_letters(self, facts: SourceFacts, name: RowName) -> Iterator[Step]:
        if facts.record is not None and facts.record.count_dead():
            location, digest = self.output_keys.location, digest_key(facts.traced.key)
            yield from read_letters(self.store, location, digest, name)

    def _find_end(self, follower: RowFollower, facts: Sequence[SourceFacts]) -> Step | None:
        """Return a step for the stage that could not run again, if the row reaches the stage."""
        if not follower.ends:
            return None
        own = [each for each in facts if digest_key(each.traced.key) in follower.sources]
        for each in own:
            stages = list_replayed(self.plan, each.until)
            if len(stages) == len(self.plan.stages) - 1:
                continue
            stage = self.plan.stages[len(stages)].name
            is_changed = stage == each.until
            reason = _CHANGED.format(each.traced.attempt) if is_changed else _ASKED
            return Step(stage, Decision.UNKNOWN, len(follower.ends), reason=reason)
        return None

    def _compare(
        self,
        follower: RowFollower,
        facts: Sequence[SourceFacts],
        trace: PipelineTrace,
        *,
        is_whole: bool,
    ) -> Iterator[str]:
        """Yield contradictions between the stages now and the records of the run."""
        own = [each for each in facts if digest_key(each.traced.key) in follower.sources]
        records = [each.record for each in own if each.record is not None]
        is_unknown = any(step.decision is Decision.UNKNOWN for step in trace.steps)
        if len(records) < len(own) or not is_whole or is_unknown:
            return
        if follower.ends and not trace.outputs:
            yield _UNWRITTEN
        if trace.outputs and not follower.ends:
            yield _WRITTEN
        for step in trace.steps:
            is_counted = step.decision is Decision.DROPPED and not step.reason.startswith("error:")
            if is_counted and not any(_has_counted(record, step) for record in records):
                yield _UNCOUNTED.format(step.stage, step.reason)


def _has_counted(record: SourceRecord, step: Step) -> bool:
    changes = (each for each in record.changes if each.stage == step.stage)
    return any(reason == step.reason for each in changes for reason, _ in each.reasons)
