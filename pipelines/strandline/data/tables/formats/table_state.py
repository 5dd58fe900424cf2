"""The state of a table before a push, and the check that the table accepts a data set's columns.

A push checks the data set's own columns. A run checks the columns that its stages declare, before
any work. The module must not depend on any table format.
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
    """State of an existing table.

    Attributes:
        name: name for messages.
        properties: properties of our last commit, or None if there is none.
        schema: columns of the table, simplified.
        former: columns after our last commit, simplified, or None if unknown.
        hindrances: clauses about requirements of the table that a push can't meet.
    """

    name: str
    properties: Mapping[str, object] | None
    schema: pa.Schema
    former: pa.Schema | None = None
    hindrances: tuple[str, ...] = ()


def require_fit(
    state: TableState, author: Author, columns: Columns, fingerprint: str | None = None
) -> None:
    """Raise an error if a table can't accept the output of a pipeline.

    Args:
        author: see `require_ours`.
        columns: columns of the rows to push.
        fingerprint: fingerprint of the pipeline if the types of its columns are not known yet.
            Pipelines with equal fingerprints have equal types. None if the types are known.

    Raises:
        TargetRefusedError: if the table can't accept the output.
    """
    require_ours(state.name, author, state.properties)
    _refuse_altered(state, columns, fingerprint)
    for name in columns.list_missing(state.schema.names):
        raise TargetRefusedError(
            f"{state.name}: the table has a column {name!r}, but the columns of the pipeline are: "
            f"{columns}; name another table"
        )
    for hindrance in state.hindrances:
        raise TargetRefusedError(f"{state.name}: {hindrance}; name another table")


def _refuse_altered(state: TableState, columns: Columns, fingerprint: str | None) -> None:
    """Raise an error if a column to push was changed in the table since our last commit."""
    if state.former is None or state.properties is None:
        return
    is_same = state.properties.get(FINGERPRINT) == fingerprint
    for name in list_differing(state.former, state.schema):
        # The pipeline writes the column if the column is declared. If columns are undeclared, the
        # pipeline writes the same columns as before only if the fingerprint is the same.
        is_made = name in columns.names or (columns.is_open and is_same)
        if name not in state.former.names or not is_made:
            continue
        if name not in state.schema.names:
            raise TargetRefusedError(
                f"{state.name}: another writer has dropped or renamed the column {name!r} since "
                "the last push; name another table"
            )
        if is_same:
            kinds = (describe_column(each, name) for each in (state.former, state.schema))
            raise TargetRefusedError(
                f"{state.name}: another writer has changed the column {name!r} "
                f"{' into '.join(kinds)} since the last push; name another table"
            )


def read_schema(shipment: Shipment, contents: Contents) -> pa.Schema:
    """Return the columns of all files. If a file lacks a column, its rows have null there.

    Raises:
        TargetRefusedError: if a column has two types.
    """
    columns: dict[str, tuple[str, pa.Field]] = {}
    for file in shipment.files:
        with open_binary(f"{contents.location}/{file.name}") as opened:
            schema = simplify(pq.read_schema(opened))
        for field in schema:
            # Remember the first file that has the column, for the message about a second type.
            name, known = columns.setdefault(field.name, (file.name, field))
            _refuse_types(name, pa.schema([known]), file.name, pa.schema([field]))
            if pa.types.is_null(known.type):
                columns[field.name] = (file.name, field)  # replace null, which fits every type
    return pa.schema([field for _, field in columns.values()])


def find_new_columns(name: str, table: pa.Schema, schema: pa.Schema) -> pa.Schema:
    """Return the columns to add to a table. They are null in existing rows.

    Args:
        name: name of the table.
        table, schema: columns of the table and of the data set.

    Raises:
        TargetRefusedError: if a column has another type in the table.
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
            f"the column {column!r} is {kinds}, but a table has one schema; set `schema` of the "
            "reader, or name another table"
        )
