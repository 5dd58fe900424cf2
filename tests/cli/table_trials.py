"""A pipeline whose output is pushed to tables, and functions that change its sources."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from cli_project import Call, Project
from command_server import execute_strandline


def use_parquet(project: Project) -> None:
    """Make the pipeline write Parquet and delete the outputs of removed sources."""
    project.spec["sink"] = {"use": "parquet"}
    project.spec["source"]["with"]["onRemoved"] = "Delete"
    project.save()


CHANGED = ["A new note.\n", "Another note.\n", "Note number 2.\n"]


def change_notes(project: Project) -> None:
    """Change, remove, and add one source, and keep one. The texts are `CHANGED` afterwards."""
    (project.path / "in/0.txt").write_text("Another note.\n")
    (project.path / "in/1.txt").unlink()
    (project.path / "in/9.txt").write_text("A new note.\n")


def change_sources(project: Project, run: Call) -> list[str]:
    """Apply `change_notes` and run the pipeline. Return the remaining texts."""
    change_notes(project)
    assert run().exit_code == 0
    return CHANGED


def push(call: Call, target: str) -> dict[str, Any]:
    result = call("push", "pipeline.yaml", "--to", target, "--json")
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads(result.stdout)
    return content


def kill_push(target: str, step: str, **environment: str) -> None:
    """Push in a process that is killed at the given step."""
    fault = {"STRANDLINE_FAULT": f"{step}:kill", **environment}
    words = ["push", "pipeline.yaml", "--to", target]
    assert execute_strandline(*words, env=os.environ | fault).returncode == -9


def try_push_apart(target: str) -> subprocess.CompletedProcess[str]:
    """Push in a separate process, because the library reads variables when it is loaded."""
    return execute_strandline("push", "pipeline.yaml", "--to", target, "--json")


def push_apart(target: str) -> dict[str, Any]:
    """Push in a separate process, and return the result."""
    done = try_push_apart(target)
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def change_fingerprint(project: Project, run: Call) -> None:
    """Change the pipeline's fingerprint without changing its files."""
    project.spec["onChange"] = "Continue"
    project.add_stage("def process(self, task):\n    return task")
    assert run().exit_code == 0


def add_length(project: Project, run: Call) -> None:
    """Add a column to the rows of one source only."""
    project.spec["onChange"] = "Continue"
    project.add_stage(
        "def process(self, task):\n"
        "    import pyarrow.compute as pc\n"
        "    length = pc.utf8_length(task.table.column('text'))\n"
        "    return task.replace(task.table.append_column('length', length))"
    )
    (project.path / "in/0.txt").write_text("Another note.\n")
    assert run().exit_code == 0


LENGTHS = {"Another note.\n": 14, "Note number 1.\n": None, "Note number 2.\n": None}
