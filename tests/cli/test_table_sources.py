"""A pipeline whose source is a table: after a new version, only changes are processed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from deltalake import DeltaTable, write_deltalake
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, StringType

from cli_project import Call, Project, read_errors
from iceberg_deletes import add_deletes
from own_tables import OwnIceberg
from strandline.data.tables.formats import iceberg as iceberg_tables
from strandline_api.outcome.exit_codes import ExitCode

ROWS = pa.schema([("text", pa.string())])


class ReadTables:
    """A table of two data files, and a pipeline that reads the table.

    Args:
        kind: the table's format.
        iceberg: the table to use for the Iceberg format.
    """

    def __init__(self, kind: str, folder: Path, iceberg: OwnIceberg) -> None:
        self.kind = kind
        self.target = iceberg.target if kind == "iceberg" else f"{kind}:table"
        self.path, self._iceberg = folder / "table", iceberg

    def open_iceberg(self) -> Table:
        catalog = self._iceberg.open_catalog()
        catalog.create_namespace_if_not_exists("notes")
        return catalog.create_table_if_not_exists("notes.texts", ROWS)

    def append(self, *texts: str) -> None:
        rows = pa.table({"text": list(texts)})
        if self.kind == "iceberg":
            self.open_iceberg().append(rows)
        elif self.kind == "delta":
            write_deltalake(self.path, rows, mode="append")
        else:
            mode = "append" if self.path.exists() else "create"
            lance.write_dataset(rows, self.path, mode=mode)

    def delete(self, text: str) -> None:
        condition = f"text = '{text}'"
        if self.kind == "iceberg":
            self.open_iceberg().delete(condition)
        elif self.kind == "delta":
            DeltaTable(self.path).delete(condition)
        else:
            lance.dataset(self.path).delete(condition)

    def find_first(self) -> int:
        """Return the number of the table's first version."""
        if self.kind == "iceberg":
            return self.open_iceberg().snapshots()[0].snapshot_id
        return {"delta": 0, "lance": 1}[self.kind]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnIceberg:
    """Return a catalog for this process and its child processes."""
    own = OwnIceberg(tmp_path)
    for name, value in own.variables.items():
        monkeypatch.setenv(name, value)
    # pyiceberg reads the environment variables of catalogs on import, so before this test.
    monkeypatch.setattr(iceberg_tables, "load_catalog", lambda _: own.open_catalog())
    return own


@pytest.fixture(params=["delta", "lance", "iceberg"])
def table(request: pytest.FixtureRequest, project: Project, own: OwnIceberg) -> ReadTables:
    return make_table(request.param, project, own)


def make_table(kind: str, project: Project, own: OwnIceberg) -> ReadTables:
    table = ReadTables(kind, project.path, own)
    table.append("tide", "moon")
    table.append("sand", "reef")
    source = {"table": table.target, "onRemoved": "Delete"}
    project.spec["source"] = {"use": "table-files", "with": source}
    project.spec["stages"] = [{"use": "read-table", "with": {"columns": ["text"]}}]
    project.spec["sink"] = {"use": "parquet"}
    project.save()
    return table


def read_rows(project: Project, by: str = "text") -> list[dict[str, Any]]:
    files = (project.folder / "output").rglob("*.parquet")
    rows = (row for file in files for row in pq.ParquetFile(file).read().to_pylist())
    return sorted(rows, key=lambda row: str(row[by]))


def read_texts(project: Project) -> list[str]:
    return [row["text"] for row in read_rows(project)]


def list_files(project: Project) -> set[str]:
    return {name for name in project.list_outputs() if name.endswith(".parquet")}


def test_changed_files_are_read_again_and_removed_ones_are_deleted(
    table: ReadTables, project: Project, run: Call
) -> None:
    assert "all 2 sources" in run().stdout
    assert read_texts(project) == ["moon", "reef", "sand", "tide"]
    assert "nothing left to do" in run().stdout
    first = list_files(project)

    table.delete("moon")
    assert run().exit_code == 0
    assert read_texts(project) == ["reef", "sand", "tide"]
    assert len(first & list_files(project)) == 1  # the other data file was not read

    table.delete("tide")
    assert run().exit_code == 0
    assert read_texts(project) == ["reef", "sand"]


def test_only_the_new_file_of_a_new_version_is_read(
    table: ReadTables, project: Project, run: Call
) -> None:
    run()
    table.append("foam")
    assert count_sources(run("--json"), "skipped", "finished") == (2, 1)
    assert read_texts(project) == ["foam", "moon", "reef", "sand", "tide"]


def count_sources(result: Result, *kinds: str) -> tuple[int, ...]:
    assert result.exit_code == 0, result.stderr
    sources = json.loads(result.stdout.splitlines()[-1])["sources"]
    return tuple(sources[kind] for kind in kinds)


def test_an_older_version_has_its_own_rows(table: ReadTables, project: Project, run: Call) -> None:
    project.spec["source"]["with"]["snapshot"] = table.find_first()
    project.save()
    assert run().exit_code == 0
    assert read_texts(project) == ["moon", "tide"]
    del project.spec["source"]["with"]["snapshot"]
    project.save()
    assert run().exit_code == 0  # the fingerprint is unchanged, and there is one more source
    assert read_texts(project) == ["moon", "reef", "sand", "tide"]


def test_a_missing_table_ends_the_run_with_a_clear_error(
    table: ReadTables, project: Project, run: Call
) -> None:
    project.spec["source"]["with"]["table"] = f"{table.target}.nowhere"
    project.save()
    result = run()
    assert result.exit_code != 0
    assert re.search("can't be (read|listed)", result.stderr)
    assert "Traceback" not in result.stderr


def test_another_run_reads_the_published_table(project: Project, run: Call, call: Call) -> None:
    project.spec["sink"] = {"use": "parquet"}
    project.spec["publish"] = {"to": "delta:table"}
    project.save()
    assert run().exit_code == 0
    project.document["metadata"]["name"] = "reader"
    del project.spec["publish"]
    project.spec["source"] = {"use": "table-files", "with": {"table": "delta:table"}}
    project.spec["stages"] = [{"use": "read-table"}]
    project.save()
    assert run().exit_code == 0
    output = project.path / "strandline-data/default/reader/output"
    rows = [
        row for file in output.rglob("*.parquet") for row in pq.ParquetFile(file).read().to_pylist()
    ]
    assert sorted(row["text"] for row in rows) == [f"Note number {n}.\n" for n in range(3)]


# Kill the run before a source is released, while rows are written, and during the commit.
STEPS = ["listing.marked", "output.written", "commit.written"]


@pytest.mark.parametrize("step", STEPS)
def test_law_a_new_version_after_a_killed_attempt_gives_the_undisturbed_result(
    step: str,
    table: ReadTables,
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project.spec["retry"] = {"maxRetries": 0}
    project.save()
    with monkeypatch.context() as armed:
        armed.setenv("STRANDLINE_FAULT", f"{step}:kill")
        armed.setenv("STRANDLINE_FAULT_LOG", str(tmp_path / "fault.log"))
        assert project.execute("run", "--engine", "inline").returncode != 0
    assert (tmp_path / "fault.log").exists()
    table.delete("moon")
    table.append("foam")
    done = project.execute("run", "--engine", "inline")
    assert done.returncode == 0, done.stderr
    assert read_texts(project) == ["foam", "reef", "sand", "tide"]
    assert "nothing left to do" in project.execute("run", "--engine", "inline").stdout


@pytest.fixture
def iceberg(project: Project, own: OwnIceberg) -> Table:
    """Return the Iceberg table, which the pipeline reads."""
    return make_table("iceberg", project, own).open_iceberg()


def test_a_new_column_of_iceberg_keeps_rows_that_were_read(
    iceberg: Table, project: Project, run: Call
) -> None:
    project.spec["stages"] = [{"use": "read-table"}]
    project.save()
    run()
    with iceberg.update_schema() as columns:
        columns.add_column("mood", StringType())
    iceberg.append(pa.table({"text": ["foam"], "mood": ["calm"]}))
    assert count_sources(run("--json"), "skipped", "finished") == (2, 1)
    rows = read_rows(project)
    assert [(row["text"], row.get("mood")) for row in rows] == [
        ("foam", "calm"),
        *((text, None) for text in ("moon", "reef", "sand", "tide")),
    ]


def test_a_renamed_column_of_iceberg_is_read_by_its_new_name(
    iceberg: Table, project: Project, run: Call
) -> None:
    run()
    with iceberg.update_schema() as columns:
        columns.rename_column("text", "words")
    assert "nothing left to do" in run().stdout  # no row has changed
    iceberg.append(pa.table({"words": ["foam"]}))
    result = run()
    assert result.exit_code == ExitCode.SOURCES_FAILED
    assert "there is no column 'text'; the columns are: words" in result.output
    project.spec["stages"] = [{"use": "read-table", "with": {"columns": ["words"]}}]
    project.spec["onChange"] = "Restart"
    project.save()
    assert count_sources(run("--json"), "finished") == (3,)
    assert [row["words"] for row in read_rows(project, "words")] == [
        *("foam", "moon", "reef", "sand", "tide")
    ]


def test_only_files_of_a_new_partition_of_iceberg_are_read(
    iceberg: Table, project: Project, run: Call
) -> None:
    run()
    with iceberg.update_spec() as parts:
        parts.add_identity("text")
    assert "nothing left to do" in run().stdout
    iceberg.append(pa.table({"text": ["foam", "kelp"]}))
    assert count_sources(run("--json"), "skipped", "finished") == (2, 2)
    assert read_texts(project) == ["foam", "kelp", "moon", "reef", "sand", "tide"]


def test_equality_deletes_of_iceberg_end_the_run_without_losses(
    iceberg: Table, project: Project, run: Call, tmp_path: Path
) -> None:
    run()
    add_deletes(iceberg, tmp_path / "deletes.parquet", DataFileContent.EQUALITY_DELETES)
    result = run()
    assert result.exit_code != 0
    assert "equality deletes" in read_errors(result)
    assert read_texts(project) == ["moon", "reef", "sand", "tide"]


def test_a_positional_delete_of_iceberg_rereads_its_file(
    iceberg: Table, project: Project, run: Call, tmp_path: Path
) -> None:
    run()
    add_deletes(iceberg, tmp_path / "deletes.parquet", DataFileContent.POSITION_DELETES)
    assert count_sources(run("--json"), "skipped", "finished") == (1, 1)
    assert len(read_texts(project)) == 3


def change_columns(table: ReadTables) -> None:
    """Rename the column `text` to `words`, and add rows under the new name."""
    if table.kind == "iceberg":
        with table.open_iceberg().update_schema() as columns:
            columns.rename_column("text", "words")
        table.open_iceberg().append(pa.table({"words": ["foam"]}))
    elif table.kind == "delta":  # without column mapping, Delta rewrites the table
        rows = pa.table({"words": ["foam", "moon", "reef", "sand", "tide"]})
        write_deltalake(table.path, rows, mode="overwrite", schema_mode="overwrite")
    else:
        data: Any = lance.dataset(table.path)
        data.alter_columns({"path": "text", "name": "words"})
        data.insert(pa.table({"words": ["foam"]}))


COLUMN_CHANGE = (
    "columns changed since the last run: 'text' (text) was dropped or renamed, 'words' (text) is "
    "new; sources that are not reread keep the old columns"
)


def test_dropped_and_renamed_columns_are_reported(
    table: ReadTables, project: Project, run: Call
) -> None:
    project.spec["stages"] = [{"use": "read-table"}]
    project.save()
    assert [] == list_incidents(run("--json"))
    change_columns(table)
    (incident,) = list_incidents(run("--json"))
    assert re.sub(r"\(\w+\)", "(text)", incident) == f"{table.target}: {COLUMN_CHANGE}"
    assert [] == list_incidents(run("--json"))


def list_incidents(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    incidents: list[str] = json.loads(result.stdout.splitlines()[-1])["incidents"]
    return incidents


def test_a_changed_type_is_reported_even_for_unread_columns(
    iceberg: Table, project: Project, run: Call
) -> None:
    with iceberg.update_schema() as columns:
        columns.add_column("lines", IntegerType())
    iceberg.append(pa.table({"text": ["foam"], "lines": pa.array([1], pa.int32())}))
    assert run().exit_code == 0
    with iceberg.update_schema() as columns:
        columns.update_column("lines", LongType())
    iceberg.append(pa.table({"text": ["kelp"], "lines": [1]}))
    (incident,) = list_incidents(run("--json"))
    assert "'lines' was int32 and is int64" in incident


def test_columns_of_a_table_read_from_scratch_are_not_reported(
    iceberg: Table, project: Project, run: Call
) -> None:
    assert run().exit_code == 0
    with iceberg.update_schema() as columns:
        columns.rename_column("text", "words")
    iceberg.append(pa.table({"words": ["foam"]}))
    project.spec["stages"] = [{"use": "read-table", "with": {"columns": ["words"]}}]
    project.spec["onChange"] = "Restart"
    project.save()
    assert [] == list_incidents(run("--json"))


def test_column_changes_are_reported_by_the_attempt_that_ends(
    iceberg: Table, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.spec["stages"] = [{"use": "read-table"}]
    project.spec["retry"] = {"maxRetries": 0}
    project.save()
    assert project.execute("run", "--engine", "inline").returncode == 0
    with iceberg.update_schema() as columns:
        columns.rename_column("text", "words")
    iceberg.append(pa.table({"words": ["foam"]}))
    with monkeypatch.context() as armed:
        armed.setenv("STRANDLINE_FAULT", "commit.written:kill")
        assert project.execute("run", "--engine", "inline").returncode != 0
    done = project.execute("run", "--engine", "inline")
    assert "'text' (large_string) was dropped or renamed" in done.stdout
