"""Ctrl-C in the first second gives a sentence and exit code 75, whichever module is loading."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest

from cli_project import Project
from command_server import execute_interpreter
from strandline_api.outcome.exit_codes import ExitCode

pytestmark = pytest.mark.first(reason="interrupts the start of an interpreter")

# With this variable, Python reports each loaded module on stderr, which shows the progress.
TELLING = os.environ | {"PYTHONPROFILEIMPORTTIME": "1"}
# Modules of the command, and then of the driver that the command starts. The moments of the second
# tier are between moments of the first tier.
MOMENTS = [
    "click.core",
    pytest.param("strandline.cli.app.commands", marks=pytest.mark.more),
    pytest.param("pydantic._internal._config", marks=pytest.mark.more),
    "strandline_api.objects.pipeline",
    pytest.param("strandline.cli.app.driver.launch", marks=pytest.mark.more),
    "strandline.run.supervise.driver.driver_process",
    "strandline.plan.task",
    pytest.param("pyarrow.lib", marks=pytest.mark.more),
    "strandline.run.attempt.attempt",
    "strandline.plan.stages.packs",
]
# A stage's module that delays the end of Python by a second, and then reports a loaded module.
LINGERING = """\
import atexit
import os
import time


def linger():
    os.write(2, b"import time: 1 | 1 | gone\\n")
    time.sleep(1)


atexit.register(linger)
"""
LASTING = r"""
import os, time
os.write(2, b"import time: 1 | 1 | begun\n")
time.sleep(60)
"""
# A driver whose Ray is killed during its start, and which then crashes at its own end.
CRASHING = """
import atexit, os, signal, sys
import ray
from strandline.__main__ import main

def init(**_):
    atexit.register(os.kill, os.getpid(), signal.SIGSEGV)
    sys.exit(signal.SIGTERM)

ray.init = init
sys.argv = ["strandline", "drive", "pipeline.yaml", "--engine", "ray", "--workers", "1"]
main()
"""

# A driver that gets SIGTERM in a fork hook. Python drops exceptions that are raised in fork hooks.
FORKING = """
import os, sys, time
import ray
from strandline.__main__ import main

ends = iter([1])

def end_once():
    if next(ends, None):
        sys.exit(1)

def init(**_):
    os.register_at_fork(before=end_once)
    if not os.fork():
        os._exit(0)
    time.sleep(60)
    os._exit(3)

ray.init = init
sys.argv = ["strandline", "drive", "pipeline.yaml", "--engine", "ray", "--workers", "1"]
main()
"""


def _add_stage_module(project: Project, head: str) -> None:
    """Add a stage whose module begins with these lines."""
    module = project.add_stage("def process(self, task):\n    return task").partition(":")[0]
    file = project.path / f"{module}.py"
    file.write_text(head + file.read_text())


def interrupt(
    process: subprocess.Popen[str], moment: str, look: Callable[[], None] = lambda: None
) -> str:
    """Send SIGINT when a module has been loaded, and return all other output.

    Args:
        look: function that is called just before the signal.
    """
    said, is_sent = [], False
    with process:
        assert process.stderr is not None
        for line in process.stderr:
            if not line.startswith("import time:"):
                said.append(line)
            elif not is_sent and line.rpartition("|")[2].strip() == moment:
                is_sent = True
                look()
                process.send_signal(signal.SIGINT)
    assert is_sent
    return "".join(said)


@pytest.mark.parametrize("moment", MOMENTS)
def test_law_ctrl_c_while_it_starts_is_an_interruption(project: Project, moment: str) -> None:
    project.add_stage(
        "def process(self, task):\n    import time\n    time.sleep(1)\n    return task"
    )
    process = project.start_interpreter("run", "--engine", "inline", "--json", env=TELLING)

    said = interrupt(process, moment)

    assert "Traceback" not in said
    assert process.returncode == ExitCode.INTERRUPTED, said


@pytest.mark.parametrize(
    "moment",
    [
        "strandline.engine.ray.connection",
        # More moments of the same start.
        pytest.param("strandline.plan.task", marks=pytest.mark.more),
        pytest.param("strandline.run.attempt.attempt", marks=pytest.mark.more),
    ],
)
def test_law_ctrl_c_while_ray_starts_leaves_nothing_of_it(project: Project, moment: str) -> None:
    process = project.start_interpreter(
        "run", "--engine", "ray", "--workers", "1", "--json", env=TELLING
    )
    seen: list[psutil.Process] = []

    def look() -> None:
        with suppress(psutil.Error):
            seen.extend(psutil.Process(process.pid).children(recursive=True))

    said = interrupt(process, moment, look)

    assert "Traceback" not in said
    assert process.returncode == ExitCode.INTERRUPTED, said
    assert psutil.wait_procs(seen, timeout=60)[1] == []


def test_a_partial_ray_does_not_change_the_exit_code_of_a_driver(project: Project) -> None:
    """Ray's exit hook sometimes crashes if Ray was killed during its start."""
    command = [sys.executable, "-c", CRASHING]
    done = execute_interpreter(command, cwd=project.path, capture_output=True, text=True)

    assert done.returncode == ExitCode.INTERRUPTED, done.stderr
    assert done.stderr.endswith("the run was stopped during its start; run it again to continue\n")


def test_a_request_to_end_is_not_lost_in_a_hook_of_a_fork(project: Project) -> None:
    command = [sys.executable, "-c", FORKING]
    done = execute_interpreter(command, cwd=project.path, capture_output=True, text=True)

    assert done.returncode == ExitCode.INTERRUPTED, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("moment", ["click.core", "strandline.run.manifest.yaml_file"])
def test_other_commands_end_with_the_exit_code_of_a_signal(project: Project, moment: str) -> None:
    _add_stage_module(project, "import time\n\ntime.sleep(2)\n")
    process = project.start_interpreter("validate", env=TELLING)

    said = interrupt(process, moment)

    assert "Traceback" not in said
    assert process.returncode == 130, said


def test_other_commands_also_end_so_during_exec(project: Project) -> None:
    """Dataclasses use `exec`, too. Python would end by the signal of an interrupt in `exec`."""
    _add_stage_module(project, f"exec({LASTING!r})\n")
    process = project.start_interpreter("validate", env=TELLING)

    interrupt(process, "begun")

    assert process.returncode == 130


@pytest.mark.parametrize("command", ["validate", "run"])
def test_law_ctrl_c_after_the_work_changes_nothing(project: Project, command: str) -> None:
    """After the work, the exit hooks still run."""
    _add_stage_module(project, LINGERING)
    process = project.start_interpreter(
        command, *["--engine", "inline"][: 2 * (command == "run")], env=TELLING
    )

    said = interrupt(process, "gone")

    assert "Traceback" not in said
    assert process.returncode == 0, said


def test_a_command_started_with_sigint_ignored_continues(project: Project) -> None:
    """Shells start background processes with SIGINT ignored."""
    process = project.start_interpreter(
        "validate",
        env=TELLING,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )

    interrupt(process, "click.core")

    assert process.returncode == 0
