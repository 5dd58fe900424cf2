"""Converts answers into columns, and missing answers into failed rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from strandline.data.tables.columns import set_column
from strandline.plan.task import FailedRow, Slot, Task
from strandline_packs.models.asking.answers import Endpoint, ModelAnswer, RowFault
from strandline_packs.models.asking.parameters import AskParams
from strandline_packs.models.asking.questions.schemas import OWN_COLUMNS, AnswerSchema


@dataclass(slots=True)
class RowOutcomes:
    """Outcomes of a task's rows. A row is answered, failed, or dropped.

    Attributes:
        answers, faults: outcomes by row index.
        dropped: indices of the dropped rows.
    """

    answers: dict[int, ModelAnswer] = field(default_factory=dict)
    faults: dict[int, RowFault] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)

    def add(self, row: int, outcome: ModelAnswer | RowFault | None) -> None:
        """Record the outcome of a row; None drops the row."""
        if outcome is None:
            self.dropped.add(row)
        elif isinstance(outcome, RowFault):
            self.faults[row] = outcome
        else:
            self.answers[row] = outcome

    def count(self, drop_reason: str) -> Iterator[tuple[str, int]]:
        """Yield the stage's counters by name."""
        answers = self.answers.values()
        yield "answers", len(answers)
        yield "prompt tokens", sum(each.prompt_tokens for each in answers)
        yield "completion tokens", sum(each.completion_tokens for each in answers)
        for kind, number in Counter(fault.kind for fault in self.faults.values()).items():
            yield f"failed: {kind}", number
        if self.dropped:
            yield f"dropped: {drop_reason}", len(self.dropped)


class ResultBuilder:
    """Builds the output tasks of the stage.

    Args:
        params: parameters of the stage.
        schema: schema of answers; None if any text is valid.
        hide: removes secrets from a text.
    """

    def __init__(
        self, params: AskParams, schema: AnswerSchema | None, hide: Callable[[str], str]
    ) -> None:
        self._params, self._schema, self._hide = params, schema, hide

    def check(self, outcome: ModelAnswer | RowFault) -> ModelAnswer | RowFault:
        """Return an answer, or its fault if the column can't hold the embedding."""
        size = self._params.vector_size
        if size is None or isinstance(outcome, RowFault) or outcome.vector is None:
            return outcome
        if len(outcome.vector) == size:
            return outcome
        what = f"the embedding has {len(outcome.vector)} values, and `vectorSize` is {size}"
        return RowFault("malformed", what)

    def build(self, task: Task, outcomes: RowOutcomes) -> Task | list[Slot] | None:
        """Return the task with its answers, and the failed rows."""
        rows = sorted(outcomes.answers)
        table = task.table.take(pa.array(rows, pa.int64()))
        answered = task.replace(self._add_columns(table, [outcomes.answers[row] for row in rows]))
        failures = [self._mark(row, fault) for row, fault in sorted(outcomes.faults.items())]
        # A task without rows passes unchanged; if all rows failed, nothing is left to pass on.
        is_left = bool(rows) or not task.num_rows
        if failures:
            return [*([answered] if is_left else []), *failures]
        return answered if is_left else None

    def _mark(self, row: int, fault: RowFault) -> FailedRow:
        return FailedRow(row, self._hide(fault.message), self._hide(fault.answer))

    def _add_columns(self, table: pa.Table, answers: list[ModelAnswer]) -> pa.Table:
        for name, (values, kind) in self._list_values(answers).items():
            table = set_column(table, name, values, kind)
        if self._schema is not None:
            for name, column in self._schema.build_columns([each.text for each in answers]):
                table = set_column(table, name, column, column.type)
        return table

    def _list_values(
        self, answers: list[ModelAnswer]
    ) -> Mapping[str, tuple[list[object], pa.DataType]]:
        into = self._params.into
        finish, prompt, completion = (f"{into}_{name}" for name in OWN_COLUMNS)
        if self._params.endpoint is Endpoint.EMBEDDINGS:
            size = self._params.vector_size or -1  # -1 is a list of any size
            vectors = pa.list_(pa.float32(), size)
            answer: tuple[list[object], pa.DataType] = [each.vector for each in answers], vectors
        else:
            answer = [each.text for each in answers], pa.string()
        return {
            into: answer,
            finish: ([each.finish for each in answers], pa.string()),
            prompt: ([each.prompt_tokens for each in answers], pa.int64()),
            completion: ([each.completion_tokens for each in answers], pa.int64()),
        }


def list_columns(params: AskParams) -> tuple[str, ...]:
    """Return the columns that the stage adds."""
    schema, into = params.read_schema(), params.into
    properties = () if schema is None else schema.columns
    return (into, *(f"{into}_{name}" for name in OWN_COLUMNS), *properties)
