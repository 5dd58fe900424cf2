"""State of a table before a push, and the check that it accepts the columns of a data set.

A push asks it of the data set's own columns, a run before any work of what its stages declare. It
must not know any format of tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.data.files.opening import open_binary
from strandline.data.shipments.contents import Contents
from strandline.data.shipments.shipment import Author, Shipment, TargetRefusedError, require_ours
from strandline.data.tables.schemas import describe_column, list_differing, simplify
from strandline.plan.stages.columns import Columns

FINGERPRINT = "strandline.fingerprint"


class TableState(NamedTuple):
    """A table that is there.

    Attributes:
        name: as a sentence has it.
        properties: of the last commit of ours; None: there is none.
        schema: its columns, simple.
        former: its columns as that commit left them, simple; None: unknown.
        hindrances: what it asks of files that a push can't keep, each a clause.
    """

    name: str
    properties: Mapping[str, object] | None
    schema: pa.Schema
    former: pa.Schema | None = None
    hindrances: tuple[str, ...] = ()


def require_fit(
    state: TableState, author: Author, columns: Columns, fingerprint: str | None = None
) -> None:
    """Refuse a table that can't take what a pipeline makes.

    Args:
        author: see `require_ours`.
        columns: of the rows that are to be pushed.
        fingerprint: of the pipeline, where the types of its columns are not known yet: one with
            the same makes the same.

    Raises:
        TargetRefusedError: it can't.
    """
    require_ours(state.name, author, state.properties)
    _refuse_altered(state, columns, fingerprint)
    for name in columns.list_missing(state.schema.names):
        raise TargetRefusedError(
            f"{state.name}: the table has a column {name!r}, and the columns of the pipeline are: "
            f"{columns}; name another table"
        )
    for hindrance in state.hindrances:
        raise TargetRefusedError(f"{state.name}: {hindrance}; name another table")


def _refuse_altered(state: TableState, columns: Columns, fingerprint: str | None) -> None:
    """Refuse a table in which a column that is about to be pushed was changed meanwhile."""
    if state.former is None or state.properties is None:
        return
    is_same = state.properties.get(FINGERPRINT) == fingerprint
    for name in list_differing(state.former, state.schema):
        # A column that is to come may replace one that went; only the same recipe tells its type.
        is_made = name in columns.names or (columns.is_open and is_same)
        if name not in state.former.names or not is_made:
            continue
        if name not in state.schema.names:
            raise TargetRefusedError(
                f"{state.name}: somebody has dropped or renamed the column {name!r} since the last "
                "push; name another table"
            )
        if is_same:
            kinds = (describe_column(each, name) for each in (state.former, state.schema))
            raise TargetRefusedError(
                f"{state.name}: somebody has made the column {name!r} {' into '.join(kinds)} since "
                "the last push; name another table"
            )


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
