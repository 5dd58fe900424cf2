"""`plan --list` for a run that will process finished sources again."""

from __future__ import annotations

import copy
import json

import pytest
import yaml

from cli_project import Call, Project


@pytest.mark.parametrize(("on_change", "skipped"), [("Continue", 3), ("Redo", 0), ("Restart", 0)])
def test_sources_to_redo_are_not_counted_as_skipped(
    project: Project, run: Call, call: Call, on_change: str, skipped: int
) -> None:
    run()
    project.spec["stages"].append({"use": "normalise-text"})
    project.spec["onChange"] = on_change
    project.save()
    planned = json.loads(call("plan", "pipeline.yaml", "--list", "--json").stdout)
    assert planned["sources"] == {"total": 3, "skipped": skipped}


@pytest.mark.parametrize("on_change", ["Fail", "Redo", "Restart", "Continue"])
def test_pipelines_after_a_changed_one_are_outdated(
    project: Project, run: Call, call: Call, on_change: str
) -> None:
    run()

    def write(name: str, before: str) -> str:
        behind = copy.deepcopy(project.document)
        behind["metadata"]["name"] = name
        paths = [{"pipeline": before, "files": "**/*.jsonl"}]
        behind["spec"] |= {
            "source": {"use": "jsonl-files", "with": {"paths": paths}},
            "stages": [{"use": "read-jsonl"}],
            "sink": {"use": "jsonl"},
        }
        (project.path / f"{name}.yaml").write_text(yaml.safe_dump(behind))
        return f"{name}.yaml"

    files = ["pipeline.yaml", write("second", "notes"), write("third", "second")]
    for file in files:
        ran = call("run", file, "--engine", "inline")
        assert ran.exit_code == 0, ran.output

    def plan(*more: str) -> list[list[str]]:
        lines = call("plan", *files, "--json", *more).stdout.splitlines()
        return [json.loads(line)["outdatedBy"] for line in lines]

    assert plan() == [[], [], []]
    project.spec["stages"].append({"use": "normalise-text"})
    project.spec["onChange"] = on_change
    project.save()
    stays = on_change == "Continue"
    assert plan() == ([[], [], []] if stays else [[], ["notes"], ["second"]])
    shown = call("plan", *files).stdout
    assert (
        "outdated because 'notes' changes: run that pipeline first, then this" in shown
    ) != stays


def test_nothing_is_redone_without_a_change(project: Project, run: Call, call: Call) -> None:
    run()
    for on_change in ("Redo", "Restart"):
        project.spec["onChange"] = on_change
        project.save()
        planned = json.loads(call("plan", "pipeline.yaml", "--list", "--json").stdout)
        assert planned["sources"] == {"total": 3, "skipped": 3}
