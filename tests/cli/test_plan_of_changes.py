"""`plan --list` for a run that processes finished sources again."""

from __future__ import annotations

import json

import pytest

from cli_project import Call, Project


@pytest.mark.parametrize(("on_change", "skipped"), [("Continue", 3), ("Redo", 0), ("Restart", 0)])
def test_what_is_done_again_is_not_to_be_skipped(
    project: Project, run: Call, call: Call, on_change: str, skipped: int
) -> None:
    run()
    project.spec["stages"].append({"use": "normalise-text"})
    project.spec["onChange"] = on_change
    project.save()
    planned = json.loads(call("plan", "pipeline.yaml", "--list", "--json").stdout)
    assert planned["sources"] == {"total": 3, "skipped": skipped}


def test_nothing_is_done_again_where_nothing_has_changed(
    project: Project, run: Call, call: Call
) -> None:
    run()
    for on_change in ("Redo", "Restart"):
        project.spec["onChange"] = on_change
        project.save()
        planned = json.loads(call("plan", "pipeline.yaml", "--list", "--json").stdout)
        assert planned["sources"] == {"total": 3, "skipped": 3}
