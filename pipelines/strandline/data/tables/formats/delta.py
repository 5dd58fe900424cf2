"""Pushes into a Delta table: one commit adds and removes files, with the run in its metadata."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import takewhile
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from strandline.data.shipments.contents import Contents
from strandline.data.shipments.errors import TargetRefusedError
from strandline.data.shipments.shipment import REVISION, PushResult, Shipment, require_ours
from strandline.data.tables.formats.changes import (
    TableChanges,
    describe_difference,
    find_changes,
    push_until_whole,
    require_tabular,
)
from strandline.data.tables.formats.column_types import DELTA as RULES
from strandline.data.tables.formats.column_types import require_columns
from strandline.data.tables.formats.schemas import find_new_columns, read_schema
from strandline.data.tables.formats.table_state import TableState, require_fit
from strandline.data.tables.schemas import simplify
from strandline.plan.stages.columns import Columns
from strandline.run.release.push.folder import open_target
from strandline.storage import faults

_CONSTRAINT = "delta.constraints."
_SETTINGS = {
    "delta.appendOnly": "no file may be removed from it",
    "delta.enableDeletionVectors": "it has deletion vectors, by which rows of a file are deleted",
}
_COMPUTED = {"delta.generationExpression", "delta.invariants", "delta.identity.start"}
# Operations after which a table has the rows of before.
_KEEPING = frozenset({
    "OPTIMIZE", "VACUUM START", "VACUUM END", "FSCK", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
    "ADD COLUMN", "UPDATE TABLE METADATA",
})  # fmt: skip
COMMITS = 1000  # looked through for the last of ours


def push_to_delta(
    shipment: Shipment,
    contents: Contents,
    location: str,
    clock: Callable[[], float],
    fence: Callable[[], None],
) -> PushResult:
    """Make a Delta table hold the data set, in one commit, unless its last one has done so.

    Args:
        location: folder or URL of the table; one that is not there is made.
        clock: wall clock, seconds since the epoch.
        fence: raises where the attempt that pushes is not the ledger's any more.

    Raises:
        UnfitForPushError: a file is missing, or has other bytes than were written.
        TargetRefusedError: the table is another's, or can't hold these columns.
        VolumeError, CredentialsRefusedError: its files can't be written.
    """
    require_tabular(shipment)

    def push(*, is_forced: bool) -> PushResult:
        return _push(shipment, contents, location, clock, fence, is_forced=is_forced)

    def find_difference() -> str | None:
        sizes = _list_files(DeltaTable(location))
        return describe_difference(shipment, sizes, sum(file.rows for file in sizes.values()))

    try:
        return push_until_whole(location, push, find_difference)
    except (DeltaError, OSError, ValueError) as error:
        what = " ".join(str(error).split())
        raise TargetRefusedError(f"{location}: the table did not take it ({what})") from error


def _push(
    shipment: Shipment,
    contents: Contents,
    location: str,
    clock: Callable[[], float],
    fence: Callable[[], None],
    *,
    is_forced: bool,
) -> PushResult:
    table = _open(location)
    state = None if table is None else _read_state(location, table)
    if state is not None:
        require_ours(location, shipment.author, state.properties)
        # A commit that was made and not heard of is there.
        if not is_forced and _has(table, state, shipment.revision):
            return PushResult(location, shipment.revision, is_new=False, files=0)
    schema = read_schema(shipment, contents)
    require_columns(location, RULES, schema)
    new = pa.schema([])
    if state is not None:
        new = find_new_columns(location, _to_delta(state.schema), _to_delta(schema))
        require_fit(state, shipment.author, Columns(tuple(schema.names)))
    changes = find_changes(shipment, () if table is None else _list_files(table))
    target = open_target(location)
    sizes = dict(target.list_sizes(""))
    for name, file in changes.added.items():
        if sizes.get(name) != file.size:
            target.put(name, contents.read(file))
    faults.reach("push.uploaded")
    fence()
    if table is not None and new.names:
        # Delta's library commits columns apart from files; no row changes by them.
        table.alter.add_columns(list(Schema.from_arrow(new).fields))
        faults.reach("push.widened")
    _commit(shipment, location, table, schema, _make_actions(changes, table, int(clock() * 1000)))
    faults.reach("push.committed")
    return PushResult(location, shipment.revision, is_new=True, files=len(changes.added))


def _has(table: DeltaTable | None, state: TableState, revision: str) -> bool:
    """Return whether readers of a table see a revision: no later commit has changed its rows."""
    if table is None or not state.properties or state.properties[REVISION] != revision:
        return False
    later = takewhile(lambda commit: REVISION not in commit, table.history(COMMITS))
    return all(commit.get("operation") in _KEEPING for commit in later)


def inspect(location: str) -> TableState | None:
    """Return what a table is; None: there is none.

    Raises:
        DeltaError: it can't be read.
    """
    table = _open(location)
    return None if table is None else _read_state(location, table)


def _open(location: str) -> DeltaTable | None:
    return DeltaTable(location) if DeltaTable.is_deltatable(location) else None


def _read_state(location: str, table: DeltaTable) -> TableState:
    last, former = _find_last(table), None
    if last is not None:
        # A version whose log was cleaned up can't be opened, and tells nothing.
        with suppress(DeltaError):
            former = _read_columns(DeltaTable(location, version=last["version"]))
    return TableState(location, last, _read_columns(table), former, tuple(_list_hindrances(table)))


def _read_columns(table: DeltaTable) -> pa.Schema:
    return simplify(pa.schema(table.schema().to_arrow()))


def _list_hindrances(table: DeltaTable) -> Iterator[str]:
    """Yield what Delta's library does not look at where files are added as they are."""
    about = table.metadata()
    if about.partition_columns:
        yield f"it is partitioned by {about.partition_columns[0]!r}, and files of a run are not"
    if about.configuration.get("delta.columnMapping.mode", "none") != "none":
        yield "it maps columns to other names, and files of a run have their own"
    for setting, clause in _SETTINGS.items():
        if about.configuration.get(setting) == "true":
            yield clause
    for name in about.configuration:
        if name.startswith(_CONSTRAINT):
            yield f"it has a constraint {name.removeprefix(_CONSTRAINT)!r}, which no push checks"
    for field in table.schema().fields:
        if not field.nullable:
            yield f"its column {field.name!r} must not be null, which no push checks"
        if not _COMPUTED.isdisjoint(field.metadata):
            yield f"its column {field.name!r} has a rule of its own, which no push keeps"


def _to_delta(schema: pa.Schema) -> pa.Schema:
    """Return a schema as Delta keeps it: some of Arrow's types are one there."""
    return simplify(pa.schema(Schema.from_arrow(schema).to_arrow()))


def _find_last(table: DeltaTable) -> dict[str, Any] | None:
    """Return what the last commit of ours says; None where there is none."""
    return next((commit for commit in table.history(COMMITS) if REVISION in commit), None)


class _TableFile(NamedTuple):
    """Bytes and rows of a file of a table."""

    size: int
    rows: int


def _list_files(table: DeltaTable) -> dict[str, _TableFile]:
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = [actions.column(name).to_pylist() for name in ("path", "size_bytes", "num_records")]
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
    table.create_write_transaction(actions, "append", delta, commit_properties=properties)
