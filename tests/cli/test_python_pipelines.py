"""Pipelines that were built in Python: their results as methods, and by VOLUME/NAME."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_project import Call
from strandline import Outcome, Pipeline
from strandline.stages import FilterRows, JsonlFiles, ParquetSink, ReadJsonl

RULES = "def is_long(text):\n    return len(text) > 2\n"


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("note_rules.py").write_text(RULES)
    rows = [{"key": f"k{at}", "text": "x" * at} for at in range(6)]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    keep = FilterRows(function="note_rules:is_long", reason="short", reason_column="why")
    return Pipeline(
        "notes",
        source=JsonlFiles(paths=["*.jsonl"]),
        stages=[ReadJsonl(), keep],
        sink=ParquetSink(),
    )


@pytest.fixture
def outcome(pipeline: Pipeline) -> Outcome:
    return pipeline.run("data", engine="inline", progress=False)


@pytest.mark.usefixtures("outcome")
def test_methods_give_what_the_commands_print(pipeline: Pipeline, call: Call) -> None:
    assert pipeline.verify("data").problems == []
    assert pipeline.failures("data") == []
    (short,) = pipeline.dropped("data", examples=1)
    assert (short["reason"], short["count"]) == ("short", 3)
    assert "attempt 1 completed" in pipeline.top("data")
    assert b"short" in pipeline.report("data", out="notes.html").read_bytes()
    assert "filter-rows" in pipeline.card("data")
    assert json.loads(call("dropped", "data/notes", "--examples", "1", "--json").stdout) == [short]


@pytest.mark.usefixtures("outcome")
@pytest.mark.parametrize("named", ["data/notes", "data/default/notes", "data/notes/"])
def test_commands_find_a_pipeline_by_its_folder(call: Call, named: str) -> None:
    shown = call("verify", named, "--json")
    assert json.loads(shown.stdout)["verified"] is True, shown.stderr
    assert call("plan", named).exit_code == 0
    assert "3" in call("attempts", named).stdout


@pytest.mark.usefixtures("outcome")
def test_the_written_manifest_runs_the_same_recipe(call: Call) -> None:
    again = call("run", "data/notes", "--engine", "inline", "--no-supervise")
    assert "nothing left to do" in again.stderr + again.stdout


def test_a_refused_run_keeps_the_manifest(pipeline: Pipeline, outcome: Outcome) -> None:
    before = Path("data/default/notes/pipeline.yaml").read_text()
    changed = Pipeline("notes", source=JsonlFiles(paths=["*"]), sink=ParquetSink())
    with pytest.raises(Exception, match="is not the one that wrote this ledger"):
        changed.run("data", engine="inline", progress=False)
    assert Path("data/default/notes/pipeline.yaml").read_text() == before
    assert outcome.sample(1) == [{"key": "k0", "text": "", "why": "short"}]


@pytest.mark.parametrize(
    ("named", "message"),
    [("nothing", "the file does not exist"), ("empty", "pass the YAML file in it, or the folder")],
)
def test_other_folders_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call, named: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    result = call("verify", named)
    assert result.exit_code
    assert message in result.stderr


def test_a_notebook_shows_rows(outcome: Outcome) -> None:
    shown = outcome._repr_html_()
    assert "<th>text</th>" in shown
    assert shown.count("<tr>") == 6
