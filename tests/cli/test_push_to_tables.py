"""`strandline push` to Delta and Lance: each revision is committed once, and found again later."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_project import Call, Project
from own_tables import OwnDelta, OwnLance, OwnTable
from table_trials import (
    LENGTHS,
    add_length,
    change_fingerprint,
    change_sources,
    kill_push,
    push,
    use_parquet,
)


@pytest.fixture(params=[OwnDelta, OwnLance])
def table(project: Project, tmp_path: Path, request: pytest.FixtureRequest) -> OwnTable:
    """Return a table that does not exist yet. The pipeline writes Parquet."""
    use_parquet(project)
    made: OwnTable = request.param(tmp_path)
    return made


def test_one_commit_has_all_rows_and_the_run(run: Call, call: Call, table: OwnTable) -> None:
    run()
    pushed = push(call, table.target)
    assert (pushed["isNew"], pushed["files"]) == (True, 3)
    assert table.read_texts() == [f"Note number {n}.\n" for n in range(3)]
    commit = table.read_properties()
    assert commit["strandline.revision"] == pushed["revision"]
    assert commit["strandline.pipeline"] == "default/notes"
    assert commit["strandline.attempt"] == "1"
    assert {"strandline.fingerprint", "strandline.ledger", "strandline.run"} <= commit.keys()


def test_an_existing_revision_is_not_pushed_again(run: Call, call: Call, table: OwnTable) -> None:
    run()
    push(call, table.target)
    assert push(call, table.target)["isNew"] is False
    assert table.count_commits() == 1


def test_changed_and_removed_sources_share_a_commit(
    project: Project, run: Call, call: Call, table: OwnTable
) -> None:
    run()
    push(call, table.target)
    wanted = change_sources(project, run)
    pushed = push(call, table.target)
    assert (pushed["isNew"], pushed["files"]) == (True, 2)  # unchanged files are kept
    assert table.read_texts() == wanted
    assert table.count_commits() == 2
    # The previous snapshot stays complete for its readers.
    assert table.read_texts(table.first) == [f"Note number {n}.\n" for n in range(3)]


@pytest.mark.parametrize("step", ["push.uploaded", "push.committed"])
def test_law_a_commit_without_an_answer_is_never_repeated(
    step: str, project: Project, run: Call, call: Call, table: OwnTable
) -> None:
    run()
    kill_push(table.target, step)
    assert push(call, table.target)["isNew"] is (step == "push.uploaded")
    assert table.count_commits() == 1
    wanted = change_sources(project, run)
    kill_push(table.target, step)
    assert push(call, table.target)["isNew"] is (step == "push.uploaded")
    assert table.count_commits() == 2
    assert table.read_texts() == wanted


def test_a_reverted_source_is_restored(
    project: Project, run: Call, call: Call, table: OwnTable
) -> None:
    run()
    push(call, table.target)
    (project.path / "in/0.txt").write_text("Another note.\n")
    run()
    push(call, table.target)
    (project.path / "in/0.txt").write_text("Note number 0.\n")
    run()
    assert push(call, table.target)["isNew"] is True
    assert table.read_texts() == [f"Note number {n}.\n" for n in range(3)]


def test_a_compacted_table_is_still_recognized(
    project: Project, run: Call, call: Call, table: OwnTable
) -> None:
    run()
    push(call, table.target)
    table.compact()
    assert push(call, table.target)["isNew"] is False
    wanted = change_sources(project, run)
    push(call, table.target)
    assert table.read_texts() == wanted


def test_a_foreign_table_is_not_changed(run: Call, call: Call, table: OwnTable) -> None:
    run()
    table.write_mine()
    result = call("push", "pipeline.yaml", "--to", table.target)
    assert result.exit_code == 73
    assert "another writer has written this table" in result.stderr
    assert table.read_texts() == ["mine"]


def test_other_columns_are_refused_before_anything_is_written(
    project: Project, run: Call, call: Call, table: OwnTable
) -> None:
    run()
    push(call, table.target)
    project.spec["stages"].append({"use": "select-columns", "with": {"columns": ["text"]}})
    project.spec["onChange"] = "Restart"
    project.save()
    assert run().exit_code == 0
    result = call("push", "pipeline.yaml", "--to", table.target)
    assert result.exit_code == 73
    assert "a table has one schema" in result.stderr
    assert table.count_commits() == 1


def test_lines_cannot_be_pushed_to_a_table(
    project: Project, run: Call, call: Call, table: OwnTable
) -> None:
    project.spec["sink"] = {"use": "jsonl"}
    project.save()
    run()
    result = call("push", "pipeline.yaml", "--to", table.target)
    assert result.exit_code == 73
    assert "tables support only Parquet" in result.stderr


def test_another_pipeline_with_the_same_files_is_another_revision(
    project: Project, run: Call, call: Call, table: OwnTable
) -> None:
    run()
    first = push(call, table.target)
    change_fingerprint(project, run)
    second = push(call, table.target)
    assert first["revision"] != second["revision"]
    assert (second["isNew"], second["files"]) == (True, 0)
    assert table.count_commits() == 2
    assert table.read_texts() == [f"Note number {n}.\n" for n in range(3)]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_new_column_is_added_and_null_for_older_files(
    is_killed: bool, project: Project, run: Call, call: Call, table: OwnTable
) -> None:
    run()
    push(call, table.target)
    add_length(project, run)
    if is_killed:
        kill_push(table.target, "push.widened")
        assert table.read_texts() == [f"Note number {n}.\n" for n in range(3)]
    pushed = push(call, table.target)
    assert (pushed["isNew"], pushed["files"]) == (True, 1)  # unchanged files are kept
    assert {row["text"]: row["length"] for row in table.read_rows()} == LENGTHS
    assert "length" not in table.read_rows(table.first)[0]
    assert push(call, table.target)["isNew"] is False
