"""`strandline push --to iceberg:CATALOG/TABLE` makes one snapshot per revision."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from cli_project import Call, Project
from table_trials import (
    LENGTHS,
    add_length,
    change_fingerprint,
    change_sources,
    kill_push,
    push_apart,
    try_push_apart,
    use_parquet,
)

pytestmark = pytest.mark.first(reason="the Iceberg client loads in each process")

TARGET = "iceberg:trial/notes.texts"
NAME = "notes.texts"


@pytest.fixture(autouse=True)
def catalog(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Return a catalog that environment variables name. The pipeline writes Parquet."""
    use_parquet(project)
    (tmp_path / "warehouse").mkdir()
    settings = {
        "TYPE": "sql",
        "URI": f"sqlite:///{tmp_path}/catalog.db",
        "WAREHOUSE": f"file://{tmp_path}/warehouse",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__TRIAL__{name}", value)
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    return load_catalog("trial", **{name.lower(): value for name, value in settings.items()})


def read_texts(catalog: Catalog, snapshot: int | None = None) -> list[str]:
    rows = catalog.load_table(NAME).scan(snapshot_id=snapshot).to_arrow().to_pylist()
    return sorted(row["text"] for row in rows)


def count_snapshots(catalog: Catalog) -> int:
    return len(catalog.load_table(NAME).snapshots())


def test_one_snapshot_has_all_rows_and_the_run(run: Call, catalog: Catalog) -> None:
    run()
    pushed = push_apart(TARGET)
    assert (pushed["isNew"], pushed["files"]) == (True, 3)
    assert read_texts(catalog) == [f"Note number {n}.\n" for n in range(3)]
    (snapshot,) = catalog.load_table(NAME).snapshots()
    assert snapshot.summary is not None
    properties = snapshot.summary.additional_properties
    assert properties["strandline.revision"] == pushed["revision"]
    assert {"strandline.fingerprint", "strandline.ledger"} <= properties.keys()
    assert properties["strandline.attempt"] == "1"
    assert push_apart(TARGET)["isNew"] is False
    assert count_snapshots(catalog) == 1


def test_changed_and_removed_sources_share_a_snapshot(
    project: Project, run: Call, catalog: Catalog
) -> None:
    run()
    push_apart(TARGET)
    first = catalog.load_table(NAME).snapshots()[0].snapshot_id
    wanted = change_sources(project, run)
    pushed = push_apart(TARGET)
    assert (pushed["isNew"], pushed["files"]) == (True, 2)
    assert read_texts(catalog) == wanted
    assert count_snapshots(catalog) == 2
    assert read_texts(catalog, first) == [f"Note number {n}.\n" for n in range(3)]


@pytest.mark.parametrize("step", ["push.uploaded", "push.committed"])
def test_law_a_snapshot_without_an_answer_is_never_repeated(
    step: str, project: Project, run: Call, catalog: Catalog
) -> None:
    run()
    kill_push(TARGET, step)
    assert push_apart(TARGET)["isNew"] is (step == "push.uploaded")
    wanted = change_sources(project, run)
    kill_push(TARGET, step)
    assert push_apart(TARGET)["isNew"] is (step == "push.uploaded")
    assert count_snapshots(catalog) == 2
    assert read_texts(catalog) == wanted


def test_a_foreign_table_is_not_changed(run: Call, catalog: Catalog) -> None:
    run()
    catalog.create_namespace("notes")
    mine = pa.table({"text": ["mine"]})
    catalog.create_table(NAME, mine.schema).append(mine)
    result = try_push_apart(TARGET)
    assert result.returncode == 73
    assert "another writer has written this table" in result.stderr
    assert read_texts(catalog) == ["mine"]


def test_other_columns_are_refused(project: Project, run: Call, catalog: Catalog) -> None:
    run()
    push_apart(TARGET)
    project.spec["stages"].append({"use": "select-columns", "with": {"columns": ["text"]}})
    project.spec["onChange"] = "Restart"
    project.save()
    assert run().exit_code == 0
    result = try_push_apart(TARGET)
    assert result.returncode == 73
    assert "that the data set lacks" in result.stderr
    assert count_snapshots(catalog) == 1


def test_a_target_without_a_table_is_reported(run: Call) -> None:
    run()
    result = try_push_apart("iceberg:texts")
    assert result.returncode == 64
    assert "write CATALOG/NAMESPACE.TABLE" in result.stderr


def test_another_pipeline_with_the_same_files_is_another_revision(
    project: Project, run: Call, catalog: Catalog
) -> None:
    run()
    first = push_apart(TARGET)
    change_fingerprint(project, run)
    second = push_apart(TARGET)
    assert first["revision"] != second["revision"]
    assert (second["isNew"], second["files"]) == (True, 0)
    assert count_snapshots(catalog) == 2
    assert read_texts(catalog) == [f"Note number {n}.\n" for n in range(3)]


def test_a_new_column_is_added_and_null_for_older_files(
    project: Project, run: Call, catalog: Catalog
) -> None:
    run()
    push_apart(TARGET)
    first = catalog.load_table(NAME).snapshots()[0].snapshot_id
    add_length(project, run)
    pushed = push_apart(TARGET)
    assert (pushed["isNew"], pushed["files"]) == (True, 1)  # the other files are unchanged
    table = catalog.load_table(NAME)
    rows = table.scan().to_arrow().to_pylist()
    assert {row["text"]: row["length"] for row in rows} == LENGTHS
    assert "length" not in table.scan(snapshot_id=first).to_arrow().column_names
    assert (count_snapshots(catalog), push_apart(TARGET)["isNew"]) == (2, False)
