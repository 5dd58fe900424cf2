"""A pipeline whose own code changes between two runs of the command line."""

from __future__ import annotations

import json

from cli_project import Project
from strandline_api.outcome.exit_codes import ExitCode

STAGE = """
from strandline import Stage, Task
from words import MARK


class Shout(Stage):
    def process(self, task: Task) -> Task:
        column = [MARK] * task.table.num_rows
        return task.replace(task.table.append_column("mark", [column]))
"""
RUN = ("run", "--no-supervise", "--engine", "inline")


def prepare(project: Project) -> None:
    project.write(STAGE, "mystages.py")
    project.write("MARK = 'loud'\n", "words.py")
    project.spec["stages"].append({"use": "mystages:Shout"})
    project.save()


def test_an_edited_module_changes_the_pipeline_and_is_named(project: Project) -> None:
    prepare(project)
    assert project.execute(*RUN).returncode == ExitCode.COMPLETE
    project.write("# louder?\nMARK = ('loud')  # no\n", "words.py")
    done = project.execute(*RUN)
    assert (done.returncode, "nothing" in done.stdout + done.stderr) == (ExitCode.COMPLETE, True)
    project.write("MARK = 'quiet'\n", "words.py")
    done = project.execute(*RUN)
    assert done.returncode == ExitCode.LEDGER_MISMATCH, done.stderr
    assert "  shout: words.py has changed\n" in done.stderr
    done = project.execute(*RUN, "--set", "onChange=Redo")
    assert done.returncode == ExitCode.COMPLETE, done.stderr
    rows = b"".join(project.list_outputs().values()).splitlines()
    assert ["quiet"] * 3 == [json.loads(row)["mark"] for row in rows]


def test_plan_names_unreadable_files_and_code(project: Project) -> None:
    prepare(project)
    project.write("MARK = eval(\"'loud'\")\n", "words.py")
    assert project.execute(*RUN).returncode == ExitCode.COMPLETE
    project.write(STAGE.replace("mark", "sign"), "mystages.py")
    text = project.execute("plan").stdout
    assert "  shout: mystages.py has changed\n" in text
    sentence = "shout: words.py calls eval; raise the stage's `version` when that code changes"
    assert f"not in the fingerprint: {sentence}\n" in text
    assert [sentence] == json.loads(project.execute("plan", "--json").stdout)["notFingerprinted"]
