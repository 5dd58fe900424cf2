"""A pipeline whose source is a table: of a new version only what changed is worked on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from cli_project import Call, Project

Change = Callable[[Path], object]


def write_delta(path: Path, texts: list[str]) -> None:
    write_deltalake(path, pa.table({"text": texts}), mode="append")


def write_lance(path: Path, texts: list[str]) -> None:
    lance.write_dataset(
        pa.table({"text": texts}), path, mode="append" if path.exists() else "create"
    )


@pytest.fixture(params=["delta", "lance"])
def kind(request: pytest.FixtureRequest, project: Project) -> str:
    """A table of two data files, which the pipeline reads."""
    kind: str = request.param
    write = write_delta if kind == "delta" else write_lance
    for texts in (["tide", "moon"], ["sand", "reef"]):
        write(project.path / "table", texts)
    source = {"table": f"{kind}:table", "onRemoved": "Delete"}
    project.spec["source"] = {"use": "table-files", "with": source}
    project.spec["stages"] = [{"use": "read-table", "with": {"columns": ["text"]}}]
    project.spec["sink"] = {"use": "parquet"}
    project.save()
    return kind


def read_texts(project: Project) -> list[str]:
    files = (project.folder / "output").rglob("*.parquet")
    return sorted(
        text for file in files for text in pq.ParquetFile(file).read()["text"].to_pylist()
    )


def delete(project: Project, kind: str, condition: str) -> None:
    path = project.path / "table"
    if kind == "delta":
        DeltaTable(path).delete(condition)
    else:
        lance.dataset(path).delete(condition)


def test_changed_files_are_read_anew_and_removed_ones_go(
    kind: str, project: Project, run: Call
) -> None:
    assert "all 2 sources" in run().stdout
    assert read_texts(project) == ["moon", "reef", "sand", "tide"]
    assert "nothing left to do" in run().stdout
    kept = {name for name in project.list_outputs() if name.endswith(".parquet")}

    delete(project, kind, "text = 'moon'")
    assert run().exit_code == 0
    assert read_texts(project) == ["reef", "sand", "tide"]
    now = {name for name in project.list_outputs() if name.endswith(".parquet")}
    assert len(kept & now) == 1  # the other data file was not read

    delete(project, kind, "text = 'tide'")
    assert run().exit_code == 0
    assert read_texts(project) == ["reef", "sand"]


def test_an_older_version_has_what_it_had(kind: str, project: Project, run: Call) -> None:
    older = {"delta": 0, "lance": 1}[kind]
    project.spec["source"]["with"]["snapshot"] = older
    project.save()
    assert run().exit_code == 0
    assert read_texts(project) == ["moon", "tide"]
    del project.spec["source"]["with"]["snapshot"]
    project.save()
    assert run().exit_code == 0  # no other fingerprint, and one source more
    assert read_texts(project) == ["moon", "reef", "sand", "tide"]


def test_a_table_that_is_not_there_ends_the_run_in_a_sentence(
    kind: str, project: Project, run: Call
) -> None:
    project.spec["source"]["with"]["table"] = f"{kind}:nowhere"
    project.save()
    result = run()
    assert result.exit_code != 0
    assert "can be read" in result.stderr
    assert "Traceback" not in result.stderr


def test_what_one_run_publishes_another_reads(project: Project, run: Call, call: Call) -> None:
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
