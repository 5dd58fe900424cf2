"""`use: data_juicer:words_num_filter`: runs a filter or mapper of Data-Juicer as a stage.

The operator comes from the installed package. The module relies on the common interface of
operators, and must not depend on any particular operator.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import find_column, keep_rows, list_strings, set_column
from strandline.plan.packages import explain_import
from strandline.plan.stages.registry import UnknownStageError
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.text.filters.adapters.brought_params import (
    BroughtParams,
    check_refused,
    check_signature,
)
from strandline_packs.text.filters.adapters.brought_stage import BroughtStage, create_class

PACKAGE = "data_juicer"
_LIBRARY = "Data-Juicer"
_REFUSED = {
    "text_key": "is set by the stage; use `column` instead",
    "skip_op_error": "would silently drop rows that fail; leave it out",
    "stats_export_path": "writes its own files, which the ledger does not record; leave it out",
}
# Prevents Data-Juicer from installing missing packages in their current versions at run time.
_INSTALL_NOTHING = {"UV_OFFLINE": "1", "UV_NO_CACHE": "1", "PIP_NO_INDEX": "1"}

Samples = dict[str, list[Any]]


class DataJuicerOp(BroughtStage):
    """Runs an operator of Data-Juicer on samples, which are rows with all their columns.

    Changed and added values become columns of the output. A mapper may return more or fewer
    samples.
    """

    class Params(BroughtParams):
        """Also accepts the operator's own parameters, by their names or in camelCase."""

        column: str | None = Field(
            default="text",
            min_length=1,
            description="Column with the text; `null` for operators that read no text.",
        )
        keep_stats: bool = Field(
            default=False,
            description="Add a filter's measurements as columns, named as in Data-Juicer.",
        )

        @property
        def op_values(self) -> dict[str, Any]:
            """Parameters to create the operator with."""
            named = {} if self.column is None else {"text_key": self.column}
            return self.values | named

    params: Params
    packages: ClassVar[tuple[str, ...]] = (PACKAGE,)

    def list_needed_columns(self) -> tuple[str, ...]:
        return () if self.params.column is None else (self.params.column,)

    def setup(self) -> None:
        """Create the operator.

        Raises:
            ImportError: a package of the operator is not installed.
            UnknownStageError: Data-Juicer can't be imported.
        """
        op_class = find_op(self.step_name)
        self._fields = importlib.import_module("data_juicer.utils.constant").Fields
        self._is_filter = issubclass(op_class, _load_base().Filter)
        with _installing_nothing():
            self._op = op_class(**self.params.op_values)

    def process(self, task: Task) -> Task | None:
        """Run the operator on the rows, and drop and count the rows that it rejects.

        Raises:
            MissingColumnError: the column is missing.
            TypeError: the column has no text.
        """
        for name in self.list_needed_columns():
            find_column(task.table, name)
        if not task.table.num_rows:
            return task
        samples = self._list_samples(task.table)
        # Operators expect two dictionaries in each sample: for measures, and for notes.
        for name in self._own_names:
            samples.setdefault(name, [{} for _ in range(task.table.num_rows)])
        with _installing_nothing():
            return (self._filter if self._is_filter else self._map)(task, samples)

    @property
    def _own_names(self) -> tuple[str, str]:
        return self._fields.stats, self._fields.meta

    def _filter(self, task: Task, samples: Samples) -> Task | None:
        if self._op.is_batched_op():
            samples = self._op.compute_stats_batched(samples)
            mask = [bool(is_kept) for is_kept in self._op.process_batched(samples)]
        else:
            rows = [self._op.compute_stats_single(row) for row in _list_rows(samples)]
            mask = [bool(self._op.process_single(row)) for row in rows]
            samples = _list_columns(rows)
        self._count_dropped(mask.count(False))
        stats, meta = self._own_names
        table = _add_notes(task.table, samples[meta])
        table = _add_notes(table, samples[stats]) if self.params.keep_stats else table
        return keep_rows(task, table, mask)

    def _map(self, task: Task, samples: Samples) -> Task | None:
        if self._op.is_batched_op():
            answer = dict(self._op.process_batched(samples))
        else:
            answer = _list_columns([self._op.process_single(row) for row in _list_rows(samples)])
        notes = answer.get(self._fields.meta, [])
        for name in self._own_names:
            if name not in task.table.column_names:
                answer.pop(name, None)
        count = len(next(iter(answer.values()), []))
        self._count_dropped(task.table.num_rows - count)
        before = self._list_samples(task.table)
        # If the number of samples is unchanged, keep the columns that the answer lacks, as
        # Data-Juicer does.
        after = before | answer if count == task.table.num_rows else answer
        table = _write_back(task.table, before, after)
        return task.replace(_add_notes(table, notes)) if count else None

    def _count_dropped(self, number: int) -> None:
        if number > 0:
            self.count(f"dropped: {self.step_name}", number)

    def _list_samples(self, table: pa.Table) -> Samples:
        """Return all columns as new objects, because operators change their input."""
        samples: Samples = table.to_pydict()
        texts = {name: list_strings(table, name) for name in self.list_needed_columns()}
        return samples | texts


@contextmanager
def _installing_nothing() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _INSTALL_NOTHING}
    os.environ.update(_INSTALL_NOTHING)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _list_rows(samples: Samples) -> Iterator[dict[str, Any]]:
    for values in zip(*samples.values(), strict=True):
        yield dict(zip(samples, values, strict=True))


def _list_columns(rows: list[dict[str, Any]]) -> Samples:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _write_back(table: pa.Table, before: Samples, after: Samples) -> pa.Table:
    """Return a table of the answer. Unchanged columns keep their bytes."""
    kinds = {field.name: field.type for field in table.schema}
    columns = {
        name: table.column(name)
        if values == before.get(name)
        else pa.array(values, kinds.get(name))
        for name, values in after.items()
    }
    return pa.table(columns)


def _add_notes(table: pa.Table, notes: Iterable[dict[str, Any]]) -> pa.Table:
    """Return the table with a column for each name in the samples' dictionaries."""
    for name, values in _list_columns(list(notes)).items():
        column = pa.array(values)
        table = set_column(table, name, column, column.type)
    return table


def adapt_op(name: str) -> type[Stage]:
    """Create a stage class for an operator.

    If Data-Juicer is not installed, the name is not checked here. The check for packages reports
    the missing package later.

    Raises:
        UnknownStageError: Data-Juicer has no such filter or mapper, or can't be imported.
    """
    op_class = find_op(name) if find_spec(PACKAGE) is not None else None

    def check(params: DataJuicerOp.Params) -> None:
        check_refused(params.values, _REFUSED)
        if op_class is not None:
            check_values(op_class, params.op_values)

    return create_class(DataJuicerOp, f"{_LIBRARY}'s {name}", adapt_op, name, check)


def find_op(name: str) -> Any:  # noqa: ANN401 - a class of Data-Juicer's
    """Return a filter or mapper by its registered name, or by its class name.

    Raises:
        UnknownStageError: the operator is unknown, or Data-Juicer can't be imported.
    """
    base = _load_base()
    known = {
        key: op_class
        for key, op_class in base.OPERATORS.modules.items()
        # Exclude deduplicators that are filters: they share state and cannot be resumed.
        if issubclass(op_class, base.Filter | base.Mapper) and not key.endswith("deduplicator")
    }
    classes = {op_class.__name__: op_class for op_class in known.values()}
    found = known.get(name, classes.get(name))
    if found is None:
        msg = (
            f"'{PACKAGE}:{name}': Data-Juicer has no such filter or mapper; supported names: "
            f"{', '.join(known)}"
        )
        raise UnknownStageError(msg)
    return found


def check_values(op_class: Any, values: dict[str, Any]) -> None:  # noqa: ANN401 - see above
    """Check parameters against the signature of an operator.

    Operators pass unknown parameters to their base class, which ignores most of them, so check the
    names here.

    Raises:
        ValueError: a parameter is missing or unknown.
    """
    base = getattr(op_class, "_BASE_PARAMS", None)
    known = {
        name for each in op_class.__mro__ for name in inspect.signature(each.__init__).parameters
    }
    unknown = sorted(values.keys() - known - set(base or values))
    if unknown:
        msg = f"{_LIBRARY}'s {op_class.__name__} has no parameter {unknown[0]!r}"
        raise ValueError(msg)
    check_signature(_LIBRARY, op_class, values)


def _load_base() -> Any:  # noqa: ANN401 - a module
    """Import all operators, which takes seconds, and return the module of their base classes."""
    try:
        importlib.import_module("data_juicer.ops")
        return importlib.import_module("data_juicer.ops.base_op")
    except Exception as error:  # the import can raise any error
        what = explain_import(error) if isinstance(error, ImportError) else str(error)
        msg = f"{_LIBRARY} can't be imported: {what}"
        raise UnknownStageError(msg) from error
