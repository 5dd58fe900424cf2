"""Iceberg tables, through `pyiceberg`: inspects tables, reads snapshots, and commits data sets.

A commit adds and removes files, and records the run in its summary. When a snapshot is read, the
library applies projections and positional deletes. Catalogs are configured in pyiceberg's own
configuration file or environment variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import (
    ArrowScan,
    parquet_files_to_data_files,
    pyarrow_to_schema,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask, Table, TableProperties
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import DoubleType, FloatType, IcebergType, IntegerType, LongType

from strandline.data.shipments.contents import Contents
from strandline.data.shipments.shipment import (
    LEDGER,
    PIPELINE,
    REVISION,
    BadTargetError,
    PushResult,
    Shipment,
    TargetRefusedError,
    require_ours,
)
from strandline.data.tables.formats.changes import (
    TableChanges,
    TablePush,
    describe_difference,
    find_changes,
)
from strandline.data.tables.formats.column_types import COMMON, ColumnRules, require_columns
from strandline.data.tables.formats.registry import TableError, VersionFile, digest_parts
from strandline.data.tables.formats.table_state import TableState, read_schema, require_fit
from strandline.data.tables.schemas import simplify
from strandline.plan.stages.columns import Columns
from strandline.storage import faults

_SMALL = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
# Type changes that Iceberg allows without rewriting files.
_PROMOTIONS = {(IntegerType(), LongType()), (FloatType(), DoubleType())}


def _is_day_time(kind: pa.DataType) -> bool:
    return bool(kind == pa.time64("us"))


_RULES = ColumnRules(
    "Iceberg",
    (*COMMON, pa.types.is_uint8, pa.types.is_uint16, _is_day_time),
    is_case_blind=True,
    is_dot_blind=True,
)
ERRORS = (Exception,)  # each catalog and store has its own error classes


def find_difference(push: TablePush) -> str | None:
    """Describe how visible rows differ from the data set, or return None if they match."""
    catalog, identifier = _parse(push.name)
    table = load_catalog(catalog).load_table(identifier)
    files = list(_list_files(table))
    rows = sum(file.record_count for file in files)
    return describe_difference(push.shipment, _name_files(table, files), rows)


def inspect(name: str) -> TableState | None:
    """Return the state of a table, or None if the table is missing.

    Raises:
        BadTargetError: if the name has an invalid form.
        Exception: an error of the catalog's library, if the request fails.
    """
    catalog, identifier = _parse(name)
    try:
        return _read_state(name, load_catalog(catalog).load_table(identifier))
    except NoSuchTableError:
        return None


def _parse(name: str) -> tuple[str, str]:
    catalog, _, identifier = name.partition("/")
    if not catalog or "." not in identifier:
        raise BadTargetError(f"{name!r} is not the name of a table; write CATALOG/NAMESPACE.TABLE")
    return catalog, identifier


def commit(push: TablePush, *, is_forced: bool) -> PushResult:
    """Make an Iceberg table contain exactly the data set. Create the table if it is missing."""
    shipment, contents, name, _, fence = push
    catalog_name, identifier = _parse(name)
    catalog = load_catalog(catalog_name)
    schema = None
    try:
        table = catalog.load_table(identifier)
    except NoSuchTableError:
        schema = _read_fitting(name, shipment, contents)
        table = _make(catalog, identifier, schema, shipment)
    state = _read_state(name, table)
    require_ours(name, shipment.author, state.properties)
    # An earlier commit may have succeeded although its response was lost.
    if not is_forced and _has(table, state, shipment.revision):
        return PushResult(name, shipment.revision, is_new=False, files=0)
    schema = schema or _read_fitting(name, shipment, contents)
    _refuse_other_columns(name, table, schema)
    require_fit(state, shipment.author, Columns(tuple(schema.names)))
    root, there = _find_root(table), _name_files(table, _list_files(table))
    changes = find_changes(shipment, there)
    for path, file in changes.added.items():
        _copy(table, f"{root}{path}", contents.read(file), file.size)
    faults.reach("push.uploaded")
    # Check the lease as late as possible: the upload may have lasted longer than the lease.
    fence()
    removed = [there[path] for path in sorted(changes.removed)]
    _commit(shipment, table, schema, changes, removed, root)
    faults.reach("push.committed")
    return PushResult(name, shipment.revision, is_new=True, files=len(changes.added))


def _read_fitting(name: str, shipment: Shipment, contents: Contents) -> pa.Schema:
    schema = read_schema(shipment, contents)
    require_columns(name, _RULES, schema)
    return schema


def _has(table: Table, state: TableState, revision: str) -> bool:
    """Return True if readers see a revision: no snapshot after it has changed rows."""
    snapshot = table.current_snapshot()
    while snapshot is not None and snapshot.summary is not None:
        if REVISION in snapshot.summary.additional_properties:
            return (
                not state.hindrances
                and state.properties is not None
                and (state.properties.get(REVISION) == revision)
            )
        if snapshot.summary.operation is not Operation.REPLACE:  # REPLACE is a compaction
            return False
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return False


def _find_root(table: Table) -> str:
    return f"{table.location().rstrip('/')}/data/"


def _name_files(table: Table, files: Iterable[DataFile]) -> dict[str, DataFile]:
    """Return the files of a table by name, relative to the table's data folder."""
    root = _find_root(table)
    return {file.file_path.removeprefix(root): file for file in files}


def _make(catalog: Catalog, identifier: str, schema: pa.Schema, shipment: Shipment) -> Table:
    namespace = identifier.rpartition(".")[0]
    catalog.create_namespace_if_not_exists(namespace)
    owner = {PIPELINE: shipment.pipeline, LEDGER: shipment.ledger}
    return catalog.create_table(identifier, schema, properties=owner)


def _read_state(name: str, table: Table) -> TableState:
    last, former = _find_last(table), None
    properties: dict[str, str] = dict(table.properties)
    if last is not None and last.summary is not None:
        properties |= last.summary.additional_properties
        known = table.schema() if last.schema_id is None else table.schemas().get(last.schema_id)
        former = None if known is None else _read_columns(_promote(known, table.schema()))
    hindrances = tuple(_list_hindrances(table))
    return TableState(name, properties, _read_columns(table.schema()), former, hindrances)


def _promote(former: Schema, schema: Schema) -> Schema:
    """Return the former columns, with the current types of columns that were only promoted."""
    kinds = {field.name: field.field_type for field in schema.fields}
    fields = [
        field.model_copy(update={"field_type": kinds[field.name]})
        if _holds(kinds.get(field.name), field.field_type)
        else field
        for field in former.fields
    ]
    return Schema(*fields)


def _holds(kind: IcebergType | None, other: IcebergType) -> bool:
    """Return True if a column of type `kind` may have files with type `other`."""
    return kind == other or (other, kind) in _PROMOTIONS


def _read_columns(schema: Schema) -> pa.Schema:
    arrow = simplify(schema_to_pyarrow(schema, include_field_ids=False))
    # Replace the large types, which the library returns but messages should not mention.
    kinds = (_SMALL.get(field.type, field.type) for field in arrow)
    return pa.schema(list(zip(arrow.names, kinds, strict=True)))


def _list_hindrances(table: Table) -> Iterator[str]:
    for part in table.spec().fields:
        # A partition field with this transform was removed, but may stay in the table.
        if not isinstance(part.transform, VoidTransform):
            yield f"the table is partitioned by {part.name!r}, but the files of a run are not"
    if any(task.delete_files for task in table.scan().plan_files()):
        yield "the table has delete files, which would hide rows of the next push"
    for field in table.schema().fields:
        if field.required:
            yield f"the table forbids nulls in {field.name!r}, which a push does not check"


def _find_last(table: Table) -> Snapshot | None:
    """Return our last snapshot among the ancestors of the current snapshot, if any."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary
        if summary is not None and REVISION in summary.additional_properties:
            return snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return None


def _refuse_other_columns(name: str, table: Table, schema: pa.Schema) -> None:
    known = {field.name: field.field_type for field in table.schema().fields}
    gone = next((column for column in known if column not in schema.names), None)
    if gone is not None:
        raise TargetRefusedError(
            f"{name}: the table has a column {gone!r} that the data set lacks; name another table"
        )
    shared = pa.schema([field for field in schema if field.name in known])
    found = pyarrow_to_schema(shared, name_mapping=table.schema().name_mapping)
    for field in found.fields:
        if not _holds(known[field.name], field.field_type):
            raise TargetRefusedError(
                f"{name}: the column {field.name!r} is {known[field.name]} in the table and "
                f"{field.field_type} in the data set; name another table"
            )


def _list_files(table: Table) -> Iterator[DataFile]:
    return (task.file for task in table.scan().plan_files())


def _copy(table: Table, path: str, blocks: Iterator[bytes], size: int) -> None:
    """Write a data file unless it already exists: its name includes a digest of its bytes."""
    known = table.io.new_input(path)
    if known.exists() and len(known) == size:
        return
    with table.io.new_output(path).create(overwrite=True) as target:
        for block in blocks:
            target.write(block)


def _commit(
    shipment: Shipment,
    table: Table,
    schema: pa.Schema,
    changes: TableChanges,
    removed: list[DataFile],
    root: str,
) -> None:
    with table.transaction() as transaction:
        # Files of a run have no field IDs, so readers need a mapping from names to IDs.
        if table.metadata.name_mapping() is None:
            mapping = table.schema().name_mapping.model_dump_json()
            transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
        if any(column not in table.schema().column_names for column in schema.names):
            with transaction.update_schema() as columns:
                columns.union_by_name(schema)
        update = transaction.update_snapshot(snapshot_properties=dict(shipment.properties))
        paths = (f"{root}{path}" for path in changes.added)
        # Only an overwrite can remove files; an append leaves existing manifests unchanged.
        with update.overwrite() if removed else update.fast_append() as snapshot:
            for data_file in removed:
                snapshot.delete_data_file(data_file)
            metadata = transaction.table_metadata
            for data_file in parquet_files_to_data_files(table.io, metadata, paths):
                snapshot.append_data_file(data_file)


class IcebergSnapshot:
    """An Iceberg table at a snapshot.

    Args:
        name: `CATALOG/NAMESPACE.TABLE`.
        number: id of the snapshot, or None for the current snapshot.

    Raises:
        TableError: if the table or snapshot is missing, or uses unsupported features.
    """

    def __init__(self, name: str, number: int | None) -> None:
        catalog, _, identifier = name.partition("/")
        try:
            self._table = load_catalog(catalog).load_table(identifier)
            current = self._table.current_snapshot()
            self.number = number or (None if current is None else current.snapshot_id)
            scan = self._scan(None)
            self.schema: pa.Schema = _to_arrow(scan)
            tasks = list(scan.plan_files()) if self.number is not None else []
        except Exception as error:  # each catalog and store has its own error classes
            what = " ".join(str(error).split())
            raise TableError(f"{name}: the table can't be read ({what})") from error
        root = f"{self._table.location().rstrip('/')}/"
        self._tasks = {task.file.file_path.removeprefix(root): task for task in tasks}

    def list_files(self) -> Iterator[VersionFile]:
        """Yield the data files. A file's version also changes with its delete files."""
        for name, task in self._tasks.items():
            deletes = sorted(_describe_delete(task))
            yield VersionFile(name, digest_parts([str(task.file.file_size_in_bytes), *deletes]))

    def read(self, name: str, columns: Sequence[str] | None, most_rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a data file; see `TableSnapshot`."""
        task, scan = self._tasks[name], self._scan(columns)
        reader = ArrowScan(self._table.metadata, self._table.io, scan.projection(), AlwaysTrue())
        schema = _to_arrow(scan)
        for batch in reader.to_record_batches([task]):
            # Cast, because some files have large types or dictionaries.
            table = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
            for begin in range(0, table.num_rows, most_rows):
                yield table.slice(begin, most_rows)

    def _scan(self, columns: Sequence[str] | None) -> DataScan:
        fields = ("*",) if columns is None else tuple(columns)
        return self._table.scan(snapshot_id=self.number, selected_fields=fields)


def _to_arrow(scan: DataScan) -> pa.Schema:
    return schema_to_pyarrow(scan.projection(), include_field_ids=False)


def _describe_delete(task: FileScanTask) -> Iterator[str]:
    for file in task.delete_files:
        yield f"{file.file_path} {file.file_size_in_bytes}"


open_version = IcebergSnapshot
