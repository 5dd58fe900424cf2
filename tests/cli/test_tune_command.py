"""`strandline tune`: which rows a filter's limits drop, from marked outputs or sampled sources."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from cli_project import Call, Project, read_errors
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.manifest.manifest import read_manifest

GOPHER = {"minDocWords": 10, "minStopWords": None}


def write(project: Project, *more: dict[str, Any], sink: str = "jsonl", **values: Any) -> None:
    for name, sizes in (("a", range(12)), ("b", range(12, 30))):
        lines = [{"text": "word " * size, "why": "earlier" if size == 1 else None}
                 for size in sizes]  # fmt: skip
        (project.path / f"in/{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    project.spec["source"] = {"use": "jsonl-files", "with": {"paths": ["in/*.jsonl"]}}
    rules = {"name": "rules", "use": "gopher-quality", "with": GOPHER | values}
    project.spec["stages"] = [{"use": "read-jsonl"}, rules, *more]
    project.spec["sink"] = {"use": sink}
    project.save()


def finish(project: Project) -> None:
    """Run the pipeline in this process."""
    plan = read_manifest(project.path / "pipeline.yaml").plan
    volume = project.path / "strandline-data"
    assert 0 == run_attempt(AttemptConfig(plan, volume, engine="inline")).code


def tune(call: Call, *words: str) -> dict[str, Any]:
    result = call("tune", "pipeline.yaml", "--stage", "rules", "--json", *words)
    assert (0, "") == (result.exit_code, result.stderr)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def find_rule(found: dict[str, Any], parameter: str) -> dict[str, Any]:
    (rule,) = (each for each in found["rules"] if each["parameter"] == parameter)
    return dict(rule)


@pytest.mark.parametrize("sink", ["jsonl", "parquet"])
def test_marked_outputs_and_sources_give_the_same_numbers(
    project: Project, call: Call, sink: str
) -> None:
    write(project, sink=sink, mark=True)
    finish(project)
    by_outputs = tune(call, "--at", "minDocWords=5,20")
    by_sources = tune(call, "--at", "minDocWords=5,20", "--sources", "2")
    assert ("outputs", "sources") == (by_outputs.pop("from"), by_sources.pop("from"))
    assert by_outputs == by_sources
    assert (30, 10) == (by_outputs["rows"], by_outputs["dropped"])
    assert {"gopher_short_doc": 10} == by_outputs["reasons"]
    shown = {each["at"]: each for each in find_rule(by_outputs, "minDocWords")["thresholds"]}
    assert (5, 10, 20) == tuple(shown[at]["together"] for at in (5, 10, 20))
    assert [10] == [at for at, each in shown.items() if each["isCurrent"]]


def test_the_table_shows_each_rule_with_its_present_limit(project: Project, call: Call) -> None:
    write(project, mark=True)
    finish(project)
    text = call("tune", "pipeline.yaml", "--stage", "rules").stdout
    assert text.startswith("rules: drops 10 (33.3%) of 30 rows of 2 output files\n")
    assert "minDocWords: drops what is below (gopher_short_doc); now 10\n" in text
    assert re.search(r"\n> 10 +10 +33\.3% +9 +10 +33\.3%\n", text)
    assert "minStopWords: drops what is below (gopher_enough_stop_words); now off\n" in text
    other = call(
        "tune", "pipeline.yaml", "--stage", "rules", "--set", "stages.1.with.minDocWords=3"
    )
    assert other.stdout.startswith("rules: drops 3 (10.0%) of 30 rows")
    part = call("tune", "pipeline.yaml", "--stage", "rules", "--rows", "1").stdout
    assert "of 1 of 2 output files" in part.partition("\n")[0]


def test_without_marks_some_sources_are_run_and_leave_nothing(project: Project, call: Call) -> None:
    write(project)
    before = sorted(path.name for path in project.path.iterdir())
    result = call("tune", "pipeline.yaml", "--stage", "rules")
    assert result.stdout.startswith("rules: drops 10 (33.3%) of 30 rows of 2 sources\n")
    assert "('rules' has no `mark: true`): running sources" in result.stderr
    assert before == sorted(path.name for path in project.path.iterdir())
    assert 1 == tune(call, "--sources", "1")["lookedAt"]


def test_rows_dropped_by_a_later_filter_are_included(project: Project, call: Call) -> None:
    write(project, {"use": "keep-rows", "with": {"where": "rules_keep"}}, mark=True)
    finish(project)
    result = call("tune", "pipeline.yaml", "--stage", "rules")
    assert result.stdout.startswith("rules: drops 10 (33.3%) of 30 rows of 2 sources\n")
    assert "'keep-rows' drops rows after it" in result.stderr


def test_rows_that_the_filter_skips_are_not_included(project: Project, call: Call) -> None:
    write(project, reasonColumn="why")
    project.spec["stages"].insert(
        1, {"use": "keep-rows", "with": {"where": "True", "reasonColumn": "why"}}
    )
    project.save()
    assert (29, 9) == (tune(call)["rows"], tune(call)["dropped"])


def test_a_failed_source_is_reported_and_omitted(project: Project, call: Call) -> None:
    write(project)
    (project.path / "in/c.jsonl").write_text("no JSON\n")
    result = call("tune", "pipeline.yaml", "--stage", "rules")
    assert 0 == result.exit_code
    assert "left out: " in result.stderr
    assert "c.jsonl" in result.stderr
    assert "of 30 rows" in result.stdout
    for name in "ab":
        (project.path / f"in/{name}.jsonl").unlink()
    failed = call("tune", "pipeline.yaml", "--stage", "rules")
    assert "no row of 1 sources reaches 'rules'; " in read_errors(failed)


def test_a_filter_without_limits_shows_its_reasons(project: Project, call: Call) -> None:
    write(project)
    rule = {"name": "rules", "use": "keep-rows", "with": {"where": "len(text) > 50", "reason": "x"}}
    project.spec["stages"][1] = rule
    project.save()
    text = call("tune", "pipeline.yaml", "--stage", "rules").stdout
    assert "11 of them" in text
    assert text.endswith(
        "the stage has no numeric limits to vary; results with its current settings:\n  x  11\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stage", "other"], "'other' is not a filter of this pipeline; its filters are: rules"),
        (
            ["--stage", "rules", "--at", "minWords=3"],
            "the stage has no such limit; its limits are: ",
        ),
        (["--stage", "rules", "--at", "minDocWords=few"], "write numbers, such as minDocWords="),
    ],
)
def test_invalid_trials_are_refused(
    project: Project, call: Call, words: list[str], message: str
) -> None:
    write(project)
    result = call("tune", "pipeline.yaml", *words)
    assert 0 != result.exit_code
    assert message in read_errors(result)


def test_outputs_from_before_the_marks_are_refused(project: Project, call: Call) -> None:
    write(project)
    finish(project)
    write(project, mark=True)
    result = call("tune", "pipeline.yaml", "--stage", "rules")
    assert "the file has no column 'rules_words'" in read_errors(result)
