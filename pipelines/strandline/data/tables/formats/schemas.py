"""The one schema of the files that go into a table, and how a table's own may follow it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.data.files.opening import open_binary
from strandline.data.shipments.contents import Contents
from strandline.data.shipments.errors import TargetRefusedError
from strandline.data.shipments.shipment import Shipment
from strandline.data.tables.schemas import describe_column, list_differing, simplify


def read_schema(shipment: Shipment, contents: Contents) -> pa.Schema:
    """Return the columns of all files; those that a file lacks are null there.

    Raises:
        TargetRefusedError: a column has two types.
    """
    columns: dict[str, tuple[str, pa.Field]] = {}
    for file in shipment.files:
        with open_binary(f"{contents.location}/{file.name}") as opened:
            schema = simplify(pq.read_schema(opened))
        for field in schema:
            name, known = columns.setdefault(field.name, (file.name, field))
            _refuse_types(name, pa.schema([known]), file.name, pa.schema([field]))
            if pa.types.is_null(known.type):
                columns[field.name] = (file.name, field)  # null is of every type
    return pa.schema([field for _, field in columns.values()])


def find_new_columns(name: str, table: pa.Schema, schema: pa.Schema) -> pa.Schema:
    """Return the columns that a table gets; what it has of rows is null there.

    Args:
        name: of the table.
        table, schema: what the table has, and what the data set has.

    Raises:
        TargetRefusedError: the table has a column of another type, or one more.
    """
    known = pa.schema([field for field in schema if field.name in table.names])
    _refuse_types(name, table, "the data set", known)
    return pa.schema([field for field in schema if field.name not in table.names])


def _refuse_types(name: str, schema: pa.Schema, other_name: str, other: pa.Schema) -> None:
    column = next(iter(list_differing(schema, other)), None)
    if column is not None:
        kinds = " and ".join(
            f"{describe_column(each, column)} in {file_name}"
            for file_name, each in ((name, schema), (other_name, other))
        )
        raise TargetRefusedError(
            f"the column {column!r} is {kinds}, and a table has one schema; give the reader a "
            "`schema`, or name another table"
        )
