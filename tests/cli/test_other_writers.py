"""Targets that another writer changes: a push checks the visible state before and afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFileContent

from cli_project import Call, Project
from iceberg_deletes import add_deletes
from own_tables import OwnDelta, OwnIceberg, OwnLance
from strandline.data.tables.formats import iceberg
from strandline.storage import faults
from table_trials import CHANGED, change_sources, push, use_parquet

pytestmark = pytest.mark.first(reason="clients of tables load in each process")

NOTES = [f"Note number {n}.\n" for n in range(3)]
THEIRS = pa.table({"key": ["theirs"], "text": ["theirs"]})
Table = OwnDelta | OwnLance | OwnIceberg


class Other:
    """Another writer of a table."""

    def __init__(self, table: Table, folder: Path) -> None:
        self._table, self._path = table, str(folder / "table")

    def append(self) -> None:
        if isinstance(self._table, OwnDelta):
            columns = DeltaTable(self._path).schema().to_arrow()
            names = pa.schema(columns).names
            write_deltalake(self._path, _fit(names), mode="append")
        elif isinstance(self._table, OwnLance):
            lance.write_dataset(
                _fit(lance.dataset(self._path).schema.names), self._path, mode="append"
            )
        else:
            opened = self._table.open_catalog().load_table("notes.texts")
            opened.append(_fit([field.name for field in opened.schema().fields]))

    def delete(self) -> None:
        condition = "text = 'Note number 1.\n'"
        if isinstance(self._table, OwnDelta):
            DeltaTable(self._path).delete(condition)
        elif isinstance(self._table, OwnLance):
            lance.dataset(self._path).delete(condition)
        else:
            opened = self._table.open_catalog().load_table("notes.texts")
            opened.delete(EqualTo(term="text", value=NOTES[1]))

    def restore(self) -> None:
        """Restore the table's first version."""
        if isinstance(self._table, OwnDelta):
            DeltaTable(self._path).restore(0)
        elif isinstance(self._table, OwnIceberg):
            opened = self._table.open_catalog().load_table("notes.texts")
            # A push makes several snapshots. Select the last snapshot before the newest rows were
            # added.
            texts = [
                (
                    each.snapshot_id,
                    sorted(
                        opened.scan(snapshot_id=each.snapshot_id).to_arrow()["text"].to_pylist()
                    ),
                )
                for each in opened.history()
            ]
            first = next(number for number, found in texts if found == sorted(NOTES))
            opened.manage_snapshots().rollback_to_snapshot(first).commit()
        else:
            lance.dataset(self._path, version=1).restore()  # type: ignore[no-untyped-call]


def _fit(names: list[str]) -> pa.Table:
    return pa.table({name: ["theirs"] for name in names})


@pytest.fixture(params=[OwnDelta, OwnLance, OwnIceberg])
def table(
    project: Project,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Table:
    """Return a table that does not exist yet. The pipeline writes Parquet."""
    use_parquet(project)
    made: Table = request.param(tmp_path)
    if isinstance(made, OwnIceberg):
        monkeypatch.setattr(iceberg, "load_catalog", lambda _: made.open_catalog())
    return made


@pytest.fixture
def other(table: Table, tmp_path: Path) -> Other:
    return Other(table, tmp_path)


@pytest.mark.parametrize("change", [Other.append, Other.delete])
def test_a_changed_table_gets_the_revision_again(
    run: Call, call: Call, table: Table, other: Other, change: Callable[[Other], None]
) -> None:
    run()
    push(call, table.target)
    change(other)
    assert table.read_texts() != NOTES
    assert push(call, table.target)["isNew"] is True
    assert table.read_texts() == NOTES
    assert push(call, table.target)["isNew"] is False


def test_a_restored_table_gets_the_revision_again(
    project: Project, run: Call, call: Call, table: Table, other: Other
) -> None:
    run()
    push(call, table.target)
    change_sources(project, run)
    push(call, table.target)
    other.restore()
    assert table.read_texts() == NOTES
    assert push(call, table.target)["isNew"] is True
    assert table.read_texts() == CHANGED


def test_a_commit_between_listing_and_push_is_replaced(
    project: Project,
    run: Call,
    call: Call,
    table: Table,
    other: Other,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run()
    push(call, table.target)
    change_sources(project, run)
    came: list[str] = []

    def interfere(step: str) -> None:
        if step == "push.uploaded" and not came:
            came.append(step)
            other.append()

    monkeypatch.setattr(faults, "reach", interfere)
    result = call("push", "pipeline.yaml", "--to", table.target)
    assert came
    if result.exit_code:  # the library itself rejected the commit
        assert isinstance(table, OwnIceberg)
        push(call, table.target)
    assert table.read_texts() == CHANGED


def test_a_continuously_active_writer_is_reported(
    run: Call, call: Call, tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_parquet(project)
    table = OwnDelta(tmp_path)
    other = Other(table, tmp_path)
    run()
    push(call, table.target)
    other.append()
    steps: dict[str, Callable[[], Any]] = {"push.committed": other.append}
    monkeypatch.setattr(faults, "reach", lambda step: steps.get(step, lambda: None)())
    result = call("push", "pipeline.yaml", "--to", table.target)
    assert result.exit_code == 73
    assert "another writer changed the table during the push (0 files" in result.stderr


def test_a_table_created_concurrently_by_another_pipeline_is_not_changed(
    run: Call, call: Call, tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_parquet(project)
    table = OwnLance(tmp_path)
    run()
    steps: dict[str, Callable[[], Any]] = {"push.uploaded": table.write_mine}
    monkeypatch.setattr(faults, "reach", lambda step: steps.get(step, lambda: None)())
    result = call("push", "pipeline.yaml", "--to", table.target)
    assert result.exit_code == 73
    assert "another writer has written this table" in result.stderr
    assert table.read_texts() == ["mine"]


def test_deletes_that_would_hide_rows_of_a_push_are_refused(
    run: Call, call: Call, tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_parquet(project)
    table = OwnIceberg(tmp_path)
    monkeypatch.setattr(iceberg, "load_catalog", lambda _: table.open_catalog())
    run()
    push(call, table.target)
    opened = table.open_catalog().load_table("notes.texts")
    add_deletes(opened, tmp_path / "deletes.parquet", DataFileContent.POSITION_DELETES)
    assert len(table.read_texts()) == 2
    result = call("push", "pipeline.yaml", "--to", table.target)
    assert result.exit_code == 73
    assert "the table has delete files" in result.stderr
