"""`strandline drain` requests the same stop as SIGTERM, and affects no other process."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from cli_project import Call, Project, read_errors
from strandline.cli.commands.runs import drain as drain_command
from strandline.ledger.store.store import Store
from strandline.run.supervise.drain import Drain
from strandline.storage.layout import PipelineFolder, make_folder
from strandline.storage.volume.locks import Process
from strandline_api.outcome.driver_outcome import find_outcome_line

# A stage that reports its start and continues when the file `go` exists or a stop is requested.
WORK = """
def process(self, task):
    import pathlib, time
    pathlib.Path("working").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    return task
"""
NOTHING = "nothing to drain: default/notes is not running\n"
STRANGER = Process(4711, 1)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Yield a list of processes that end with the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start(project: Project, *words: str) -> subprocess.Popen[str]:
    """Start a run whose first source waits until the file `go` exists."""
    project.add_stage(WORK)
    process = project.start(*words, "--engine", "inline")
    project.wait_for("working")
    return process


def read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    while text not in (line := process.stderr.readline()):
        assert line, f"it ended without {text!r}"


def drain(call: Call, *words: str) -> str:
    result = call("drain", "pipeline.yaml", *words)
    assert (0, "") == (result.exit_code, result.stderr)
    return result.stdout


def test_drain_does_nothing_if_nothing_runs(project: Project, call: Call) -> None:
    assert NOTHING == drain(call)
    assert NOTHING == drain(call, "--wait", "--timeout", "0")
    assert not project.folder.exists()
    assert 0 == project.execute("run", "--engine", "inline").returncode
    assert NOTHING == drain(call, "--wait")


def test_drain_waits_for_the_orderly_end_of_a_run(
    project: Project, started: list[subprocess.Popen[str]]
) -> None:
    run = start(project, "run")
    started.append(run)
    waiting = project.start("drain", "--wait")
    started.append(waiting)
    read_until(run, "stopping: letting work in flight finish")
    assert waiting.poll() is None
    (project.path / "go").touch()
    out, errors = waiting.communicate(timeout=300)
    assert (0, "") == (waiting.returncode, errors)
    assert out == f"process {run.pid} was asked to stop; it has 30 s for that\nthe run has ended\n"
    assert 75 == run.wait(timeout=300)


def test_a_wait_that_is_too_short_names_remaining_processes(
    project: Project, call: Call, started: list[subprocess.Popen[str]]
) -> None:
    run = start(project, "run", "--no-supervise")
    started.append(run)
    result = call("drain", "pipeline.yaml", "--wait", "--timeout", "0.2")
    assert 1 == result.exit_code
    assert f"process {run.pid} is still running after 0.2 s" == read_errors(result)
    read_until(run, "stopping: letting work in flight finish")
    (project.path / "go").touch()
    _, rest = run.communicate(timeout=300)
    outcome = find_outcome_line(rest)
    assert outcome is not None
    assert (75, 75) == (run.returncode, outcome.exit_code)


def test_a_driver_without_a_parent_is_stopped_directly(
    project: Project, call: Call, started: list[subprocess.Popen[str]]
) -> None:
    driver = start(project, "drive")
    started.append(driver)
    assert drain(call).startswith(f"process {driver.pid} was asked to stop; ")
    read_until(driver, "stopping: letting work in flight finish")
    (project.path / "go").touch()
    assert 75 == driver.wait(timeout=300)


@pytest.mark.usefixtures("project")
def test_a_process_that_ends_meanwhile_needs_no_drain(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_gone(*_: object) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(drain_command, "choose", lambda *_: Drain(STRANGER, (STRANGER,)))
    monkeypatch.setattr(os, "kill", is_gone)
    assert NOTHING == drain(call, "--wait")


@pytest.mark.usefixtures("project")
def test_a_process_of_another_user_cannot_be_drained(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(drain_command, "choose", lambda *_: Drain(STRANGER, (STRANGER,)))
    monkeypatch.setattr(os, "kill", refuse)
    result = call("drain", "pipeline.yaml")
    assert 1 == result.exit_code
    assert "process 4711 belongs to another user; drain it as that user" == read_errors(result)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("words", "seconds"), [((), 40.0), (("--set", "checkpoint.gracePeriod=2m"), 130.0)]
)
def test_the_wait_has_time_for_the_grace_period_and_the_end(
    words: tuple[str, ...], seconds: float, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    waits: list[float] = []
    monkeypatch.setattr(drain_command, "choose", lambda *_: Drain(STRANGER, (STRANGER,)))
    monkeypatch.setattr(os, "kill", lambda *words: asked.append(words))
    monkeypatch.setattr(drain_command, "wait_for", lambda _, each, *__: waits.append(each))
    drain(call, "--wait", *words)
    drain(call, "--wait", "--timeout", "7", *words)
    drain(call, *words)
    assert [seconds, 7.0] == waits
    assert [(STRANGER.pid, signal.SIGTERM)] * 3 == asked


def test_a_hook_that_runs_twice_requests_one_stop(
    project: Project, call: Call, started: list[subprocess.Popen[str]]
) -> None:
    """Kubernetes may run a hook more than once."""
    run = start(project, "run")
    started.append(run)
    assert drain(call) == drain(call)
    read_until(run, "stopping: letting work in flight finish")
    drain(call)
    (project.path / "go").touch()
    assert 75 == run.wait(timeout=300)


@pytest.mark.parametrize("command", ["run", "drive"])
def test_a_run_can_be_stopped_at_once(
    project: Project, call: Call, started: list[subprocess.Popen[str]], command: str
) -> None:
    run = start(project, command)
    started.append(run)
    assert f"process {run.pid} was asked to stop at once\n" == drain(call, "--now")
    assert run.wait(timeout=300) in {130, 143}


def test_a_stopping_run_can_be_stopped_at_once(
    project: Project, call: Call, started: list[subprocess.Popen[str]]
) -> None:
    run = start(project, "run")
    started.append(run)
    drain(call)
    read_until(run, "stopping: letting work in flight finish")
    drain(call, "--now", "--wait")
    assert 130 == run.wait(timeout=300)


@pytest.mark.usefixtures("project")
def test_a_stopping_process_gets_no_second_request(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_command, "choose", lambda *_: Drain(None, (STRANGER,)))
    monkeypatch.setattr(os, "kill", pytest.fail)
    assert "process 4711 is already stopping\n" == drain(call)
    assert "process 4711 is already stopping\nthe run has ended\n" == drain(call, "--wait")


def test_a_driver_on_another_host_is_named(project: Project, call: Call) -> None:
    folder = PipelineFolder(project.folder)
    make_folder(folder.ledger)
    lease: dict[str, Any] = {"attempt": 7, "uid": "a", "boot": "another", "pid": 1, "started": 1}
    with closing(Store(folder.ledger)) as store:
        store.take_lease(lease | {"time": time.time(), "ended": False, "parent": None})
    result = call("drain", "pipeline.yaml", "--wait")
    assert (1, "") == (result.exit_code, result.stdout)
    assert read_errors(result).startswith("attempt 7 was running ")
    assert read_errors(result).endswith("on another host or in another container; drain it there")


def test_a_bad_manifest_gets_its_own_sentence(project: Project, call: Call) -> None:
    project.write("kind: Other")
    assert 64 == call("drain", "pipeline.yaml").exit_code
    assert 64 == call("drain", "pipeline.yaml", "--timeout", "-1").exit_code
