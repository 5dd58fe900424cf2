"""Follows a row through the calls of all stages of a pipeline.

Between two stages, a row is identified by task and index. Within a stage, a row keeps the key or
the index, or becomes the rows that the stage makes of this row alone. The module must not depend on
how the calls are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from strandline.data.tables.row_filter import RowFilter
from strandline.engine.core.ports import Observe
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Receipt
from strandline.plan.stages.paid import NO_ANSWER, RecallingStage
from strandline.plan.stages.stage import Shape, Stage
from strandline.plan.task import Task, lineage_of
from strandline.run.trace.observed_call import (
    ObservedCall,
    RowLocation,
)
from strandline.run.trace.row_keys import compare_columns, index_values, read_key
from strandline.run.trace.steps import BrokenRule, Decision, RowName, Step

_NO_ANSWER = f"{NO_ANSWER}, and the stage is not asked again"
_NO_KEY = "no row of the result has a key, so the row can't be followed"


class RowFollower:
    """The history of a row, in the stages that have been called so far.

    Args:
        name: names of the row; gains the keys of rows that the row becomes.
        order: names of the stages, with the source stage first.

    Attributes:
        steps: the decisions, in the order of calls.
        sources: sources that have the row, by key digest.
        ends: the row in the sink's input: token of the task, and index.
    """

    def __init__(self, name: RowName, order: Sequence[str]) -> None:
        self.name = name
        self.steps: list[Step] = []
        self.sources: dict[bytes, None] = {}
        self.ends: list[tuple[bytes, int]] = []
        self._order = order
        # Rows in the input of a stage, by the position of the stage and the token of the task.
        self._locations: dict[tuple[int, bytes], set[int]] = {}
        self._seen: dict[bytes, int] = {}  # rows that the reader has yielded, by source

    def observe(self, call: ObservedCall) -> None:
        """Record what a call does with the row."""
        position = self._order.index(call.plan.name)
        locations = list(self._find_inputs(call, position))
        if call.plan.shape is Shape.SINK:
            tokens = [lineage_of(call.inputs[location.task]).token for location in locations]
            self.ends += [
                (token, location.row) for token, location in zip(tokens, locations, strict=True)
            ]
            return
        found = self._find_outputs(call, position)
        if not locations and not found:
            return
        keys = [self._read_key(call.inputs[location.task], location.row) for location in locations]
        has_keys = any(self.name.column in task.table.column_names for task in call.outputs)
        if not locations:
            self._note_read(call, found)
        elif has_keys and all(key in self.name.keys for key in keys):
            found = self._follow_keys(call, dict(zip(locations, keys, strict=True)), found)
        else:
            found = self._follow_indexes(call, locations)
        for at, row in found:
            token = lineage_of(call.outputs[at]).token
            self._locations.setdefault((position + 1, token), set()).add(row)

    def _find_inputs(self, call: ObservedCall, position: int) -> Iterator[RowLocation]:
        for token, start in call.starts.items():
            for row in sorted(self._locations.get((position, token), ())):
                yield start._replace(row=start.row + row)
        for at, index in enumerate(call.input_index if call.plan.is_first else ()):
            rows = [row for key in self.name.keys for row in index.get(key, ())]
            if rows:
                self.sources[lineage_of(call.inputs[at]).source] = None
                self.steps.append(Step(self._order[0], Decision.READ, len(rows), len(rows)))
            yield from (RowLocation(at, row) for row in rows)

    def _find_outputs(self, call: ObservedCall, position: int) -> list[RowLocation]:
        """Return the row in the result, by number or keys."""
        if position == 1 and self.name.number is not None:
            return list(self._find_number(call, self.name.number))
        indexes = enumerate(call.output_index)
        found = (
            RowLocation(at, row)
            for at, rows in indexes
            for key in self.name.keys
            if key in rows
            for row in rows[key]
        )
        return list(found)

    def _find_number(self, call: ObservedCall, number: int) -> Iterator[RowLocation]:
        for at, task in enumerate(call.outputs):
            source = lineage_of(task).source
            row = number - self._seen.get(source, 0)
            self._seen[source] = self._seen.get(source, 0) + task.num_rows
            if 0 <= row < task.num_rows:
                self._add_key(task.table, [row])
                yield RowLocation(at, row)

    def _read_key(self, task: Task, row: int) -> str:
        return read_key(task.table, self.name.column, row)

    def _add_key(self, table: pa.Table, rows: Iterable[int]) -> None:
        keys = (read_key(table, self.name.column, row) for row in rows)
        self.name.keys.update((key, None) for key in keys if key)

    def _note_read(self, call: ObservedCall, found: Sequence[RowLocation]) -> None:
        for at, row in found:
            task = call.outputs[at]
            self.sources[lineage_of(task).source] = None
            retained = call.plan.stage.find_retained(task.table, row)
            self.steps.append(Step(call.plan.name, Decision.READ, 1, 1, retained=retained))

    def _follow_keys(
        self, call: ObservedCall, locations: Mapping[RowLocation, str], found: list[RowLocation]
    ) -> list[RowLocation]:
        """Record the decisions about rows with keys. Return the rows in the result."""
        before: dict[str, list[RowLocation]] = {}
        after: dict[str, list[RowLocation]] = {}
        for location, key in locations.items():
            before.setdefault(key, []).append(location)
        for location in found:
            key = self._read_key(call.outputs[location.task], location.row)
            after.setdefault(key, []).append(location)
        missing: list[RowLocation] = []
        for key, rows in before.items():
            passed = after.pop(key, [])
            if len(passed) == len(rows):
                pairs = zip(rows, passed, strict=True)
                self.steps += [self._compare(call, *pair) for pair in pairs]
            elif passed:
                self.steps.append(_note_became(call, len(rows), len(passed)))
            else:
                missing += rows
        if missing and after:  # the rows were joined under another key of the row
            self.steps.append(_note_became(call, len(missing), sum(map(len, after.values()))))
            return found
        fates = [self._find_fate(call, location) for location in missing]
        self.steps += fates
        is_split = any(step.decision is Decision.BECAME for step in fates)
        return self._find_outputs(call, 0) if is_split else found

    def _follow_indexes(
        self, call: ObservedCall, locations: Sequence[RowLocation]
    ) -> list[RowLocation]:
        """Record the decisions about rows without keys. Return the rows in the result."""
        tokens = {lineage_of(task).token: at for at, task in enumerate(call.outputs)}
        found: list[RowLocation] = []
        for location in locations:
            at = tokens.get(lineage_of(call.inputs[location.task]).token)
            rows = self._list_passed(call, location)
            if at is not None and call.outputs[at].num_rows == len(rows) and location.row in rows:
                after = RowLocation(at, rows.index(location.row))
                self.steps.append(self._compare(call, location, after))
                found.append(after)
                self._add_key(call.outputs[at].table, [after.row])
                continue
            step = self._find_fate(call, location)
            is_lost = step.decision in {Decision.BECAME, Decision.ENDED}
            unknown = Step(call.plan.name, Decision.UNKNOWN, reason=_NO_KEY)
            self.steps.append(unknown if is_lost and call.outputs else step)
        return found

    def _list_passed(self, call: ObservedCall, location: RowLocation) -> list[int]:
        """Return the indexes of rows that a stage passes on, if only judged rows are dropped."""
        rows = range(call.inputs[location.task].num_rows)
        stage = call.plan.stage
        if not isinstance(stage, RowFilter) or _is_marking(stage):
            return list(rows)
        verdicts = (call.judge(location._replace(row=row)) for row in rows)
        return [
            row
            for row, verdict in enumerate(verdicts)
            if verdict is not None and verdict.reason is None
        ]

    def _compare(self, call: ObservedCall, location: RowLocation, after: RowLocation) -> Step:
        """Return the decision about a row that is passed on."""
        at, row = after
        before, stage = call.inputs[location.task].table, call.plan.stage
        changes = compare_columns(before, location.row, call.outputs[at].table, row)
        marks = _is_marking(stage) if isinstance(stage, RowFilter) else False
        verdict = call.judge(location) if marks else None
        decision = Decision.CHANGED if any(changes) else Decision.KEPT
        reason = "" if verdict is None or verdict.reason is None else verdict.reason
        request = _find_request(stage, before, location.row)
        return Step(
            call.plan.name,
            Decision.MARKED if reason else decision,
            becomes=1,
            reason=reason,
            rule=_find_rule(call, location) if reason else None,
            changed=changes.changed,
            added=changes.added,
            removed=changes.removed,
            request=request,
        )

    def _find_fate(self, call: ObservedCall, location: RowLocation) -> Step:
        """Return the decision about a row that the result does not have under the row's key."""
        stage, name = call.plan.stage, call.plan.name
        letter = self._find_letter(call, location)
        if letter is not None:
            request = _find_request(stage, call.inputs[location.task].table, location.row)
            if letter.endswith(NO_ANSWER):
                return Step(name, Decision.UNKNOWN, reason=_NO_ANSWER, request=request)
            return Step(name, Decision.DEAD_LETTER, reason=letter, request=request)
        verdict = call.judge(location)
        if verdict is not None and verdict.reason:
            table = call.inputs[location.task].table
            return Step(
                name,
                Decision.DROPPED,
                reason=verdict.reason,
                rule=_find_rule(call, location),
                retained=stage.find_retained(table, location.row),
            )
        failure = call.find_failure(location)
        if failure is not None:
            return Step(name, Decision.FAILED, reason=failure)
        if stage.mixes_rows or isinstance(stage, RecallingStage):
            return Step(name, Decision.ENDED)
        return self._try_alone(call, location)

    def _try_alone(self, call: ObservedCall, location: RowLocation) -> Step:
        alone = call.run_alone(location)
        rows = sum(table.num_rows for table in alone.tables)
        for table in alone.tables:
            self._add_key(table, range(table.num_rows))
        if rows:
            return Step(call.plan.name, Decision.BECAME, 1, rows)
        reason = alone.reason or (f"error: {alone.error}" if alone.error else "")
        decision = Decision.DROPPED if reason else Decision.ENDED
        return Step(call.plan.name, decision, reason=reason)

    def _find_letter(self, call: ObservedCall, location: RowLocation) -> str | None:
        """Return the error of a row that became a dead letter, or None."""
        key = self._read_key(call.inputs[location.task], location.row)
        for table, index in zip(call.letters, call.letter_index, strict=True):
            rows = (
                index.get(key, ())
                if key
                else index_values(table["dead_position"].to_pylist()).get(str(location.row), ())
            )
            for row in rows:
                message: str = table["dead_message"][row].as_py()
                return message
        return None


def _note_became(call: ObservedCall, rows: int, becomes: int) -> Step:
    return Step(call.plan.name, Decision.BECAME, rows, becomes)


def _find_request(stage: Stage, table: pa.Table, row: int) -> Mapping[str, Any] | None:
    return stage.find_request(table, row) if isinstance(stage, RecallingStage) else None


def _is_marking(stage: RowFilter) -> bool:
    return stage.params.mark or stage.params.reason_column is not None


def _find_rule(call: ObservedCall, location: RowLocation) -> BrokenRule | None:
    """Return the rule that gave a row its reason, or None if no limit did."""
    stage, verdict = call.plan.stage, call.judge(location)
    if not isinstance(stage, RowFilter) or verdict is None or verdict.reason is None:
        return None
    for rule in stage.list_rules():
        value = verdict.measures.get(rule.measure)
        if verdict.reason.startswith(rule.reason) and rule.breaks(value):
            return BrokenRule(rule.parameter, rule.measure, value, rule.limit, rule.is_least)
    return None


def make_observer(followers: Sequence[RowFollower]) -> Observe:
    """Return a function that shows each call to all followers, which have the same column."""

    def observe(
        plan: StagePlan, before: Sequence[Task], after: Sequence[Task], receipt: Receipt
    ) -> None:
        column = followers[0].name.column
        call = ObservedCall(plan, before, after, receipt, column)
        for each in followers:
            each.observe(call)

    return observe
