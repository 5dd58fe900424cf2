"""`strandline card` writes a folder that loads as a data set, and a card that describes the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
import yaml

from cli_project import Call, Project, read_errors
from strandline.ledger.store.store import Store
from strandline.storage.layout import PipelineFolder


def read_front(text: str) -> dict[str, Any]:
    head, front, _ = text.split("---\n", 2)
    assert head == ""
    found: dict[str, Any] = yaml.safe_load(front)
    return found


def show(call: Call, *words: str) -> str:
    result = call("card", "pipeline.yaml", "--out", "-", *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def place(project: Project) -> Path:
    return project.folder / "output"


def use_sink(project: Project, use: str, **params: Any) -> None:
    project.spec["sink"] = {"use": use, **({"with": params} if params else {})}
    project.save()


@pytest.mark.parametrize(
    ("use", "params", "suffix"),
    [
        ("parquet", {}, "parquet"),
        ("jsonl", {}, "jsonl"),
        ("jsonl", {"compression": "gzip"}, "jsonl.gz"),
    ],
)
def test_the_folder_loads_by_its_card(
    use: str,
    params: dict[str, Any],
    suffix: str,
    project: Project,
    run: Call,
    call: Call,
    tmp_path: Path,
) -> None:
    from datasets import load_dataset  # noqa: PLC0415 - heavy, and needed nowhere else

    use_sink(project, use, **params)
    assert run().exit_code == 0
    result = call("card", "pipeline.yaml", "--license", "CC-BY-4.0")
    assert (result.exit_code, result.stdout) == (0, "")

    loaded = load_dataset(str(place(project)), cache_dir=str(tmp_path / "cache"))

    assert list(loaded) == ["train"]
    texts = sorted(loaded["train"]["text"])
    assert texts == [f"Note number {number}.\n" for number in range(3)]
    (pattern,) = read_front((place(project) / "README.md").read_text())["configs"][0]["data_files"][
        0
    ]["path"]
    assert pattern == f"*/*/*.{suffix}"
    found = f"{place(project)}/{pattern}"
    read = duckdb.read_parquet if use == "parquet" else duckdb.read_json
    assert sorted(read(found).project("text").fetchall()) == [(text,) for text in texts]
    rows = pl.read_parquet(found) if use == "parquet" else pl.scan_ndjson(found).collect()
    assert sorted(rows["text"]) == texts


def test_the_card_does_not_break_verification(project: Project, run: Call, call: Call) -> None:
    run()
    call("card", "pipeline.yaml")
    assert (place(project) / "README.md").exists()
    assert call("verify", "pipeline.yaml").exit_code == 0
    (place(project) / "other.md").write_text("somebody's")
    assert call("verify", "pipeline.yaml").exit_code == 65
    (place(project) / "other.md").unlink()
    assert run().exit_code == 0
    assert (place(project) / "README.md").exists()


def test_the_card_describes_the_run(project: Project, run: Call, call: Call) -> None:
    project.document["metadata"]["annotations"] = {
        "strandline.dev/license": "apache-2.0",
        "strandline.dev/pretty-name": "Notes | of <mine>",
    }
    project.spec["stages"][0]["with"] = {"onError": "drop"}
    own = project.add_stage(
        "def process(self, task: Task) -> Task | None:\n"
        "    if len(str(task.table['text'][0])) > 10:\n"
        "        return task\n"
        "    self.count('dropped: too short')"
    )
    (project.path / "in/0.txt").write_text("Short.\n")
    run()
    text = show(call)
    front = read_front(text)
    assert front["pretty_name"] == "Notes | of <mine>"
    assert front["license"] == "apache-2.0"
    assert front["size_categories"] == ["n<1K"]
    stats = json.loads(call("plan", "pipeline.yaml", "--json").stdout)
    store = Store(PipelineFolder(project.folder).ledger, readonly=True)
    ledger = store.read_meta("id")
    store.close()
    for words in (
        "2 rows in 2 files",
        "of 3 sources",
        "onError: drop",
        own,
        "in/*.txt",
        "The files of finished sources have 2 rows.",
        stats["fingerprint"],
        ledger,
        "default/notes",
    ):
        assert words in text.replace("\\", ""), words
    (line,) = [line for line in text.splitlines() if line.startswith("| own")]
    assert [cell.strip() for cell in line.split("|")[2:6]] == ["3", "2", "0", "1 too short"]
    assert "not complete" not in text


def test_parameters_that_differ_from_the_run_are_refused(
    project: Project, run: Call, call: Call
) -> None:
    run()
    project.spec["stages"].append({"use": "filter-text-quality"})
    project.save()
    result = call("card", "pipeline.yaml", "--out", "-")
    assert (result.exit_code, result.stdout) == (65, "")
    assert "the pipeline is not the one that wrote this data set" in read_errors(result)


def test_an_incomplete_data_set_is_marked(project: Project, run: Call, call: Call) -> None:
    project.add_stage(
        "def process(self, task: Task) -> Task:\n"
        "    if 'number 1' in str(task.table['text'][0]):\n"
        "        raise ValueError('bad')\n"
        "    return task"
    )
    assert run().exit_code == 3
    text = show(call)
    assert "**It is not complete**: 2 of 3 sources are finished (1 failed)" in text
    named = read_front(text)["configs"][0]["data_files"][0]["path"]
    assert named == sorted(project.list_outputs())


def test_a_card_without_a_run_is_refused(project: Project, call: Call) -> None:
    result = call("card", "pipeline.yaml")
    assert result.exit_code == 65
    assert "there is no ledger" in read_errors(result)
    assert not project.folder.exists()


def test_an_unknown_license_is_refused(project: Project, run: Call, call: Call) -> None:
    run()
    result = call("card", "pipeline.yaml", "--license", "ask me")
    assert result.exit_code == 64
    assert "'ask me' is not a license identifier" in result.stderr
    result = call("card", "pipeline.yaml")
    assert "the card names no license" in result.stderr
    assert "license" not in read_front((place(project) / "README.md").read_text())


def test_an_unwritable_place_is_named(project: Project, run: Call, call: Call) -> None:
    run()
    result = call("card", "pipeline.yaml", "--out", "nowhere/card.md")
    assert result.exit_code == 64
    assert "nowhere/card.md: can't be written" in result.stderr
