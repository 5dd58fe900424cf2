"""What `plan` reports about the cost of a kill at the worst moment, and how to lower the cost."""

from __future__ import annotations

import json

import pytest

from cli_project import Call, Project
from strandline.cli.views.plans.facts import PlanFacts
from strandline.cli.views.plans.text import describe_plan
from strandline.ledger.access.lease import OnChange
from strandline.run.insight.funnel import WorstKill
from strandline.run.manifest.manifest import read_manifest


def test_after_a_run_the_largest_source_is_named(project: Project, run: Call, call: Call) -> None:
    (project.path / "in/1.txt").write_text("Long. " * 50_000)
    assert "worst kill" not in call("plan", "pipeline.yaml").stdout
    assert run().exit_code == 0
    (line,) = [
        line
        for line in call("plan", "pipeline.yaml").stdout.splitlines()
        if line.startswith("worst kill")
    ]
    assert "at the end of in/1.txt; a source takes " in line
    worst = json.loads(call("plan", "pipeline.yaml", "--json").stdout)["worstKill"]
    assert worst["seconds"] > worst["mean"] > 0


@pytest.mark.parametrize(
    ("source", "seconds", "words"),
    [
        (
            {"use": "files", "with": {"paths": ["in/*"]}},
            300.0,
            "smaller files would reduce the loss",
        ),
        (
            {"use": "jsonl-files", "with": {"paths": ["in/*"]}},
            300.0,
            "a smaller `rangeBytes` of jsonl-files would reduce the loss",
        ),
        ({"use": "files", "with": {"paths": ["in/*"]}}, 3.0, None),
    ],
)
def test_a_costly_kill_is_shown_with_a_remedy(
    project: Project, source: dict[str, object], seconds: float, words: str | None
) -> None:
    project.spec["source"] = source
    project.save()
    plan = read_manifest(project.path / "pipeline.yaml", (), volume=project.path).plan
    worst = WorstKill("in/large", seconds, 1.0)
    text = "\n".join(describe_plan(PlanFacts(plan, OnChange.FAIL, "", None, None, worst=worst)))
    assert "of work per worker, at the end of in/large; a source takes 1.0 s on average" in text
    assert ("would reduce the loss" in text) == (words is not None)
    assert (words or "") in text
