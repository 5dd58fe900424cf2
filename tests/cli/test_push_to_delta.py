"""`strandline push --to delta:TABLE`: one commit a revision, found again and never remade."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cli_project import Call, Project
from table_trials import change_fingerprint, change_sources, kill_push, push, use_parquet

TARGET = "delta:table"


@pytest.fixture(autouse=True)
def parquet(project: Project) -> None:
    """The pipeline writes Parquet."""
    use_parquet(project)


def read_texts(path: Path, version: int | None = None) -> list[str]:
    rows = DeltaTable(path / "table", version=version).to_pyarrow_table().to_pylist()
    return sorted(row["text"] for row in rows)


def count_commits(path: Path) -> int:
    return DeltaTable(path / "table").version() + 1


def test_one_commit_has_all_rows_and_the_run(run: Call, call: Call, tmp_path: Path) -> None:
    run()
    pushed = push(call, TARGET)
    assert (pushed["isNew"], pushed["files"]) == (True, 3)
    assert read_texts(tmp_path) == [f"Note number {n}.\n" for n in range(3)]
    (commit,) = DeltaTable(tmp_path / "table").history()
    assert commit["strandline.revision"] == pushed["revision"]
    assert commit["strandline.pipeline"] == "default/notes"
    assert commit["strandline.attempt"] == "1"
    assert {"strandline.fingerprint", "strandline.ledger", "strandline.run"} <= commit.keys()


def test_what_is_there_is_not_pushed_again(run: Call, call: Call, tmp_path: Path) -> None:
    run()
    push(call, TARGET)
    assert push(call, TARGET)["isNew"] is False
    assert count_commits(tmp_path) == 1


def test_changed_and_removed_sources_go_in_the_same_commit(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    run()
    push(call, TARGET)
    wanted = change_sources(project, run)
    pushed = push(call, TARGET)
    assert (pushed["isNew"], pushed["files"]) == (True, 2)  # what did not change stays
    assert read_texts(tmp_path) == wanted
    assert count_commits(tmp_path) == 2
    # Who reads the former snapshot finds it whole.
    assert read_texts(tmp_path, 0) == [f"Note number {n}.\n" for n in range(3)]


@pytest.mark.parametrize("step", ["push.uploaded", "push.committed"])
def test_law_a_commit_that_was_made_and_not_heard_of_is_never_made_twice(
    step: str, project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    run()
    kill_push(TARGET, step)
    assert push(call, TARGET)["isNew"] is (step == "push.uploaded")
    assert count_commits(tmp_path) == 1
    wanted = change_sources(project, run)
    kill_push(TARGET, step)
    assert push(call, TARGET)["isNew"] is (step == "push.uploaded")
    assert count_commits(tmp_path) == 2
    assert read_texts(tmp_path) == wanted


def test_a_source_that_goes_back_to_what_it_was_comes_back(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    run()
    push(call, TARGET)
    (project.path / "in/0.txt").write_text("Another note.\n")
    run()
    push(call, TARGET)
    (project.path / "in/0.txt").write_text("Note number 0.\n")
    run()
    assert push(call, TARGET)["isNew"] is True
    assert read_texts(tmp_path) == [f"Note number {n}.\n" for n in range(3)]


def test_a_table_that_was_compacted_stays_the_data_set(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    run()
    push(call, TARGET)
    DeltaTable(tmp_path / "table").optimize.compact()
    assert push(call, TARGET)["isNew"] is False
    wanted = change_sources(project, run)
    push(call, TARGET)
    assert read_texts(tmp_path) == wanted


def test_somebody_elses_table_is_left_alone(run: Call, call: Call, tmp_path: Path) -> None:
    run()
    write_deltalake(tmp_path / "table", pa.table({"text": ["mine"]}))
    result = call("push", "pipeline.yaml", "--to", TARGET)
    assert result.exit_code == 73
    assert "somebody else has written this table" in result.stderr
    assert read_texts(tmp_path) == ["mine"]


def test_other_columns_are_refused_before_anything_is_written(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    run()
    push(call, TARGET)
    project.spec["stages"].append({"use": "select-columns", "with": {"columns": ["text"]}})
    project.spec["onChange"] = "Restart"
    project.save()
    assert run().exit_code == 0
    result = call("push", "pipeline.yaml", "--to", TARGET)
    assert result.exit_code == 73
    assert "a table has one schema" in result.stderr
    assert count_commits(tmp_path) == 1


def test_lines_are_no_table(project: Project, run: Call, call: Call) -> None:
    project.spec["sink"] = {"use": "jsonl"}
    project.save()
    run()
    result = call("push", "pipeline.yaml", "--to", TARGET)
    assert result.exit_code == 73
    assert "a table takes Parquet alone" in result.stderr


def test_another_pipeline_with_the_same_files_is_another_revision(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    run()
    first = push(call, TARGET)
    change_fingerprint(project, run)
    second = push(call, TARGET)
    assert first["revision"] != second["revision"]
    assert (second["isNew"], second["files"]) == (True, 0)
    assert count_commits(tmp_path) == 2
    assert read_texts(tmp_path) == [f"Note number {n}.\n" for n in range(3)]
