"""Sources that are edited without a change of size or modification time, on the command line."""

from __future__ import annotations

import json
import os

from cli_project import Project
from strandline_api.outcome.exit_codes import ExitCode

RUN = ("run", "--no-supervise", "--engine", "inline")


def test_an_edit_with_an_unchanged_time_is_processed(project: Project) -> None:
    path = project.path / "in/1.txt"
    before = path.stat()
    assert project.execute(*RUN).returncode == ExitCode.COMPLETE
    with path.open("r+") as file:
        file.write("NOTE")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    plan = json.loads(project.execute("plan", "--list", "--json").stdout)
    assert plan["sources"] == {"total": 3, "skipped": 2}
    done = project.execute(*RUN)
    assert done.returncode == ExitCode.COMPLETE, done.stderr
    texts = b"".join(project.list_outputs().values())
    assert (texts.count(b"NOTE"), texts.count(b"Note")) == (1, 2)
    for source in (project.path / "in").iterdir():
        source.chmod(0o600)
    done = project.execute(*RUN)
    assert "nothing left to do" in done.stdout + done.stderr
