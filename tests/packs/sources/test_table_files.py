"""`table-files` and `read-table`: tables written by their own tools, at a version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from iceberg_deletes import add_deletes
from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.columns import MissingColumnError
from strandline.data.tables.formats import iceberg
from strandline.data.tables.formats.registry import TableError
from strandline.plan.task import Task
from strandline_api.documents.problems import SpecError
from strandline_packs.sources.table_files import TableFiles
from strandline_packs.tables.rows.read_table import ReadTable

ROWS = pa.table({"id": [1, 2, 3], "place": ["sea", "sand", "sea"]})
MORE = pa.table({"id": [4], "place": ["sand"], "note": ["wet"]})


def list_versions(table: str, snapshot: int | None = None) -> dict[str, str]:
    """Return the versions of a table's data files by key."""
    sources = TableFiles(table=table, snapshot=snapshot).list_sources()
    return {source.key: source.version for source in sources}


def read_rows(table: str, snapshot: int | None = None, **params: Any) -> list[dict[str, Any]]:
    """Return all rows of a table, without keys unless requested."""
    reader, rows = ReadTable(**params), []
    for source in TableFiles(table=table, snapshot=snapshot).list_sources():
        for task in reader.process(Task(source.data)):
            rows += task.table.to_pylist()
    if "key" not in params.get("columns", ()):
        keys = [row.pop("key", None) for row in rows]
        assert len(set(keys)) == len(keys) or "columns" in params
    return sorted(rows, key=lambda row: row.get("id", 0))


@pytest.fixture
def delta(tmp_path: Path) -> str:
    """Write a partitioned table that got a column in its second version."""
    path = tmp_path / "table"
    write_deltalake(path, ROWS, partition_by=["place"])
    write_deltalake(path, MORE, mode="append", schema_mode="merge", partition_by=["place"])
    return f"delta:{path}"


def open_delta(table: str, version: int | None = None) -> DeltaTable:
    return DeltaTable(table.removeprefix("delta:"), version=version)


def test_delta_rows_equal_those_of_its_own_reader(delta: str) -> None:
    own = open_delta(delta).to_pyarrow_table().sort_by("id").to_pylist()
    assert read_rows(delta) == own
    assert own[0] == {"id": 1, "place": "sea", "note": None}
    before = [{"id": row["id"], "place": row["place"]} for row in own[:3]]
    assert read_rows(delta, 0) == before


def test_only_changed_files_of_a_new_delta_version_are_new(delta: str) -> None:
    first = list_versions(delta)
    open_delta(delta).delete("id = 3")
    second = list_versions(delta)
    assert len(first) == len(second) == 3
    assert len(first.items() & second.items()) == 2  # the file of rows 1 and 3 differs
    assert [row["id"] for row in read_rows(delta)] == [1, 2, 4]
    assert list_versions(delta, 1) == first


def test_a_partition_with_letters_that_paths_escape_is_read(tmp_path: Path) -> None:
    odd = pa.table({"id": [1], "place": ["a b/ü%20=:"]})
    write_deltalake(tmp_path / "table", odd, partition_by=["place"])
    assert read_rows(f"delta:{tmp_path}/table") == odd.to_pylist()


def test_deletion_vectors_are_refused_with_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "table"
    settings = {"delta.enableDeletionVectors": "true"}
    write_deltalake(path, ROWS, configuration=settings)
    with pytest.raises(TableError, match=r"deletionVectors.*rewrite the table without"):
        list_versions(f"delta:{path}")


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Create a catalog called `trial`."""
    (tmp_path / "warehouse").mkdir()
    found = load_catalog(
        "trial",
        type="sql",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=f"file://{tmp_path}/warehouse",
    )
    # pyiceberg reads the environment variables of catalogs before this test.
    monkeypatch.setattr(iceberg, "load_catalog", lambda _: found)
    found.create_namespace("sea")
    return found


ICEBERG = "iceberg:trial/sea.rows"


def make_iceberg(catalog: Catalog) -> None:
    """Write a partitioned table that got a column in its second snapshot."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "place", StringType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "place"))
    table = catalog.create_table("sea.rows", schema, partition_spec=spec)
    table.append(ROWS)
    with table.update_schema() as update:
        update.add_column("note", StringType())
    table.append(MORE)


def test_iceberg_rows_equal_those_of_its_own_reader(catalog: Catalog) -> None:
    make_iceberg(catalog)
    table = catalog.load_table("sea.rows")
    own = table.scan().to_arrow().sort_by("id").to_pylist()
    assert read_rows(ICEBERG) == own
    assert own[0] == {"id": 1, "place": "sea", "note": None}
    first = table.snapshots()[0].snapshot_id
    assert read_rows(ICEBERG, first) == ROWS.to_pylist()


def test_only_changed_files_of_a_new_iceberg_snapshot_are_new(catalog: Catalog) -> None:
    make_iceberg(catalog)
    first = list_versions(ICEBERG)
    catalog.load_table("sea.rows").delete("id = 3")
    second = list_versions(ICEBERG)
    assert len(first) == len(second) == 3
    assert len(first.items() & second.items()) == 2
    assert [row["id"] for row in read_rows(ICEBERG)] == [1, 2, 4]


def delete_first(catalog: Catalog, folder: Path, content: DataFileContent) -> None:
    table = catalog.load_table("sea.rows")
    add_deletes(table, folder / "deletes.parquet", content, "place = 'sea'", "sea")


def test_positional_deletes_change_only_their_file_and_are_applied(
    catalog: Catalog, tmp_path: Path
) -> None:
    make_iceberg(catalog)
    first = list_versions(ICEBERG)
    delete_first(catalog, tmp_path, DataFileContent.POSITION_DELETES)
    assert [row["id"] for row in read_rows(ICEBERG)] == [2, 3, 4]
    second = list_versions(ICEBERG)
    assert first.keys() == second.keys()
    assert len(first.items() & second.items()) == 2


def test_equality_deletes_are_refused_before_any_row_is_read(
    catalog: Catalog, tmp_path: Path
) -> None:
    make_iceberg(catalog)
    delete_first(catalog, tmp_path, DataFileContent.EQUALITY_DELETES)
    with pytest.raises(TableError, match="equality deletes"):
        list_versions(ICEBERG)


def test_an_iceberg_table_without_a_snapshot_has_no_file(catalog: Catalog) -> None:
    catalog.create_table("sea.rows", ROWS.schema)
    assert list_versions(ICEBERG) == {}


def test_lance_rows_equal_those_of_its_own_reader(tmp_path: Path) -> None:
    path = tmp_path / "table"
    lance.write_dataset(ROWS, path)
    dataset = lance.write_dataset(MORE.drop_columns(["note"]), path, mode="append")
    table, first = f"lance:{path}", list_versions(f"lance:{path}")
    dataset.delete("id = 3")
    second = list_versions(table)
    assert first.keys() == second.keys()
    assert len(first.items() & second.items()) == 1
    assert read_rows(table) == lance.dataset(path).to_table().sort_by("id").to_pylist()
    assert [row["id"] for row in read_rows(table)] == [1, 2, 4]
    assert list_versions(table, 2) == first
    # Writing a column changes every fragment.
    lance.dataset(path).add_columns({"twice": "id * 2"})
    assert not second.items() & list_versions(table).items()
    assert [row["twice"] for row in read_rows(table)] == [2, 4, 8]


def test_columns_and_tasks_follow_the_parameters(delta: str, tmp_path: Path) -> None:
    assert read_rows(delta, columns=("place",), max_rows=1)[0].keys() == {"place"}
    rows = read_rows(delta, columns=("key", "id"), max_rows=1)
    assert [list(row) for row in rows[:1]] == [["key", "id"]]
    assert len({row["key"] for row in rows}) == 4
    with pytest.raises(MissingColumnError, match="there is no column 'salt'; the columns are: id"):
        read_rows(delta, columns=("salt",))


@pytest.mark.parametrize("kind", ["delta", "lance"])
def test_a_missing_table_is_reported(kind: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="there is no readable"):
        list_versions(f"{kind}:{tmp_path}/none")


def test_a_file_that_was_vacuumed_meanwhile_fails_its_source(delta: str) -> None:
    source = next(TableFiles(table=delta).list_sources())
    (Path(delta.removeprefix("delta:")) / source.key).unlink()
    with pytest.raises(UnreadableFileError, match="can't be read"):
        list(ReadTable().process(Task(source.data)))


def test_an_invalid_table_name_is_refused() -> None:
    with pytest.raises(SpecError, match="is not the name of a table"):
        TableFiles(table="tables/sea")
