"""Commands whose standard streams are closed by the caller, as by some daemons and shells."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from cli_project import Project
from command_server import execute_interpreter

# A stage whose child processes print. With a closed stream, an opened file could get the stream's
# number, and the output would go into this file.
STAGE = """def process(self, task):
    import os
    os.system("echo a shell; echo its errors >&2; cat")
    return task"""


SINGLE = "--no-supervise --json"
CASES = [
    *[("", closed) for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-")],
    (SINGLE, "<&- >&- 2>&-"),
    # In the first tier, the previous cases cover each stream and the single attempt.
    *[pytest.param(SINGLE, closed, marks=pytest.mark.more) for closed in ("<&-", ">&-", "2>&-")],
]


@pytest.mark.parametrize(("words", "closed"), CASES)
def test_law_a_run_works_with_any_closed_streams(project: Project, closed: str, words: str) -> None:
    project.add_stage(STAGE)
    command = f"run pipeline.yaml --engine inline --set retry.maxRetries=0 {words}"
    line = f"exec {shlex.quote(sys.executable)} -m strandline {command} {closed}"

    done = execute_interpreter(
        ["/bin/sh", "-c", line],
        cwd=project.path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )

    assert done.returncode == 0, done.stderr
    assert len(project.list_outputs()) == 3
    told = [done.stdout, done.stderr]
    assert not any("unexpected" in text for text in told)
    assert project.execute("verify").returncode == 0
