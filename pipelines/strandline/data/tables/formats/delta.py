"""Delta tables, through `deltalake`: inspects tables, reads versions, and commits data sets.

A commit adds and removes files, and records the run in its metadata. When a version is read,
partition values and later columns are filled in. Tables with deletion vectors or column mapping are
rejected, because ignoring these features would restore or lose rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, DeltaProtocolError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from strandline.data.shipments.shipment import REVISION, PushResult, Shipment, require_ours
from strandline.data.shipments.target_files import open_target
from strandline.data.tables.formats.changes import (
    TableChanges,
    TablePush,
    describe_difference,
    find_changes,
)
from strandline.data.tables.formats.column_types import COMMON, ColumnRules, require_columns
from strandline.data.tables.formats.registry import TableError, VersionFile
from strandline.data.tables.formats.table_state import (
    TableState,
    find_new_columns,
    read_schema,
    require_fit,
)
from strandline.data.tables.schemas import simplify
from strandline.plan.stages.columns import Columns
from strandline.storage import faults

_CONSTRAINT = "delta.constraints."
_SETTINGS = {
    "delta.appendOnly": "the table is append-only, but a push removes files",
    "delta.enableDeletionVectors": "the table has deletion vectors, which delete rows of a file",
}
_COMPUTED = {"delta.generationExpression", "delta.invariants", "delta.identity.start"}
# Operations that do not change the rows of a table.
_KEEPING = frozenset({
    "OPTIMIZE", "VACUUM START", "VACUUM END", "FSCK", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
    "ADD COLUMN", "UPDATE TABLE METADATA",
})  # fmt: skip
COMMITS = 1000  # number of commits to search for our last push
_RULES = ColumnRules("Delta", (*COMMON, pa.types.is_null), is_case_blind=True)
_UNCHANGED = "0"
_ADVICE = "rewrite the table without that feature, as Spark's REORG TABLE … APPLY (PURGE) does"
ERRORS = (DeltaError, OSError, ValueError)


def find_difference(push: TablePush) -> str | None:
    """Describe how visible rows differ from the data set, or return None if they match."""
    sizes = _list_files(DeltaTable(push.name))
    return describe_difference(push.shipment, sizes, sum(file.rows for file in sizes.values()))


def commit(push: TablePush, *, is_forced: bool) -> PushResult:
    """Make a Delta table contain exactly the data set. Create the table if it is missing."""
    shipment, contents, location, clock, fence = push
    table = _open(location)
    state = None if table is None else _read_state(location, table)
    if state is not None:
        require_ours(location, shipment.author, state.properties)
        # An earlier commit may have succeeded although its response was lost.
        if not is_forced and _has(table, state, shipment.revision):
            return PushResult(location, shipment.revision, is_new=False, files=0)
    schema = read_schema(shipment, contents)
    require_columns(location, _RULES, schema)
    new = pa.schema([])
    if state is not None:
        new = find_new_columns(location, _to_delta(state.schema), _to_delta(schema))
        require_fit(state, shipment.author, Columns(tuple(schema.names)))
    changes = find_changes(shipment, () if table is None else _list_files(table))
    target = open_target(location)
    sizes = dict(target.list_sizes(""))
    for name, file in changes.added.items():
        # Skip files that a killed push has already copied. Names contain a digest, so a file with
        # the same name and size is equal.
        if sizes.get(name) != file.size:
            target.put(name, contents.read(file))
    faults.reach("push.uploaded")
    # Check the lease as late as possible: the upload may have lasted longer than the lease.
    fence()
    if table is not None and new.names:
        # Delta's library can add new columns only in a separate commit, which changes no rows.
        table.alter.add_columns(list(Schema.from_arrow(new).fields))
        faults.reach("push.widened")
    _commit(shipment, location, table, schema, _make_actions(changes, table, int(clock() * 1000)))
    faults.reach("push.committed")
    return PushResult(location, shipment.revision, is_new=True, files=len(changes.added))


def _has(table: DeltaTable | None, state: TableState, revision: str) -> bool:
    """Return True if readers see a revision: no commit after it has changed rows."""
    if table is None or not state.properties or state.properties[REVISION] != revision:
        return False
    # The history begins with the newest commit.
    later = takewhile(lambda commit: REVISION not in commit, table.history(COMMITS))
    return all(commit.get("operation") in _KEEPING for commit in later)


def inspect(location: str) -> TableState | None:
    """Return the state of a table, or None if the table is missing.

    Raises:
        DeltaError: if the table can't be read.
    """
    table = _open(location)
    return None if table is None else _read_state(location, table)


def _open(location: str) -> DeltaTable | None:
    return DeltaTable(location) if DeltaTable.is_deltatable(location) else None


def _read_state(location: str, table: DeltaTable) -> TableState:
    last, former = _find_last(table), None
    if last is not None:
        # If the log of that version was cleaned up, the version can't be opened, and its columns
        # stay unknown.
        with suppress(DeltaError):
            former = _read_columns(DeltaTable(location, version=last["version"]))
    return TableState(location, last, _read_columns(table), former, tuple(_list_hindrances(table)))


def _read_columns(table: DeltaTable) -> pa.Schema:
    return simplify(pa.schema(table.schema().to_arrow()))


def _list_hindrances(table: DeltaTable) -> Iterator[str]:
    """Yield reasons why unchanged files can't be added: features that Delta's library ignores."""
    about = table.metadata()
    if about.partition_columns:
        yield (
            f"the table is partitioned by {about.partition_columns[0]!r}, but the files of a run "
            "are not"
        )
    if about.configuration.get("delta.columnMapping.mode", "none") != "none":
        yield "the table maps columns to other names, but the files of a run use the original names"
    for setting, clause in _SETTINGS.items():
        if about.configuration.get(setting) == "true":
            yield clause
    for name in about.configuration:
        if name.startswith(_CONSTRAINT):
            yield (
                f"the table has the constraint {name.removeprefix(_CONSTRAINT)!r}, which a push "
                "does not check"
            )
    for field in table.schema().fields:
        if not field.nullable:
            yield f"the table forbids nulls in {field.name!r}, which a push does not check"
        if not _COMPUTED.isdisjoint(field.metadata):
            yield f"the table has a rule for {field.name!r}, which a push does not apply"


def _to_delta(schema: pa.Schema) -> pa.Schema:
    """Convert a schema to Delta's types and back. Some Arrow types become the same Delta type."""
    return simplify(pa.schema(Schema.from_arrow(schema).to_arrow()))


def _find_last(table: DeltaTable) -> dict[str, Any] | None:
    """Return the metadata of our last commit, or None if there is none."""
    return next((commit for commit in table.history(COMMITS) if REVISION in commit), None)


class _TableFile(NamedTuple):
    """Size in bytes and number of rows of a table's file."""

    size: int
    rows: int


def _list_files(table: DeltaTable) -> dict[str, _TableFile]:
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = [actions.column(name).to_pylist() for name in ("path", "size_bytes", "num_records")]
    # Other writers may omit the number of rows.
    return {path: _TableFile(size, rows or 0) for path, size, rows in zip(*columns, strict=True)}


def _make_actions(
    changes: TableChanges, table: DeltaTable | None, time: int
) -> list[AddAction | RemoveAction]:
    added = [
        AddAction(name, file.size, {}, time, True, json.dumps({"numRecords": file.rows}))  # noqa: FBT003
        for name, file in changes.added.items()
    ]
    files = {} if table is None else _list_files(table)
    removed = [
        RemoveAction(path=name, deletion_timestamp=time, data_change=True, size=files[name].size)
        for name in sorted(changes.removed)
    ]
    return [*added, *removed]


def _commit(
    shipment: Shipment,
    location: str,
    table: DeltaTable | None,
    schema: pa.Schema,
    actions: list[AddAction | RemoveAction],
) -> None:
    properties = CommitProperties(custom_metadata=dict(shipment.properties))
    delta = Schema.from_arrow(schema)
    if table is None:
        added = [action for action in actions if isinstance(action, AddAction)]
        create_table_with_add_actions(location, delta, added, commit_properties=properties)
        return
    # Use the mode `append`, because the actions list every removed file. The mode `overwrite` would
    # also remove all other files.
    table.create_write_transaction(actions, "append", delta, commit_properties=properties)


class DeltaSnapshot:
    """A Delta table at a version.

    Args:
        location: folder or URL.
        number: number of the version, or None for the current version.

    Raises:
        TableError: if the table or version is missing, or uses unsupported features.
    """

    def __init__(self, location: str, number: int | None) -> None:
        try:
            self._table = DeltaTable(location, version=number)
            dataset = self._table.to_pyarrow_dataset()
        except DeltaProtocolError as error:
            what = " ".join(str(error).split())
            raise TableError(f"{location}: {what}; {_ADVICE}") from error
        except DeltaError as error:
            what = " ".join(str(error).split())
            raise TableError(f"{location}: there is no readable Delta table ({what})") from error
        self.number: int | None = self._table.version()
        self.schema: pa.Schema = dataset.schema
        self._fragments = {fragment.path: fragment for fragment in dataset.get_fragments()}

    def list_files(self) -> Iterator[VersionFile]:
        """Yield the data files. Delta's protocol forbids a name to be reused for other rows."""
        for path in self._fragments:
            yield VersionFile(path, _UNCHANGED)

    def read(self, name: str, columns: Sequence[str] | None, most_rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a data file; see `TableSnapshot`."""
        fragment = self._fragments[name]
        chosen = list(self.schema.names if columns is None else columns)
        for batch in fragment.to_batches(schema=self.schema, columns=chosen, batch_size=most_rows):
            yield pa.Table.from_batches([batch])


open_version = DeltaSnapshot
