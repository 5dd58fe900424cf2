"""`strandline kept`, and what `plan`, `verify`, and `repair` report about kept outputs."""

from __future__ import annotations

import json

from cli_project import Project

TUNED = """
def process(self, task):
    return task.replace(task.table)
"""


def make(project: Project, *, limit: int = 5) -> None:
    """Keep the output of a stage that precedes a stage with a changing limit."""
    if project.spec["stages"][-1].get("name") != "long":
        project.add_stage(TUNED)
        project.spec["stages"][-1] |= {"keep": True, "name": "own"}
        project.spec["stages"].append({"use": "keep-rows", "name": "long"})
    project.spec["stages"][-1]["with"] = {"where": f"text != 'Note number {limit}.'"}
    project.spec["onChange"] = "Redo"
    project.save()


def run(project: Project, *words: str) -> list[str]:
    result = project.execute(*words)
    assert (0, "") == (result.returncode, result.stderr)
    return result.stdout.splitlines()


def test_plan_shows_the_redo_and_the_run_keeps_outputs(project: Project) -> None:
    make(project)
    run(project, "run", "--engine", "inline")
    assert not any(line.startswith("redo:") for line in run(project, "plan"))
    make(project, limit=1)
    lines = run(project, "plan")
    at = lines.index("redo: 3 finished sources, because 'long' changed")
    assert "  3 from the output of 'own'" == lines[at + 1]
    redo = json.loads("\n".join(run(project, "plan", "--json")))["redo"]
    assert ({"long": 3}, [{"after": "own", "fromOutput": False, "sources": 3}]) == (
        redo["first"],
        redo["starts"],
    )
    result = project.execute("run", "--engine", "inline")
    note = "redo: sources of an older recipe are replaced, from the output of 'own'\n"
    assert (0, note) == (result.returncode, result.stderr)
    assert not any(line.startswith("redo:") for line in run(project, "plan"))


def test_kept_outputs_are_listed_and_pruned_by_age_and_space(project: Project) -> None:
    make(project)
    run(project, "run", "--engine", "inline")
    (listed,) = json.loads(run(project, "kept list", "--json")[0])
    assert ("own", 3, 3) == (listed["stage"], listed["sources"], listed["files"])
    assert run(project, "kept list")[0].startswith("own: 3 sources, ")
    assert ["nothing to prune"] == run(project, "kept prune", "--older-than", "1d")
    limit = str(listed["size"] - 1)
    (line,) = run(project, "kept prune", "--at-most", limit)
    assert line.startswith("pruned: kept output of 1 source, ")
    files = list(project.folder.glob("output/_strandline/kept/*/*/*"))
    assert 2 == len(files)
    assert "3 finished sources" in run(project, "verify")[0]
    (line,) = run(project, "kept prune", "--older-than", "0s", "--stage", "own")
    assert line.startswith("pruned: kept output of 2 sources, ")
    assert ["no output is kept; set `keep: true` on a stage"] == run(project, "kept list")
    make(project, limit=1)
    assert "  3 from the beginning" in run(project, "plan")


def test_a_damaged_kept_output_is_reported_and_removed_without_rework(project: Project) -> None:
    make(project)
    run(project, "run", "--engine", "inline")
    path = next(project.folder.glob("output/_strandline/kept/*/*/*"))
    path.write_bytes(b"hurt")
    result = project.execute("verify")
    assert (65, True) == (result.returncode, path.name in result.stdout + result.stderr)
    told = "discarded missing or damaged kept output of 1 source"
    assert [told] == run(project, "repair", "--dry-run")
    assert [told] == run(project, "repair")
    lines = run(project, "run", "--engine", "inline")
    assert lines[0].startswith("nothing left to do: all 3 sources are finished")
    assert "3 finished sources" in run(project, "verify")[0]
    assert not path.exists()


def test_invalid_arguments_are_refused(project: Project) -> None:
    make(project)
    for words in ([], ["--older-than", "1d", "--at-most", "1Gi"], ["--at-most", "much"]):
        assert 64 == project.execute("kept prune", *words).returncode
