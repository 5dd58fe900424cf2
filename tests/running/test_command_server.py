"""Forked commands behave like commands in a new interpreter."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import command_server
from command_server import CommandServer, execute_interpreter

PIPES: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.PIPE,
    "text": True,
}
# Prints the whole observable state of the process that does not differ at random.
STATE = """
import atexit, logging, os, signal, sys, tempfile, threading, warnings
atexit.register(print, "first exit handler")
print(__name__, sys.argv, sys.orig_argv)
print(sys.path, sys.warnoptions)
print(warnings.filters)
print(sorted(os.environ.items()))
print(os.getcwd(), os.umask(0), os.getpgid(0), os.getsid(0))
print({number: signal.getsignal(number) for number in signal.valid_signals()})
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), sorted(os.listdir("/proc/self/fd")))
for stream in (sys.stdin, sys.stdout, sys.stderr):
    print(stream, stream.line_buffering, stream.write_through, stream.errors, stream.isatty())
print(logging.root.handlers, logging.root.level, tempfile.tempdir, threading.active_count())
print(sys.stdin.read() == "", sys.dont_write_bytecode, sorted(vars(sys.modules["__main__"])))
print("error output", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[CommandServer]:
    """Provide a command server with few loaded modules."""
    server = CommandServer(["json", "logging", "pathlib"])
    yield server
    server.close()


def run_code(server: CommandServer, code: str, *words: str, **settings: Any) -> str:
    """Run a program that must succeed, and return its output."""
    done = server.execute([sys.executable, "-c", textwrap.dedent(code), *words], **settings)
    assert (done.returncode, done.stderr) == (0, "")
    return str(done.stdout)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("pass", 0),
        ("import sys; sys.exit(75)", 75),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit('a message')", 1),
        ("1 / 0", 1),
        ("import os; os._exit(3)", 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
    ],
)
def test_exit_codes_and_messages_equal_those_of_an_interpreter(
    server: CommandServer, code: str, expected: int
) -> None:
    command = [sys.executable, "-c", code]
    forked = server.execute(command)
    new = execute_interpreter(command, capture_output=True, text=True)

    assert forked.returncode == expected
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        new.returncode,
        new.stdout,
        new.stderr,
    )


@pytest.mark.parametrize("kind", ["-c", "-m", "script", "-P", "-W"])
def test_the_observable_state_equals_that_of_an_interpreter(
    server: CommandServer, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "state.py").write_text(STATE)
    command = {
        "-c": ["-c", STATE, "word"],
        "-m": ["-m", "state", "word"],
        "script": [str(tmp_path / "state.py"), "word"],
        "-P": ["-P", str(tmp_path / "state.py")],
        "-W": ["-W", "error::FutureWarning", "-m", "state"],
    }[kind]
    command.insert(0, sys.executable)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}/nowhere", "OWN": "1"}
    forked = server.execute(command, cwd=tmp_path, env=environment)
    settings = {"cwd": tmp_path, "env": environment, "stdin": subprocess.DEVNULL}
    new = execute_interpreter(command, capture_output=True, text=True, **settings)

    assert (forked.returncode, forked.stderr) == (new.returncode, new.stderr)
    assert forked.stdout.splitlines() == new.stdout.splitlines()


def test_a_command_of_the_product_gives_the_same_result_in_both_ways(tmp_path: Path) -> None:
    for words in (["validate", "missing.yaml"], ["stages", "--json"], ["--help"], ["nonsense"]):
        forked = command_server.execute_strandline(*words, cwd=tmp_path)
        new = execute_interpreter(
            [sys.executable, "-m", "strandline", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert (forked.returncode, forked.stdout, forked.stderr) == (
            new.returncode,
            new.stdout,
            new.stderr,
        )


def test_the_working_directory_and_the_environment_are_exact(
    server: CommandServer, tmp_path: Path
) -> None:
    code = "import os; print(os.getcwd(), sorted(os.environ))"
    environment = {
        "ADDED": "1",
        **{name: os.environ[name] for name in ("LANG",) if name in os.environ},
    }

    assert run_code(server, code, cwd=tmp_path, env=environment) == (
        f"{tmp_path} {sorted(environment)}\n"
    )


def test_a_variable_that_python_reads_later_is_applied(server: CommandServer) -> None:
    environment = {**os.environ, "PYTHONBREAKPOINT": "builtins.print"}
    assert run_code(server, "breakpoint('applied')", env=environment) == "applied\n"


def test_a_variable_that_only_an_interpreter_applies_is_rejected(server: CommandServer) -> None:
    with pytest.raises(ValueError, match="PYTHONHASHSEED: use start_interpreter"):
        server.execute([sys.executable, "-c", ""], env={**os.environ, "PYTHONHASHSEED": "1"})
    with pytest.raises(ValueError, match="use start_interpreter"):
        server.execute([sys.executable, "-I", "-c", ""])


def test_a_missing_folder_is_the_same_error_as_for_any_process(
    server: CommandServer, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        server.execute([sys.executable, "-c", ""], cwd=tmp_path / "missing")


def test_random_numbers_differ_between_commands(server: CommandServer) -> None:
    code = "import random, tempfile; print(random.random(), next(tempfile._RandomNameSequence()))"
    assert run_code(server, code) != run_code(server, code)


def test_an_option_or_a_variable_turns_warnings_into_errors(server: CommandServer) -> None:
    code = "import warnings; warnings.warn('old')"
    assert server.execute([sys.executable, "-c", code]).returncode == 0
    assert server.execute([sys.executable, "-W", "error", "-c", code]).returncode == 1
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    assert server.execute([sys.executable, "-c", code], env=environment).returncode == 1


def test_commands_run_at_the_same_time(server: CommandServer, tmp_path: Path) -> None:
    """Each command waits for a pipe that the other command opens."""
    for name in ("first", "second"):
        os.mkfifo(tmp_path / name)
    codes = ("open('first', 'w'); open('second')", "open('first'); open('second', 'w')")
    running = [server.start([sys.executable, "-c", code], cwd=tmp_path, **PIPES) for code in codes]
    assert [process.communicate(timeout=60) for process in running] == [("", "")] * 2
    assert [process.returncode for process in running] == [0, 0]


def test_a_started_command_is_polled_signalled_and_waited_for(server: CommandServer) -> None:
    code = "import signal; print('ready', flush=True); signal.pause()"
    with server.start([sys.executable, "-c", code], **PIPES) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0)
        assert psutil.Process(process.pid).cmdline()[:3] == [sys.executable, "-c", code]
        process.terminate()
        assert process.wait(timeout=60) == -signal.SIGTERM
        process.kill()  # has no effect on an ended process
    assert process.args == [sys.executable, "-c", code]


def test_a_timeout_kills_the_command(server: CommandServer) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        server.execute([sys.executable, "-c", "import signal; signal.pause()"], timeout=0.01)
    assert psutil.Process(server.pid).children() == []


def test_a_command_has_one_thread_and_a_session_of_its_own(server: CommandServer) -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), len(os.listdir('/proc/self/task')))"
    assert run_code(server, code, start_new_session=True) == "True 1\n"
    assert run_code(server, code) == "False 1\n"


def test_a_grandchild_keeps_no_pipe_of_the_server_open(server: CommandServer) -> None:
    """The server reports the end of a command even if its child is still running."""
    code = """
        import os, signal, subprocess
        child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
        print(child.pid, len(os.listdir(f"/proc/{child.pid}/fd")))
        """
    with server.start([sys.executable, "-c", textwrap.dedent(code)], **PIPES) as process:
        assert process.wait(timeout=60) == 0
        assert process.stdout is not None
        child, count = map(int, process.stdout.readline().split())
        os.kill(child, signal.SIGKILL)
    assert count <= 4  # three standard streams, and one more while the program starts


PARENT = """
import sys
sys.path[:0] = {path!r}
from command_server import CommandServer
server = CommandServer([])
process = server.start([sys.executable, "-c", "import signal; signal.pause()"])
print(server.pid, process.pid, flush=True)
input()
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, None], ids=["killed", "ended"])
def test_the_server_and_its_commands_end_with_their_parent(end: int | None) -> None:
    code = PARENT.format(path=[str(Path(command_server.__file__).parent)])
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        pids = list(map(int, parent.stdout.readline().split()))
        watched = [os.pidfd_open(pid) for pid in pids]
        if end is None:
            parent.stdin.close()
        else:
            parent.send_signal(end)
        for descriptor in watched:
            assert select.select([descriptor], [], [], 60)[0], "a process goes on"
            os.close(descriptor)
