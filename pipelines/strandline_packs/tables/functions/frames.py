"""Converts tables to the data frames of other libraries, and back.

A further library needs a class, and a line in `_LIBRARIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from strandline.plan.packages import load_module


class Frame(StrEnum):
    """The library whose tables a function takes and returns."""

    ARROW = "arrow"
    DAFT = "daft"
    DATASETS = "datasets"
    PANDAS = "pandas"
    POLARS = "polars"


class FrameLibrary(NamedTuple):
    """How to make and read the tables of a library.

    Attributes:
        module: name of the library's module.
        table: name of its class of tables.
        build: returns the library's table for an Arrow table, given the module.
        read: returns the Arrow table of a library's table, given the module.
    """

    module: str
    table: str
    build: Callable[[Any, pa.Table], Any]
    read: Callable[[Any, Any], pa.Table]


def _open_dataset(datasets: Any, table: pa.Table) -> Any:  # noqa: ANN401 - of the hub's library
    datasets.disable_progress_bars()  # a bar for each task would hide the run's own lines
    return datasets.Dataset(table)


_LIBRARIES: Mapping[Frame, FrameLibrary] = MappingProxyType(
    {
        Frame.ARROW: FrameLibrary("pyarrow", "Table", lambda _, table: table, lambda _, made: made),
        Frame.DAFT: FrameLibrary(
            "daft",
            "DataFrame",
            lambda daft, table: daft.from_arrow(table),
            lambda _, made: _shrink_table(made.to_arrow()),
        ),
        Frame.DATASETS: FrameLibrary(
            "datasets",
            "Dataset",
            _open_dataset,
            # The format also applies selections, which a dataset stores as indices.
            lambda _, made: _shrink_table(made.with_format("arrow")[:]),
        ),
        # pandas gets Arrow's types: whole numbers with nulls stay whole.
        Frame.PANDAS: FrameLibrary(
            "pandas",
            "DataFrame",
            lambda pandas, table: table.to_pandas(types_mapper=pandas.ArrowDtype),
            lambda _, made: pa.Table.from_pandas(made, preserve_index=False),
        ),
        Frame.POLARS: FrameLibrary(
            "polars",
            "DataFrame",
            lambda polars, table: polars.from_arrow(table),
            lambda polars, made: _shrink_table(
                made.to_arrow(compat_level=polars.CompatLevel.oldest())
            ),
        ),
    }
)


def to_frame(table: pa.Table, frame: Frame) -> Any:  # noqa: ANN401 - a table of any library
    """Return the table as a table of another library.

    Raises:
        ImportError: the library is not installed.
    """
    library = _LIBRARIES[frame]
    return library.build(load_module(library.module), table)


def from_frame(made: object, frame: Frame, name: str) -> pa.Table:
    """Return the result of a function as a table.

    Args:
        name: name of the function, for the message.

    Raises:
        TypeError: the result is not a table of the library.
    """
    library = _LIBRARIES[frame]
    module = load_module(library.module)
    kind = getattr(module, library.table)
    if not isinstance(made, kind):
        msg = f"`{name}` returned {type(made).__name__}, not {library.module}.{kind.__name__}"
        raise TypeError(f"{msg} or None")
    table = library.read(module, made)
    return table if frame is Frame.ARROW else table.replace_schema_metadata(None)


def _shrink_table(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([(field.name, _shrink(field.type)) for field in table.schema]))


def _shrink(kind: pa.DataType) -> pa.DataType:
    """Return a type with offsets of 32 bits, as the tables of other stages have."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_shrink(kind.value_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([(field.name, _shrink(field.type)) for field in fields])
    return kind
