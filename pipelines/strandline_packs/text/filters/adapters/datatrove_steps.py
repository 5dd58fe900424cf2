"""`use: datatrove:GopherQualityFilter`: runs a filter or formatter of datatrove as a stage.

The step comes from the installed package. The module relies on the common interface of steps, and
must not depend on any particular step.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import keep_rows, list_strings, list_texts, set_column
from strandline.plan.stages.registry import UnknownStageError
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.text.filters.adapters.brought_params import (
    BroughtParams,
    check_refused,
    check_signature,
)
from strandline_packs.text.filters.adapters.brought_stage import BroughtStage, create_class

PACKAGE = "datatrove"
_ROOMS = ("filters", "formatters")
_KINDS = {"filters": "BaseFilter", "formatters": "BaseFormatter"}
_REFUSED = {
    "exclusion_writer": "writes its own files, which the ledger does not record; leave it out",
}


class DatatroveStep(BroughtStage):
    """Runs a step of datatrove, which processes documents one at a time.

    All columns except the text are passed as metadata. Metadata that the step adds becomes columns.
    """

    class Params(BroughtParams):
        """Also accepts the step's own parameters, by their names or in camelCase."""

        column: str = Field(default="text", description="Column with the text.")
        key_column: str | None = Field(
            default=None, description="Column with the documents' ids; by default they have none."
        )

    params: Params
    packages: ClassVar[tuple[str, ...]] = (PACKAGE,)

    def list_needed_columns(self) -> tuple[str, ...]:
        key = self.params.key_column
        return (self.params.column,) if key is None else (self.params.column, key)

    def setup(self) -> None:
        """Create the step.

        Raises:
            ImportError: datatrove or a package of the step is not installed.
        """
        self._step = find_step(self.step_name)(**self.params.values)
        self._document: Any = importlib.import_module("datatrove.data").Document

    def process(self, task: Task) -> Task | None:
        """Run the step on the rows, and drop and count the rows that it rejects."""
        documents = list(self._list_documents(task.table))
        before = self._list_dropped()
        # The step returns the same objects, so identity decides which rows stay.
        kept = {id(document) for document in self._step.run(iter(documents))}
        dropped = self._list_dropped()
        reasons = {name: number - before.get(name, 0) for name, number in dropped.items()}
        for name, number in reasons.items():
            if number:
                self.count(f"dropped: {name}", number)
        # Steps may drop documents without a named reason.
        unnamed = len(documents) - len(kept) - sum(reasons.values())
        if unnamed > 0:
            self.count(f"dropped: {self.step_name}", unnamed)
        table = self._write_back(task.table, documents)
        return keep_rows(task, table, [id(document) in kept for document in documents])

    def _list_documents(self, table: pa.Table) -> Iterator[Any]:
        column, key = self.params.column, self.params.key_column
        texts = list_strings(table, column)
        keys = [""] * len(texts) if key is None else list_texts(table, key)
        others = table.drop_columns([column]).to_pylist()
        # If the table has no other columns, the result is an empty list.
        if not others:
            others = [{} for _ in texts]
        for text, name, metadata in zip(texts, keys, others, strict=True):
            yield self._document(text=text, id=name, metadata=metadata)

    def _list_dropped(self) -> dict[str, int]:
        """Return the number of dropped documents so far, by the step's reasons."""
        found = self._step.stats.stats.items()
        begin = "dropped_"
        return {
            name.removeprefix(begin): int(stat.total)
            for name, stat in found
            if name.startswith(begin)
        }

    def _write_back(self, table: pa.Table, documents: list[Any]) -> pa.Table:
        column = self.params.column
        kind = table.schema.field(column).type
        before = {name: table.column(name).to_pylist() for name in table.column_names}
        table = set_column(table, column, [document.text for document in documents], kind)
        names = dict.fromkeys(name for document in documents for name in document.metadata)
        for name in names:
            values = [document.metadata.get(name) for document in documents]
            if name not in before:
                array = pa.array(values)
                table = set_column(table, name, array, array.type)
            elif values != before[name]:
                table = set_column(table, name, values, table.schema.field(name).type)
        return table


def adapt_step(name: str) -> type[Stage]:
    """Create a stage class for a step.

    If datatrove is not installed, the name is not checked here. The check for packages reports the
    missing package later.

    Raises:
        UnknownStageError: datatrove has no such filter or formatter.
    """
    step = find_step(name) if find_spec(PACKAGE) is not None else None

    def check(params: DatatroveStep.Params) -> None:
        check_refused(params.values, _REFUSED)
        if step is not None:
            check_signature(PACKAGE, step, params.values)

    return create_class(DatatroveStep, f"datatrove's {name}", adapt_step, name, check)


def find_step(name: str) -> Any:  # noqa: ANN401 - a class of datatrove's
    """Return a filter or formatter of datatrove by its class name.

    Raises:
        ImportError: datatrove is not installed.
        UnknownStageError: datatrove has no such step.
    """
    known: list[str] = []
    for room in _ROOMS:
        module = importlib.import_module(f"datatrove.pipeline.{room}")
        kind = getattr(importlib.import_module(_locate_kind(room)), _KINDS[room])
        steps = {
            found.__name__: found
            for found in vars(module).values()
            if isinstance(found, type) and issubclass(found, kind) and found is not kind
        }
        if name in steps:
            return steps[name]
        known += steps
    msg = (
        f"'datatrove:{name}': datatrove has no such filter or formatter; supported names: "
        f"{', '.join(known)}"
    )
    raise UnknownStageError(msg)


def _locate_kind(room: str) -> str:
    return f"datatrove.pipeline.{room}.{'base_filter' if room == 'filters' else 'base'}"
