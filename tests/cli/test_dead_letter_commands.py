"""Commands that show, count, and retry dead letters."""

from __future__ import annotations

import json

from cli_project import Project

REFUSE = """
def process(self, task):
    import pathlib
    for text in task.table["text"].to_pylist():
        if "number 1" in text and not pathlib.Path("mended").exists():
            raise ValueError("no ones")
    return task
"""
OF_ONE = "dead letters: 1 row of own; `strandline failures FILE` shows why"


def make(project: Project, on_error: str = "deadLetter") -> None:
    project.add_stage(REFUSE)
    project.spec["stages"][-1] |= {"onError": on_error, "name": "own"}
    project.save()


def run(project: Project, *words: str) -> str:
    result = project.execute(*words)
    assert (0, "") == (result.returncode, result.stderr)
    return result.stdout


def test_dead_letters_are_reported_with_failures_and_verification(project: Project) -> None:
    make(project)
    assert OF_ONE in run(project, "run", "--engine", "inline").splitlines()
    assert run(project, "verify").strip().endswith("; 1 dead letter")
    first, head, reason = run(project, "failures").splitlines()
    assert ("no source has failed", "1 dead letter of 1 source:") == (first, head)
    assert reason.startswith("  in/1.txt row 0: own: ValueError: no ones (own_stage_")
    (group,) = map(json.loads, run(project, "failures", "--json").splitlines())
    assert ("dead", "own", 1) == (group["state"], group["stage"], group["count"])
    assert "dead letters, by row" in run(project, "plan")
    assert project.execute("report").returncode == 0
    (page,) = project.path.rglob("*.html")
    text = page.read_text()
    assert "1 row of 1 source failed alone" in text
    assert "in/1.txt row 0" in text


def test_dropped_rows_are_reported_too(project: Project) -> None:
    make(project, "drop")
    lines = run(project, "run", "--engine", "inline").splitlines()
    assert "dropped because of errors: 1 row of own" in lines


def test_a_mended_stage_processes_only_dead_letters_again(project: Project) -> None:
    make(project)
    run(project, "run", "--engine", "inline")
    (project.path / "mended").touch()
    result = project.execute("retry", "--dead-letters", "--engine", "inline")
    assert (0, "1 dead letter of own\n") == (result.returncode, result.stderr)
    assert "complete: all 3 sources are finished (attempt 2, " in result.stdout
    assert "dead letter" not in run(project, "verify")
    assert 3 == len(list(project.folder.glob("output/*/*/*.jsonl")))
    again = project.execute("retry", "--dead-letters", "--engine", "inline")
    assert again.returncode == 0
    assert again.stderr == "there are no dead letters of stages in the pipeline\n"


def test_a_tolerance_without_dead_letters_is_refused(project: Project) -> None:
    make(project, "drop")
    project.spec["stages"][-1]["tolerateRows"] = "1%"
    project.save()
    result = project.execute("plan")
    assert result.returncode == 64
    assert "'tolerateRows' counts dead letters; write 'onError: deadLetter'" in result.stderr
