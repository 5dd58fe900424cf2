"""`strandline run` with real drivers: killed drivers are replaced, and requests are passed on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import psutil
import pytest

from cli_project import Project
from command_server import execute_command, execute_interpreter, start_command
from strandline.cli.app.driver.driver_request import DriverRequest
from strandline.cli.app.driver.launch import launching
from strandline.run.insight.records import Witness, read_chain
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import find_process
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import find_outcome_line
from strandline_api.status.enums import Trigger

pytestmark = pytest.mark.first(reason="attempts follow one another")

# A stage that kills its process at the second note, as often as the file `deaths` specifies.
DIE = """
def process(self, task):
    import os, pathlib
    deaths = pathlib.Path("deaths")
    left = int(deaths.read_text()) if deaths.exists() else 0
    if left and "1" in task.key:
        deaths.write_text(str(left - 1))
        os.kill(os.getpid(), 9)
    return task
"""
# A stage that reports its start and continues when the file `go` appears.
WORK = """
def process(self, task):
    import pathlib, time
    pathlib.Path("working").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    return task
"""
# Custom stages and their error messages: a sentence alone, or a sentence with advice.
MISTAKES = {
    "a set-up that fails": (
        "def setup(self):\n    raise KeyError('no-such-model')\n"
        "def process(self, task):\n    return task",
        1,
        ["strandline: error: stage 'own' can't be set up: KeyError: 'no-such-model' (FILE:6)"],
    ),
    "sources that fail": (
        "def process(self, task):\n    raise ValueError('bad text')",
        3,
        ["no further attempt: fix the sources or the stage, then run `strandline retry`"],
    ),
}
KILLED = "killed by signal 9 (SIGKILL)"
# A program that gives a command its own terminal, as a user's shell does.
AT_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from strandline.__main__ import main
main()
"""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Yield a list of processes that end with the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def make(project: Project, stage: str, deaths: int = 0, **retry: Any) -> None:
    project.add_stage(stage)
    project.spec["retry"] = {"delay": "0s", **retry}
    project.save()
    (project.path / "deaths").write_text(str(deaths))


def run(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    return project.execute("run", "--engine", "inline", *words)


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Return the lines on stderr, up to the line that contains the text."""
    said = ""
    guard = threading.Timer(120, process.kill)
    guard.start()
    assert process.stderr is not None
    while text not in said:
        line = process.stderr.readline()
        assert line, f"it ended without {text!r}: {said}"
        said += line
    guard.cancel()
    return said


def list_triggers(project: Project) -> list[Trigger]:
    return [record.trigger for record in read_chain(PipelineFolder(project.folder))]


def test_a_killed_driver_is_followed_by_another_attempt(project: Project) -> None:
    make(project, DIE, deaths=1)
    result = run(project)
    assert result.returncode == 0
    # On a slow machine, a progress line may come between these lines.
    assert [
        line for line in result.stderr.splitlines() if line.startswith(("attempt ", "retry "))
    ] == [
        f"attempt 1 ended with Killed: {KILLED}; 0 sources finished by it",
        "retry 1 of 3 in 00:00 after Killed",
    ]
    assert result.stdout.startswith("complete: all 3 sources are finished (attempt 2, ")
    assert [Trigger.RUN, Trigger.RETRY] == list_triggers(project)
    assert 3 == len(project.list_outputs())


def test_scripts_get_a_line_for_each_retry_and_the_outcome_last(project: Project) -> None:
    make(project, DIE, deaths=1)
    result = run(project, "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    told = [line for line in lines if line["event"] != "progress"]
    assert (0, "") == (result.returncode, result.stderr)
    assert ["outcome", "retry", "outcome"] == [line["event"] for line in told]
    assert lines[-1] == told[-1]
    assert (told[0]["exitCode"], told[0]["cause"], told[0]["attempt"]) == (137, "Killed", 1)
    assert told[1] == {
        "event": "retry",
        "cause": "Killed",
        "retry": 1,
        "of": 3,
        "seconds": 0.0,
        "message": "attempt 1 ended with Killed; retry 1 of 3 follows 00:00 later",
    }
    assert (told[2]["outcome"], told[2]["attempt"]) == ("COMPLETE", 2)


def test_a_run_gives_up_with_the_last_exit_code(project: Project) -> None:
    make(project, DIE, deaths=9, maxRetries=1)
    result = run(project)
    assert result.returncode == 137
    assert result.stderr.splitlines()[-2:] == [
        f"attempt 2 ended with Killed: {KILLED}; 0 sources finished by it",
        "no further attempt: attempt 2 ended with Killed, and no retries are left: maxRetries is 1",
    ]
    assert result.stdout == ""


def test_permanent_errors_are_reported_once(project: Project) -> None:
    project.spec["stages"].append({"use": "no-such-stage"})
    project.save()
    result = run(project)
    assert (64, "") == (result.returncode, result.stdout)
    (line,) = result.stderr.splitlines()
    assert "no-such-stage" in line


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_not_retried(project: Project, mistake: str) -> None:
    stage, code, told = MISTAKES[mistake]
    project.add_stage(stage)
    result = run(project)
    assert code == result.returncode
    assert told == [
        re.sub(r"own_stage_\d+\.py", "FILE", line) for line in result.stderr.splitlines()
    ]
    assert [Trigger.RUN] == list_triggers(project)


def test_a_missing_folder_is_not_retried(project: Project) -> None:
    project.spec["source"]["with"]["paths"] = ["gone/*.txt"]
    project.save()
    result = run(project, "--json")
    assert 64 == result.returncode
    assert 1 == len(result.stderr.splitlines())
    last = json.loads(result.stdout.splitlines()[-1])
    assert ("BAD_SPEC", 64) == (last["outcome"], last["exitCode"])


def test_an_unreachable_server_is_retried(project: Project) -> None:
    project.add_stage(
        "def setup(self):\n    import pathlib\n    if not pathlib.Path('asked').exists():\n"
        "        pathlib.Path('asked').touch()\n        raise TimeoutError('no answer')\n"
        "def process(self, task):\n    return task"
    )
    project.spec["retry"] = {"delay": "0s"}
    project.save()
    result = run(project)
    assert 0 == result.returncode
    assert [Trigger.RUN, Trigger.RETRY] == list_triggers(project)


def test_a_single_attempt_ends_in_its_outcome_line(project: Project) -> None:
    make(project, DIE, deaths=1)
    killed, complete = (run(project, "--no-supervise") for _ in range(2))
    assert (137, 0) == (killed.returncode, complete.returncode)
    for number, result in enumerate((killed, complete), start=1):
        last = result.stderr.splitlines()[-1]
        assert last.startswith("strandline-outcome: {")
        outcome = find_outcome_line(last)
        assert outcome is not None
        assert (result.returncode, number) == (outcome.exit_code, outcome.attempt)
        assert outcome.latest == ("0002/p0001" if outcome.exit_code == 0 else "")
    assert [Trigger.RUN, Trigger.RUN] == list_triggers(project)


def test_a_source_that_always_kills_its_process_is_quarantined(project: Project) -> None:
    make(project, DIE, deaths=99)
    result = run(project)
    assert result.returncode == 4
    killed = [line for line in result.stderr.splitlines() if "ended with Killed" in line]
    assert ["attempt 1", "attempt 2", "attempt 3"] == [line[:9] for line in killed]
    assert "1 of 3 sources are quarantined, and `quarantine.tolerate` allows 0" in result.stdout
    assert 2 == len(project.list_outputs())
    tolerant = run(project, "--set", "quarantine.tolerate=1")
    assert tolerant.returncode == 0
    assert "nothing left to do: 2 of 3 sources are finished, 1 quarantined" in tolerant.stdout


def begin_work(
    project: Project, started: list[subprocess.Popen[str]], *options: str
) -> subprocess.Popen[str]:
    """Start a run, and wait until its stage has begun."""
    make(project, WORK)
    process = project.start("run", "--engine", "inline", *options)
    started.append(process)
    project.wait_for("working")
    return process


def check_interrupted(project: Project, process: subprocess.Popen[str]) -> None:
    """End the stage, and check that the run then ends as interrupted."""
    (project.path / "go").touch()
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 75
    assert out.startswith("interrupted; the next attempt continues with the remaining sources")


def test_a_request_to_stop_lets_work_in_flight_finish(
    project: Project, started: list[subprocess.Popen[str]]
) -> None:
    process = begin_work(project, started)
    process.send_signal(signal.SIGTERM)
    read_until(process, "stopping: letting work in flight finish")
    check_interrupted(project, process)
    assert 1 == len(list_triggers(project))
    assert run(project).returncode == 0


def test_a_signal_to_all_processes_is_one_request(
    project: Project, started: list[subprocess.Popen[str]]
) -> None:
    """Ray's `job stop` and systemd send SIGTERM to the parent and also to its driver."""
    process = begin_work(project, started)
    family = psutil.Process(process.pid)
    for each in (family, *family.children(recursive=True)):
        each.send_signal(signal.SIGTERM)
    read_until(process, "stopping: letting work in flight finish")
    time.sleep(0.5)  # the parent passes the signal on in this time
    check_interrupted(project, process)


def test_an_endless_stage_is_abandoned_after_the_grace_period(
    project: Project, started: list[subprocess.Popen[str]]
) -> None:
    project.spec["checkpoint"] = {"gracePeriod": "1s"}
    process = begin_work(project, started, "--json")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 75
    last = json.loads(out.splitlines()[-1])
    assert (75, "Interrupted") == (last["exitCode"], last["cause"])
    (record,) = read_chain(PipelineFolder(project.folder))
    assert "Interrupted" == record.cause


def test_a_waiting_supervisor_refuses_others_and_stops_at_once(
    project: Project, started: list[subprocess.Popen[str]]
) -> None:
    make(project, DIE, deaths=1, delay="1h", jitter="none")
    first = project.start("run", "--engine", "inline")
    started.append(first)
    said = read_until(first, "retry 1 of")
    assert "retry 1 of 3 in 1:00:00 after Killed\n" in said
    told = f"process {first.pid} is already running this pipeline; `strandline drain` stops it"
    for command in (("run",), ("run", "--no-supervise"), ("retry",)):
        second = project.execute(*command, "--engine", "inline")
        assert (69, "") == (second.returncode, second.stdout)
        assert second.stderr == f"strandline: error: {told}\n"
    scripted = run(project, "--json")
    outcome = json.loads(scripted.stdout)
    assert (69, "LEDGER_IN_USE", told) == (
        scripted.returncode,
        outcome["outcome"],
        outcome["message"],
    )
    first.send_signal(signal.SIGTERM)
    _, rest = first.communicate(timeout=300)
    assert first.returncode == 75
    assert rest == "stopped while waiting for the next attempt; run it again to continue\n"
    assert 1 == len(list_triggers(project))


def test_a_driver_without_its_parent_stops_and_the_next_run_continues(
    project: Project, started: list[subprocess.Popen[str]]
) -> None:
    project.spec["checkpoint"] = {"gracePeriod": "2s"}
    parent = begin_work(project, started)
    (driver,) = (record.process for record in read_chain(PipelineFolder(project.folder)))
    assert find_process(driver.pid) == driver
    parent.kill()
    parent.wait()
    parent.communicate()
    # The driver ends although its stage never ends and nothing reads its output.
    end = time.monotonic() + 60
    while find_process(driver.pid) is not None:
        assert time.monotonic() < end, "the driver goes on"
        time.sleep(0.1)
    (project.path / "go").touch()
    result = run(project)
    assert (0, "") == (result.returncode, result.stderr)
    first, second = read_chain(PipelineFolder(project.folder))
    assert (Witness.DRIVER, Cause.INTERRUPTED) == (first.witness, first.cause)
    assert second.cause is None


def press_ctrl_c(project: Project, *, waits: bool) -> tuple[int, str]:
    """Press Ctrl-C in a run at a terminal, and return the exit code and the remaining output."""
    master, slave = os.openpty()
    command = [sys.executable, "-c", AT_TERMINAL, "run", "pipeline.yaml", "--engine", "inline"]
    with start_command(
        command,
        cwd=project.path,
        stdin=slave,
        stdout=slave,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        os.close(slave)
        if waits:
            read_until(process, "retry 1 of")
        else:
            project.wait_for("working")
        os.write(master, b"\x03")
        if not waits:
            read_until(process, "stopping: ")
            time.sleep(0.5)  # long enough to pass a second request on
            (project.path / "go").touch()
        assert process.stderr is not None
        rest = process.stderr.read()
    os.close(master)
    return process.returncode, rest


def test_a_key_that_reaches_driver_and_supervisor_is_one_request(project: Project) -> None:
    """With the inline engine, both processes share the terminal, so that a debugger works."""
    make(project, WORK)
    code, rest = press_ctrl_c(project, waits=False)
    assert (75, "") == (code, rest)
    assert 1 == len(list_triggers(project))


def test_a_key_stops_the_wait_for_the_next_attempt(project: Project) -> None:
    make(project, DIE, deaths=1, delay="1h")
    code, rest = press_ctrl_c(project, waits=True)
    assert 75 == code
    assert "stopped while waiting for the next attempt" in rest
    assert 1 == len(list_triggers(project))


def test_the_parent_process_stays_small(tmp_path: Path) -> None:
    """Otherwise the kernel might kill the parent when memory runs out."""
    look = (
        "import sys; from importlib import import_module as load\n"
        "for name in ('run', 'retry', 'drain', 'attempts'):\n"
        "    load(f'strandline.cli.commands.runs.{name}')\n"
        "print([name for name in ('ray', 'pyarrow', 'numpy', 'strandline_packs', 'rich')"
        " if name in sys.modules])"
    )
    result = execute_interpreter(
        [sys.executable, "-c", look], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(
    ("asked", "own", "expected"),
    [
        ({"engine": "ray"}, False, ""),
        ({"engine": "ray", "workers": 2}, False, "2"),
        ({}, False, None),
        ({"address": "auto"}, False, None),
        ({"engine": "inline"}, False, None),
        ({"engine": "ray"}, True, None),  # the module may set variables for Ray
    ],
)
def test_ray_starts_before_modules_load_only_if_certainly_needed(
    project: Project, asked: dict[str, Any], own: bool, expected: str | None
) -> None:
    if own:
        project.add_stage("def process(self, task):\n    return task")
    given = {"engine": None, "address": None, "workers": None, **asked}
    request = DriverRequest(
        Path("pipeline.yaml"), (), Path("v"), **given, after=None, as_json=False
    )
    with click.Context(click.Command("run")), launching(request) as (_, _, driver):
        assert driver.ray == expected


@pytest.mark.parametrize(("engine", "forks"), [(None, True), ("processes", True), ("ray", False)])
def test_the_fork_program_starts_early_for_forked_workers(
    project: Project, engine: str | None, forks: bool
) -> None:
    file = Path("pipeline.yaml")
    request = DriverRequest(file, (), Path("v"), engine, None, None, after=None, as_json=False)
    with click.Context(click.Command("run")), launching(request) as (_, _, driver):
        assert driver.forks is forks


def test_a_driver_without_ray_reports_the_missing_package(project: Project) -> None:
    def drive(**extra: str) -> tuple[int, str]:
        code = "import sys; sys.modules['ray'] = None; from strandline.__main__ import main; main()"
        words = [sys.executable, "-c", code, "drive", "pipeline.yaml", "--engine", "ray", "--json"]
        done = execute_command(words, cwd=project.path, env=os.environ | extra)
        return done.returncode, done.stdout

    assert drive(STRANDLINE_STARTS_RAY="") == drive()
