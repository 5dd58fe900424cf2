"""The one schema of the files that go into a table, or why they have none."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.run.handover.contents import Contents
from strandline.run.handover.errors import TargetRefusedError
from strandline.run.handover.shipment import Shipment
from strandline.stages.sources.opening import open_binary
from strandline.stages.tables.contents.schemas import describe_column, list_differing, simplify


def read_schema(shipment: Shipment, contents: Contents) -> pa.Schema:
    """Return the schema that all files have.

    Raises:
        TargetRefusedError: two of them have different ones.
    """
    first: tuple[str, pa.Schema] | None = None
    for file in shipment.files:
        with open_binary(f"{contents.location}/{file.name}") as opened:
            schema = simplify(pq.read_schema(opened))
        first = first or (file.name, schema)
        refuse_difference(first[0], first[1], file.name, schema)
    assert first is not None  # an empty data set was refused
    return first[1]


def refuse_difference(name: str, schema: pa.Schema, other_name: str, other: pa.Schema) -> None:
    """Refuse two schemas that are not the same.

    Raises:
        TargetRefusedError: a column differs.
    """
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
