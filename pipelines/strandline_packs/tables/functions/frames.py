"""Converts tables to the data frames of other libraries, and back."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pyarrow as pa

from strandline.plan.packages import load_module


class Frame(StrEnum):
    """The library whose tables a function takes and returns."""

    ARROW = "arrow"
    PANDAS = "pandas"
    POLARS = "polars"


_CLASSES = {Frame.ARROW: "Table", Frame.PANDAS: "DataFrame", Frame.POLARS: "DataFrame"}


def to_frame(table: pa.Table, frame: Frame) -> Any:  # noqa: ANN401 - a table of any library
    """Return the table as a table of another library.

    pandas gets Arrow's types: whole numbers with nulls stay whole.

    Raises:
        ImportError: the library is not installed.
    """
    match frame:
        case Frame.ARROW:
            return table
        case Frame.PANDAS:
            return table.to_pandas(types_mapper=load_module("pandas").ArrowDtype)
        case Frame.POLARS:
            return load_module("polars").from_arrow(table)


def from_frame(made: object, frame: Frame, name: str) -> pa.Table:
    """Return the result of a function as a table.

    Args:
        name: name of the function, for the message.

    Raises:
        TypeError: the result is not a table of the library.
    """
    module = "pyarrow" if frame is Frame.ARROW else frame.value
    kind = getattr(load_module(module), _CLASSES[frame])
    if not isinstance(made, kind):
        msg = f"`{name}` returned {type(made).__name__}, not {module}.{kind.__name__} or None"
        raise TypeError(msg)
    if frame is Frame.ARROW:
        return made
    table = (
        pa.Table.from_pandas(made, preserve_index=False) if frame is Frame.PANDAS else _arrow(made)
    )
    return table.replace_schema_metadata(None)


def _arrow(made: Any) -> pa.Table:  # noqa: ANN401 - a frame of Polars
    table = made.to_arrow(compat_level=load_module("polars").CompatLevel.oldest())
    return table.cast(pa.schema([(field.name, _shrink(field.type)) for field in table.schema]))


def _shrink(kind: pa.DataType) -> pa.DataType:
    """Return a type with offsets of 32 bits, as the tables of other stages have."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(_shrink(kind.value_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([(field.name, _shrink(field.type)) for field in fields])
    return kind
