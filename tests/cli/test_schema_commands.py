"""What `plan` and `verify` report about the schema of a run."""

from __future__ import annotations

import json
from typing import Any

from cli_project import Call, Project


def set_reader(project: Project, *rows: dict[str, Any], **reader: Any) -> None:
    """Set up a pipeline over one file per row."""
    folder = project.path / "lines"
    folder.mkdir()
    for number, row in enumerate(rows):
        (folder / f"{number}.jsonl").write_text(json.dumps(row))
    source = {"use": "jsonl-files", "with": {"paths": ["lines/*.jsonl"]}}
    stages = [{"use": "read-jsonl", "with": reader}]
    project.spec.update(source=source, stages=stages, sink={"use": "parquet"})
    project.save()


def test_plan_shows_schemas_to_infer_and_inferred_schemas(
    project: Project, run: Call, call: Call
) -> None:
    set_reader(project, {"score": 1}, {"score": 1.5}, schema={"infer": 2})
    before = json.loads(call("plan", "pipeline.yaml", "--json").stdout)
    assert before["schema"] == "inferred from the first sources when a run begins, 2 of them"
    result = run()
    assert result.exit_code == 0
    after = call("plan", "pipeline.yaml")
    assert "schema       {key: text, score: float}" in after.stdout.splitlines()
    assert "read-jsonl   key, score" in after.stdout.splitlines()
    assert json.loads(call("verify", "pipeline.yaml", "--json").stdout)["difference"] is None


def test_verify_reports_files_with_incompatible_schemas(
    project: Project, run: Call, call: Call
) -> None:
    set_reader(project, {"score": 1}, {"score": 1.5}, {"score": None}, schema="perTask")
    assert run().exit_code == 0
    result = call("verify", "pipeline.yaml")
    assert result.exit_code == 0
    verified, note = result.stdout.splitlines()
    assert verified.startswith("verified: 3 finished sources")
    assert note.startswith("note: the column 'score' is ")
    assert {"int", "float"} <= set(note.split())
    assert "note" not in call("verify", "pipeline.yaml", "--no-bytes").stdout
