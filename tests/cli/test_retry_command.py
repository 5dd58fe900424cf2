"""`strandline retry` makes one manual attempt in addition to the retry policy."""

from __future__ import annotations

import json
from contextlib import closing

from cli_project import Project
from strandline.ledger.store.store import Store
from strandline.run.insight.records import read_chain
from strandline.storage.layout import PipelineFolder, make_folder
from strandline.storage.volume.locks import find_process, read_boot_id
from strandline_api.status.enums import Trigger

DIE = """
def process(self, task):
    import os, pathlib
    if pathlib.Path("deadly").exists() and "1" in task.key:
        os.kill(os.getpid(), 9)
    return task
"""
KILLED = "killed by signal 9 (SIGKILL); 0 sources finished by it"


def make(project: Project, **retry: object) -> None:
    project.add_stage(DIE)
    project.spec["retry"] = {"delay": "0s", **retry}
    project.save()


def list_triggers(project: Project) -> list[Trigger]:
    return [record.trigger for record in read_chain(PipelineFolder(project.folder))]


def test_a_manual_attempt_ignores_the_retry_policy(project: Project) -> None:
    make(project, maxRetries=0)
    (project.path / "deadly").touch()
    run = project.execute("run", "--engine", "inline")
    assert (137, 1) == (run.returncode, len(list_triggers(project)))

    killed = project.execute("retry", "--engine", "inline")
    assert (137, "") == (killed.returncode, killed.stdout)
    assert killed.stderr == f"attempt 2 ended with Killed: {KILLED}\n"

    (project.path / "deadly").unlink()
    complete = project.execute("retry", "--engine", "inline")
    assert (0, "") == (complete.returncode, complete.stderr)
    assert complete.stdout.startswith("complete: all 3 sources are finished (attempt 3, ")
    assert [Trigger.RUN, Trigger.MANUAL, Trigger.MANUAL] == list_triggers(project)


def test_without_attempts_retry_makes_the_first_and_reports_that(project: Project) -> None:
    result = project.execute("retry", "--engine", "inline", "--json")
    assert 0 == result.returncode
    assert result.stderr == "there is no attempt yet; this is the first\n"
    last = json.loads(result.stdout.splitlines()[-1])
    assert ("COMPLETE", 1) == (last["outcome"], last["attempt"])
    assert [Trigger.MANUAL] == list_triggers(project)


def test_an_unsupervised_driver_blocks_a_retry(project: Project) -> None:
    folder = PipelineFolder(project.folder)
    make_folder(folder.ledger)
    init = find_process(1)  # a process that is certainly running
    assert init is not None
    lease = {"attempt": 7, "uid": "a", "boot": read_boot_id(), "pid": 1, "started": init.started}
    with closing(Store(folder.ledger)) as store:
        store.take_lease(lease | {"time": 0.0, "ended": False, "parent": None})
    result = project.execute("retry", "--engine", "inline")
    assert (69, "") == (result.returncode, result.stdout)
    told = "strandline: error: attempt 7 is still running as process 1; stop it first"
    assert told == result.stderr.splitlines()[-1]
    assert [] == list_triggers(project)
