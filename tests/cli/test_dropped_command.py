"""`strandline dropped`: the marked rows, counted by reason, with examples of each reason."""

from __future__ import annotations

import json

import pytest

from cli_project import Call, Project, read_errors

MARK = {"reasonColumn": "why"}


def write(project: Project, sink: str, marks: bool = True) -> None:
    lines = [{"key": f"k{at}", "text": "word " * at, "n": at} for at in range(30)]
    (project.path / "in/rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    project.spec["source"] = {"use": "jsonl-files", "with": {"paths": ["in/rows.jsonl"]}}
    rule = {
        "use": "keep-rows",
        "with": {"where": "n >= 10", "reason": "few"} | (MARK if marks else {}),
    }
    short = {
        "use": "keep-rows",
        "with": {"where": "n < 25", "reason": "many"} | (MARK if marks else {}),
    }
    project.spec["stages"] = [
        {"use": "read-jsonl"},
        {"name": "long", **rule},
        {"name": "short", **short},
    ]
    project.spec["sink"] = {"use": sink}
    project.save()


@pytest.mark.parametrize("sink", ["jsonl", "parquet"])
def test_dropped_rows_are_counted_by_reason_with_examples(
    project: Project, call: Call, sink: str
) -> None:
    write(project, sink)
    assert 0 == project.execute("run", "--engine", "inline").returncode
    result = call("dropped", "pipeline.yaml", "--examples", "3", "--json")
    assert (0, "") == (result.exit_code, result.stderr)
    found = json.loads(result.stdout)
    assert [10, 5] == [group["count"] for group in found]
    assert [3, 3] == [len(group["examples"]) for group in found]
    assert all(int(row["key"][1:]) < 10 for row in found[0]["examples"])
    assert all(int(row["key"][1:]) >= 25 for row in found[1]["examples"])
    text = call("dropped", "pipeline.yaml").stdout
    assert f"{found[0]['reason']}: 10 rows\n  k0\n  k1  word\n" in text
    assert text == call("dropped", "pipeline.yaml").stdout


def test_a_pipeline_without_marks_is_reported_with_the_setting(
    project: Project, call: Call
) -> None:
    write(project, "jsonl", marks=False)
    result = call("dropped", "pipeline.yaml")
    assert (0, "") == (result.exit_code, result.stderr)
    assert "reasonColumn: why" in result.stdout
    assert "keeps these rows in the output" in result.stdout  # a warning about keeping it set


def test_a_missing_ledger_is_reported(project: Project, call: Call) -> None:
    write(project, "jsonl")
    result = call("dropped", "pipeline.yaml")
    assert 0 != result.exit_code
    assert read_errors(result)


def test_the_absence_of_marked_rows_is_reported(project: Project, call: Call) -> None:
    write(project, "jsonl")
    (project.path / "in/rows.jsonl").write_text('{"key": "a", "text": "a", "n": 12}\n')
    assert 0 == project.execute("run", "--engine", "inline").returncode
    assert "no row has a reason in why\n" == call("dropped", "pipeline.yaml").stdout
