"""A user on call follows docs/failures.md: the page's advice fixes each of ten broken runs."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_project import Call, Project
from strandline_api.outcome.exit_codes import ExitCode

PAGE = Path(__file__).parents[2] / "docs/failures.md"
FILES = 3
WELL = "def process(self, task: Task) -> Task:\n    return task\n"
REFUSING = """
def process(self, task: Task) -> Task:
    if 'number 1' in str(task.table['text'][0]):
        raise ValueError('a bad note')
    return task
"""
Mend = Callable[[], None]


def read_advice(code: int) -> str:
    """Return the page's advice for an exit code."""
    (row,) = re.findall(rf"^\| {code} \|.*\| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    return str(row)


class OnCall:
    """A user at a terminal who follows the page."""

    def __init__(self, project: Project, call: Call) -> None:
        self.project = project
        self._call = call

    def run(self, *words: str) -> int:
        """Run the page's command in a separate process, so that nothing outlives the run."""
        done = self.project.execute("run", "--engine", "inline", "--no-supervise", *words)
        self.said = done.stdout + done.stderr
        assert "Traceback" not in self.said
        return done.returncode

    def follow(self, code: int, command: str, *words: str) -> str:
        """Run a command that the page names for an exit code, and return its output."""
        rest = " ".join(word for word in words if word != "--quick")
        line = f"`strandline {command} FILE {rest}".rstrip()
        assert line in read_advice(code), (code, line)
        result = self._call(*command.split(), "pipeline.yaml", *words)
        assert "Traceback" not in result.output
        self.code = result.exit_code
        return result.output

    def write_stage(self, body: str) -> None:
        """Rewrite the custom stage without changing its name."""
        head = "from strandline import Stage, Task\n\n\nclass Own(Stage):\n"
        text = head + "".join(f"    {line}\n" for line in body.strip().splitlines())
        (self.project.path / "mine.py").write_text(text)
        if {"use": "mine:Own"} not in self.project.spec["stages"]:
            self.project.spec["stages"].append({"use": "mine:Own"})
            self.project.save()

    def is_well(self) -> bool:
        """Return True if all outputs exist and `verify` succeeds."""
        proof = self._call("verify", "pipeline.yaml")
        return proof.exit_code == 0 and len(self.project.list_outputs()) == FILES


@pytest.fixture
def person(project: Project, call: Call) -> OnCall:
    return OnCall(project, call)


def test_an_error_of_a_stage_is_fixed_by_the_pages_advice(person: OnCall) -> None:
    person.write_stage(f"def setup(self) -> None:\n    raise OSError('no model')\n\n{WELL}")
    assert person.run() == ExitCode.APPLICATION_ERROR, person.said
    assert "stage 'own' can't be set up: OSError: no model" in person.said
    assert "run FILE --engine inline --debug" in read_advice(1)
    person.write_stage(WELL)
    assert person.run() == 0
    assert person.is_well()


def test_failed_sources_are_fixed_by_the_pages_advice(person: OnCall) -> None:
    person.write_stage(REFUSING)
    assert person.run() == ExitCode.SOURCES_FAILED
    assert "ValueError" in person.follow(3, "failures")
    person.write_stage(WELL)
    assert "--set onChange=Continue" in read_advice(3)
    assert person.run("--set", "onChange=Continue") == 0
    assert person.is_well()


def test_too_many_quarantined_sources_are_handled_by_the_pages_advice(person: OnCall) -> None:
    person.project.spec["quarantine"] = {"after": 1}
    person.write_stage(REFUSING)
    assert person.run() == ExitCode.QUARANTINE_EXCEEDED
    assert "in/1.txt" in person.follow(4, "ledger quarantine list")
    person.write_stage(WELL)
    said = person.follow(4, "ledger quarantine release", "--all")
    assert person.code == 0, said
    assert person.run("--set", "onChange=Continue") == 0
    assert person.is_well()


def test_an_invalid_file_is_fixed_by_the_pages_advice(person: OnCall) -> None:
    person.project.spec["stages"][0]["use"] = "read-fils"
    person.project.save()
    assert person.run() == ExitCode.BAD_SPEC
    assert "did you mean 'read-files'" in person.follow(64, "validate")
    person.project.spec["stages"][0]["use"] = "read-files"
    person.project.save()
    assert person.run() == 0
    assert person.is_well()


def test_a_changed_pipeline_is_handled_by_the_pages_advice(person: OnCall) -> None:
    assert person.run() == 0
    person.project.spec["sink"]["with"] = {"compression": "gzip"}
    person.project.save()
    assert person.run() == ExitCode.LEDGER_MISMATCH
    assert "compression" in person.said
    assert "--set onChange=Redo" in read_advice(65)
    assert person.run("--set", "onChange=Redo") == 0
    assert person.is_well()


def test_a_lost_output_is_restored_by_the_pages_advice(person: OnCall) -> None:
    assert person.run() == 0
    first, *_ = person.project.list_outputs()
    (person.project.folder / "output" / first).unlink()
    assert not person.is_well()
    assert "will be processed again" in person.follow(65, "repair")
    assert person.run() == 0
    assert person.is_well()


def test_a_damaged_ledger_is_fixed_by_the_pages_advice(person: OnCall) -> None:
    assert person.run() == 0
    data = person.project.folder / "ledger/data.mdb"
    copy = data.read_bytes()
    data.write_bytes(copy[: len(copy) // 2])
    assert person.run() == ExitCode.LEDGER_MISMATCH
    assert "restore a copy" in read_advice(65)
    data.write_bytes(copy)
    assert person.run() == 0
    assert person.is_well()


def test_another_driver_with_the_ledger_is_handled_by_the_pages_advice(person: OnCall) -> None:
    person.write_stage("""
def process(self, task: Task) -> Task:
    import pathlib, time
    pathlib.Path('begun').touch()
    time.sleep(2)
    return task
""")
    other = person.project.start("run", "--engine", "inline")
    person.project.wait_for("begun")
    assert person.run() == ExitCode.LEDGER_IN_USE
    person.follow(69, "drain", "--wait")
    assert person.code == 0
    other.communicate(timeout=120)
    assert person.run() == 0
    assert person.is_well()


def test_a_full_volume_is_fixed_by_the_pages_advice(
    person: OnCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_FAULT", "output.written:enospc:2")
    assert person.run() == ExitCode.VOLUME_UNUSABLE
    monkeypatch.delenv("STRANDLINE_FAULT")
    assert "enough" not in person.said
    assert "strandline doctor FILE" in read_advice(73)
    person.follow(73, "doctor", "--quick")
    assert person.code == 0
    assert person.run() == 0
    assert person.is_well()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_ended_from_outside_is_resumed_by_the_pages_advice(
    person: OnCall, number: signal.Signals
) -> None:
    """A stopped run reports the stop; a killed run cannot report. The next run resumes both."""
    person.write_stage(f"""
def process(self, task: Task) -> Task:
    import os
    if 'number 1' in str(task.table['text'][0]) and not os.path.exists('done'):
        open('done', 'w').close()
        os.kill(os.getpid(), {int(number)})
    return task
""")
    is_asked = number is signal.SIGTERM
    assert person.run() == (ExitCode.INTERRUPTED if is_asked else 128 + number)
    assert " again" in (read_advice(75) if is_asked else PAGE.read_text())
    assert person.run() == 0
    assert person.is_well()
