"""With `--json`, stdout contains only JSON, even if other code prints at any time."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

import pytest

from cli_project import Call, Project
from command_server import execute_interpreter

# Ways in which a user's module may print while it is loaded, or its child process later.
NOISE = """
import atexit, os, subprocess, sys
print("printed while it was loaded")
print("so was this", file=sys.__stdout__, flush=True)
os.write(1, b"written to the descriptor\\n")
subprocess.run(["echo", "a child"], check=True)
late = subprocess.Popen(["sh", "-c", "sleep ${LATE:-1}; echo late"])
atexit.register(late.wait)
atexit.register(print, "at the end")
"""


@pytest.fixture
def noisy(project: Project) -> Project:
    """Return a pipeline with a stage that prints in all of these ways."""
    use = project.add_stage(
        "def process(self, task):\n"
        "    import os, sys\n"
        "    print('while it works')\n"
        "    print('and so', file=sys.__stdout__, flush=True)\n"
        "    os.system('echo a shell')\n"
        "    return task"
    )
    module = project.path / f"{use.partition(':')[0]}.py"
    module.write_text(NOISE + module.read_text())
    return project


def read_objects(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


COMMANDS = [
    ("validate",),
    ("plan",),
    ("describe",),
    ("run", "--engine", "inline"),
    ("run", "--engine", "inline", "--no-supervise"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_law_standard_output_contains_only_json(
    noisy: Project, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    command, *rest = words
    # A run ends the processes that it started, also if it takes longer than a second.
    monkeypatch.setenv("LATE", "600" if command == "run" else "1")

    done = noisy.execute(command, *rest, "--json")

    assert read_objects(done.stdout), done.stderr
    assert done.returncode == 0, done.stderr
    assert "printed while it was loaded" in done.stderr
    # A run ends processes that modules of its stages started.
    assert ("late" in done.stderr.splitlines()) is (command != "run")
    if command == "run":
        assert "a shell" in done.stderr
        assert read_objects(done.stdout)[-1]["outcome"] == "COMPLETE"


def test_without_json_modules_print_anywhere(noisy: Project) -> None:
    done = noisy.execute("validate")

    assert "printed while it was loaded" in done.stdout
    assert "valid; files" in done.stdout


def test_standard_output_is_restored_within_a_process(
    project: Project, call: Call, capfd: pytest.CaptureFixture[str]
) -> None:
    assert json.loads(call("validate", "pipeline.yaml", "--json").stdout) == {
        "valid": True,
        "problems": [],
    }
    assert "valid; files" in call("validate", "pipeline.yaml").stdout
    print("still there", flush=True)
    assert capfd.readouterr().out == "still there\n"


def test_a_closed_standard_error_is_no_obstacle(noisy: Project) -> None:
    line = f"exec {shlex.quote(sys.executable)} -m strandline validate pipeline.yaml --json 2>&-"
    done = execute_interpreter(
        ["/bin/sh", "-c", line], cwd=noisy.path, capture_output=True, text=True
    )

    assert done.returncode == 0
    assert read_objects(done.stdout) == [{"valid": True, "problems": []}]
