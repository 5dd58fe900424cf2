"""If another writer changed a table since the last publication, the next run is refused early."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from cli_project import Call, Project, read_errors
from own_tables import OwnDelta, OwnIceberg, OwnLance
from strandline.data.tables.formats import iceberg
from strandline_api.outcome.exit_codes import ExitCode
from table_trials import use_parquet

COLUMNS = ["key", "text", "length"]
OTHER = "another writer has"
LENGTH = (
    "def process(self, task):\n"
    "    import pyarrow.compute as pc\n"
    "    length = pc.utf8_length(task.table.column('text'))\n"
    "    return task.replace(task.table.append_column('length', length))"
)


@pytest.fixture(autouse=True)
def pipeline(project: Project) -> None:
    """Declare three output columns, including a number."""
    use_parquet(project)
    project.add_stage(LENGTH)
    project.spec["stages"].append({"use": "select-columns", "with": {"columns": COLUMNS}})


def publish(project: Project, run: Call, target: str) -> None:
    project.spec["publish"] = {"to": target}
    project.save()
    result = run()
    assert result.exit_code == 0, result.stderr


def check_refused(project: Project, run: Call, sentence: str) -> None:
    """Check that the next run ends with this message before it does any work."""
    (project.path / "in/9.txt").write_text("A new note.\n")
    outputs = project.list_outputs()
    result = run()
    assert result.exit_code == ExitCode.VOLUME_UNUSABLE
    said = read_errors(result)
    assert sentence in said
    assert (said.count("\n"), said.endswith("; name another table")) == (0, True)
    assert project.list_outputs() == outputs
    assert len(list((project.folder / "attempts").glob("[0-9]*"))) == 1


def overwrite(path: Path, rows: pa.Table, partition_by: str | None = None) -> None:
    write_deltalake(
        path, rows, mode="overwrite", schema_mode="overwrite", partition_by=partition_by
    )


def read_delta(path: Path) -> pa.Table:
    return pa.table(DeltaTable(path).to_pyarrow_table())


def change_type(path: Path) -> None:
    rows = read_delta(path)
    at = rows.column_names.index("length")
    overwrite(path, rows.set_column(at, "length", pc.cast(rows["length"], pa.string())))


def require_keys(path: Path) -> None:
    rows = read_delta(path)
    fields = [field.with_nullable(field.name != "key") for field in rows.schema]
    overwrite(path, rows.cast(pa.schema(fields)))


def recreate(path: Path, schema: Schema, **configuration: str | None) -> None:
    DeltaTable.create(path, schema, mode="overwrite", configuration=configuration)


def map_columns(path: Path) -> None:
    settings = {"delta.columnMapping.mode": "name"}
    recreate(path, Schema.from_arrow(read_delta(path).schema), **settings)


def compute_length(path: Path) -> None:
    rule = {"delta.generationExpression": "length(text)"}
    fields = [
        Field(each.name, each.type, metadata=rule if each.name == "length" else {})
        for each in DeltaTable(path).schema().fields
    ]
    recreate(path, Schema(fields))


def add_mood(path: Path) -> None:
    rows = read_delta(path)
    overwrite(path, rows.append_column("mood", pa.array(["calm"] * len(rows))))


def set_delta(name: str) -> Callable[[Path], None]:
    return lambda path: DeltaTable(path).alter.set_table_properties({name: "true"})


DELTA_CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "type": (change_type, f"{OTHER} changed the column 'length' int32 into text"),
    "gone": (
        lambda path: overwrite(path, read_delta(path).drop_columns(["length"])),
        f"{OTHER} dropped or renamed the column 'length'",
    ),
    "more": (add_mood, "has a column 'mood', but the columns of the pipeline are: key, text"),
    "required": (require_keys, "the table forbids nulls in 'key'"),
    "partitioned": (
        lambda path: overwrite(path, read_delta(path), "text"),
        "partitioned by 'text'",
    ),
    "mapped": (map_columns, "maps columns to other names"),
    "computed": (compute_length, "the table has a rule for 'length'"),
    "constraint": (
        lambda path: DeltaTable(path).alter.add_constraint({"long": "length > 0"}),
        "has the constraint 'long'",
    ),
    "append only": (set_delta("delta.appendOnly"), "the table is append-only"),
    "vectors": (set_delta("delta.enableDeletionVectors"), "has deletion vectors"),
}


@pytest.mark.parametrize("change", DELTA_CHANGES)
def test_an_incompatible_delta_table_is_refused_before_work(
    change: str, project: Project, run: Call, tmp_path: Path
) -> None:
    publish(project, run, OwnDelta.target)
    alter, sentence = DELTA_CHANGES[change]
    alter(tmp_path / "table")
    check_refused(project, run, sentence)


def alter_lance(**how: Any) -> Callable[[lance.LanceDataset], object]:
    asked: Any = how  # lance's type annotation allows only one kind of change
    return lambda table: table.alter_columns(asked)


LANCE_CHANGES: dict[str, tuple[Callable[[lance.LanceDataset], object], str]] = {
    "type": (
        alter_lance(path="length", data_type=pa.int64()),
        f"{OTHER} changed the column 'length' int32 into int",
    ),
    "gone": (
        lambda table: table.drop_columns(["length"]),
        f"{OTHER} dropped or renamed the column 'length'",
    ),
    "renamed": (
        alter_lance(path="text", name="words"),
        f"{OTHER} dropped or renamed the column 'text'",
    ),
    "more": (lambda table: table.add_columns({"mood": "'calm'"}), "has a column 'mood'"),
    "required": (
        alter_lance(path="key", nullable=False),
        "the table forbids nulls in 'key'",
    ),
}


@pytest.mark.parametrize("change", LANCE_CHANGES)
def test_an_incompatible_lance_data_set_is_refused_before_work(
    change: str, project: Project, run: Call, tmp_path: Path
) -> None:
    publish(project, run, OwnLance.target)
    alter, sentence = LANCE_CHANGES[change]
    alter(lance.dataset(tmp_path / "table"))
    check_refused(project, run, sentence)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnIceberg:
    own = OwnIceberg(tmp_path)
    # pyiceberg reads the environment variables of catalogs on import, so before this test.
    monkeypatch.setattr(iceberg, "load_catalog", lambda _: own.open_catalog())
    return own


def rename_text(table: Table) -> None:
    with table.update_schema() as columns:
        columns.rename_column("text", "words")


def drop_length(table: Table) -> None:
    with table.update_schema() as columns:
        columns.delete_column("length")


def replace_length(table: Table) -> None:
    drop_length(table)
    with table.update_schema() as columns:
        columns.add_column("length", StringType())


def add_a_mood(table: Table) -> None:
    with table.update_schema() as columns:
        columns.add_column("mood", StringType())


def require_a_key(table: Table) -> None:
    with table.update_schema(allow_incompatible_changes=True) as columns:
        columns.update_column("key", required=True)


def partition_by_text(table: Table) -> None:
    with table.update_spec() as parts:
        parts.add_identity("text")


ICEBERG_CHANGES: dict[str, tuple[Callable[[Table], None], str]] = {
    "type": (replace_length, f"{OTHER} changed the column 'length' int32 into text"),
    "gone": (drop_length, f"{OTHER} dropped or renamed the column 'length'"),
    "renamed": (rename_text, f"{OTHER} dropped or renamed the column 'text'"),
    "more": (add_a_mood, "has a column 'mood'"),
    "required": (require_a_key, "the table forbids nulls in 'key'"),
    "partitioned": (partition_by_text, "partitioned by 'text'"),
}


@pytest.mark.parametrize("change", ICEBERG_CHANGES)
def test_an_incompatible_iceberg_table_is_refused_before_work(
    change: str, project: Project, run: Call, own: OwnIceberg
) -> None:
    publish(project, run, own.target)
    alter, sentence = ICEBERG_CHANGES[change]
    alter(own.open_catalog().load_table("notes.texts"))
    check_refused(project, run, sentence)


def test_a_wider_number_type_of_iceberg_is_accepted(
    project: Project, run: Call, own: OwnIceberg
) -> None:
    publish(project, run, own.target)
    with own.open_catalog().load_table("notes.texts").update_schema() as columns:
        columns.update_column("length", field_type=LongType())
    (project.path / "in/9.txt").write_text("A new note.\n")
    publish(project, run, own.target)
    rows = own.open_catalog().load_table("notes.texts").scan().to_arrow()
    assert rows.schema.field("length").type == pa.int64()
    assert sorted(rows["length"].to_pylist()) == [12, 15, 15, 15]


def test_a_column_dropped_on_both_sides_is_ignored(
    project: Project, run: Call, own: OwnIceberg
) -> None:
    """The column is dropped from the table and from the pipeline."""
    publish(project, run, own.target)
    drop_length(own.open_catalog().load_table("notes.texts"))
    project.spec["stages"][-1]["with"]["columns"] = ["key", "text"]
    project.spec["onChange"] = "Restart"
    publish(project, run, own.target)
    assert own.count_commits() == 2


@pytest.mark.parametrize("target", [OwnDelta.target, OwnLance.target])
def test_an_unreachable_table_is_reported_at_the_end(
    target: str, project: Project, run: Call, tmp_path: Path
) -> None:
    broken = {"delta": "_delta_log/00000000000000000000.json", "lance": "_versions/1.manifest"}
    file = tmp_path / "table" / broken[target.partition(":")[0]]
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no such thing")
    project.spec["publish"] = {"to": target}
    project.save()
    result = run()
    assert result.exit_code == ExitCode.VOLUME_UNUSABLE
    assert "the table rejected the write" in read_errors(result)
    assert len([name for name in project.list_outputs() if name.endswith(".parquet")]) == 3


def test_lines_are_refused_before_work(project: Project, run: Call) -> None:
    project.spec["sink"] = {"use": "jsonl"}
    project.spec["publish"] = {"to": OwnDelta.target}
    project.save()
    result = run()
    assert result.exit_code == ExitCode.VOLUME_UNUSABLE
    assert "tables support only Parquet; use the sink parquet" in read_errors(result)
    assert not project.folder.exists()
