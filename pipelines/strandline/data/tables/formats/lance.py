"""Lance data sets: inspects tables, reads versions, and commits data sets.

A commit adds and removes fragments, and records the run. Lance has its own file format, so rows are
written again. Before the commit, a note beside the table records the fragments of each file.
Because fragments get their ids only in the commit, the note names the files of the fragments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count

import lance
import pyarrow as pa
import pyarrow.parquet as pq
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import write_fragments

from strandline.data.shipments.contents import Contents
from strandline.data.shipments.shipment import (
    REVISION,
    PushResult,
    Shipment,
    ShippedFile,
    require_ours,
)
from strandline.data.shipments.target_files import TargetFiles, open_target
from strandline.data.tables.conforming import conform_table
from strandline.data.tables.formats.changes import (
    TablePush,
    describe_difference,
    find_changes,
    name_data_file,
)
from strandline.data.tables.formats.column_types import COMMON, ColumnRules, require_columns
from strandline.data.tables.formats.registry import TableError, VersionFile, digest_parts
from strandline.data.tables.formats.table_state import (
    TableState,
    find_new_columns,
    read_schema,
    require_fit,
)
from strandline.data.tables.schemas import simplify
from strandline.plan.stages.columns import Columns
from strandline.storage import faults

# Operations that do not change the rows of a table. `BaseOperation` represents operations that the
# Python library does not distinguish, such as reserving fragment ids.
_KEEPING = {LanceOperation.Rewrite, LanceOperation.CreateIndex, LanceOperation.BaseOperation}
FOLDER = "_strandline"  # folder for notes, which Lance ignores
COMMITS = 1000  # number of commits to search for our last push
_ROWS = 8192  # number of rows per batch
_RULES = ColumnRules(
    "Lance",
    (
        *COMMON,
        pa.types.is_null,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_temporal,
        pa.types.is_decimal256,
    ),
    reserved=frozenset({
        "_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version",
        "_row_last_updated_at_version",
    }),
    letters='."`',
)  # fmt: skip
ERRORS = (OSError, ValueError)


def find_difference(push: TablePush) -> str | None:
    """Describe how visible rows differ from the data set, or return None if they match."""
    shipment, table = push.shipment, lance.dataset(push.name)
    noted = json.loads(open_target(push.name).read(_name_note(shipment.revision)) or b"{}")
    # Count a file without rows as present, because such a file has no fragment.
    empty = {name_data_file(file) for file in shipment.files if not file.rows}
    there = [*_list_whole(table, noted), *empty]
    return describe_difference(shipment, there, table.count_rows())


def commit(push: TablePush, *, is_forced: bool) -> PushResult:
    """Make a Lance table contain exactly the data set. Create the table if it is missing."""
    shipment, contents, location, _, fence = push
    notes, table = open_target(location), _open(location)
    state = None if table is None else _read_state(location, table)
    if state is not None:
        require_ours(location, shipment.author, state.properties)
        # An earlier commit may have succeeded although its response was lost.
        if not is_forced and _has(table, state, shipment.revision):
            return PushResult(location, shipment.revision, is_new=False, files=0)
    schema = read_schema(shipment, contents)
    require_columns(location, _RULES, schema)
    new: list[pa.Field] = []
    if state is not None:
        new = list(find_new_columns(location, state.schema, schema))
        require_fit(state, shipment.author, Columns(tuple(schema.names)))
    if table is not None and new:
        fence()
        # Add the new columns, with nulls for now, before writing fragments: a fragment may contain
        # only columns of the table.
        table.add_columns(pa.schema(new))
        faults.reach("push.widened")
    there = _list_whole(table, _read_notes(notes, state))
    changes = find_changes(shipment, there)
    written = {
        name: _write(contents, file, location, schema) for name, file in changes.added.items()
    }
    kept = {name: paths for name, paths in there.items() if name not in changes.removed}
    added = {name: _list_paths(fragments) for name, fragments in written.items()}
    note = json.dumps({**kept, **added}, sort_keys=True).encode()
    notes.put(_name_note(shipment.revision), [note])
    faults.reach("push.uploaded")
    fence()
    fragments = [fragment for group in written.values() for fragment in group]
    stay = {path for paths in kept.values() for path in paths}
    _commit(location, table, _make_operation(table, schema, fragments, stay), shipment)
    faults.reach("push.committed")
    return PushResult(location, shipment.revision, is_new=True, files=len(changes.added))


def _has(table: LanceDataset | None, state: TableState, revision: str) -> bool:
    """Return True if readers see a revision: no commit after it has changed rows."""
    if table is None or not state.properties or state.properties[REVISION] != revision:
        return False
    for transaction in table.get_transactions(COMMITS):
        properties = transaction.transaction_properties if transaction else None
        if properties and REVISION in properties:
            return True
        if transaction is None or type(transaction.operation) not in _KEEPING:
            return False
    return False


def _open(location: str) -> LanceDataset | None:
    target = open_target(location)
    is_there = any(name.startswith("_versions/") for name, _ in target.list_sizes(""))
    return lance.dataset(location) if is_there else None


def inspect(location: str) -> TableState | None:
    """Return the state of a Lance data set, or None if it is missing.

    Raises:
        OSError, ValueError: if the data set can't be read.
    """
    table = _open(location)
    return None if table is None else _read_state(location, table)


def _read_state(location: str, table: LanceDataset) -> TableState:
    schema = table.schema
    hindrances = tuple(
        f"the table forbids nulls in {field.name!r}, which a push does not check"
        for field in schema
        if not field.nullable
    )
    number, properties = _find_last(table)
    former = None
    if number is not None:
        # If that version was cleaned up, it can't be opened, and its columns stay unknown.
        with suppress(OSError, ValueError):
            former = simplify(lance.dataset(location, version=number).schema)
    return TableState(location, properties, simplify(schema), former, hindrances)


def _find_last(table: LanceDataset) -> tuple[int | None, dict[str, str] | None]:
    """Return the number and properties of our last version, or None for both."""
    versions = count(table.version, -1)  # each version has one transaction
    for number, transaction in zip(versions, table.get_transactions(COMMITS), strict=False):
        properties = transaction.transaction_properties if transaction else None
        if properties and REVISION in properties:
            return number, dict(properties)
    return None, None


def _name_note(revision: str) -> str:
    return f"{FOLDER}/{revision}.json"


def _read_notes(notes: TargetFiles, state: TableState | None) -> dict[str, list[str]]:
    known = None if state is None else state.properties
    content = None if known is None else notes.read(_name_note(str(known[REVISION])))
    found: dict[str, list[str]] = json.loads(content or b"{}")
    return found


def _list_whole(table: LanceDataset | None, noted: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the files in the notes whose fragments are all in the table without deleted rows."""
    if table is None:
        return {}
    whole = {
        path
        for fragment in table.get_fragments()
        if fragment.metadata.deletion_file is None
        for path in _list_paths([fragment.metadata])
    }
    return {name: paths for name, paths in noted.items() if whole.issuperset(paths)}


def _list_paths(fragments: list[FragmentMetadata]) -> list[str]:
    return [file.path for fragment in fragments for file in fragment.files]


def _write(
    contents: Contents, file: ShippedFile, location: str, schema: pa.Schema
) -> list[FragmentMetadata]:
    if not file.rows:
        contents.check(file)
        return []
    with contents.fetched(file) as path, pq.ParquetFile(path, pre_buffer=False) as opened:
        reader = pa.RecordBatchReader.from_batches(schema, _list_batches(opened, schema))
        found: list[FragmentMetadata] = list(write_fragments(reader, location, schema))
        return found


def _list_batches(opened: pq.ParquetFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in opened.iter_batches(_ROWS):
        # Convert: files may have another order of columns, or dictionaries.
        yield from conform_table(pa.Table.from_batches([batch]), schema).to_batches()


def _make_operation(
    table: LanceDataset | None, schema: pa.Schema, fragments: list[FragmentMetadata], stay: set[str]
) -> LanceOperation.BaseOperation:
    """Return the operation that adds `fragments`, and removes those with files outside `stay`."""
    if table is None:
        return LanceOperation.Overwrite(schema, fragments)
    gone = [
        fragment.fragment_id
        for fragment in table.get_fragments()
        if not stay.issuperset(_list_paths([fragment.metadata]))
    ]
    return LanceOperation.Update(removed_fragment_ids=gone, new_fragments=fragments)


def _commit(
    location: str,
    table: LanceDataset | None,
    operation: LanceOperation.BaseOperation,
    shipment: Shipment,
) -> None:
    version = 0 if table is None else table.version
    properties = dict(shipment.properties)
    transaction = Transaction(version, operation, transaction_properties=properties)
    if table is not None:
        LanceDataset.commit(location, transaction, read_version=version)
        return
    try:
        # Disable retries, so that the library refuses to create a table that another writer has
        # created meanwhile.
        LanceDataset.commit(location, transaction, read_version=version, max_retries=0)
    except OSError:
        made = _open(location)
        if made is None:
            raise
        require_ours(location, shipment.author, _read_state(location, made).properties)
        raise


class LanceSnapshot:
    """A Lance data set at a version.

    Args:
        location: folder or URL.
        number: number of the version, or None for the current version.

    Raises:
        TableError: if the data set or version is missing.
    """

    def __init__(self, location: str, number: int | None) -> None:
        try:
            self._dataset = lance.dataset(location, version=number)
        except (OSError, ValueError) as error:
            what = " ".join(str(error).split())
            raise TableError(f"{location}: there is no readable Lance data set ({what})") from error
        self.number: int | None = self._dataset.version
        self.schema: pa.Schema = self._dataset.schema
        self._fragments = {
            fragment.metadata.files[0].path: fragment for fragment in self._dataset.get_fragments()
        }

    def list_files(self) -> Iterator[VersionFile]:
        """Yield the fragments. A fragment's version covers its column files and deletions."""
        for name, fragment in self._fragments.items():
            yield VersionFile(name, digest_parts(_list_parts(fragment.metadata)))

    def read(self, name: str, columns: Sequence[str] | None, most_rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a fragment; see `TableSnapshot`."""
        chosen = None if columns is None else list(columns)
        for batch in self._fragments[name].to_batches(columns=chosen, batch_size=most_rows):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])


def _list_parts(fragment: FragmentMetadata) -> Iterator[str]:
    for file in fragment.files:
        yield f"{file.path} {file.fields}"
    deleted = fragment.deletion_file
    if deleted is not None:
        yield f"{deleted.read_version} {deleted.id} {deleted.num_deleted_rows}"


open_version = LanceSnapshot
