"""A process that has loaded all that a run needs, and becomes one run after another by fork.

A run of the engine `inline` takes a tenth of a second then, where fresh interpreters take seconds.
What is forked runs `strandline run` or `strandline drive` as the command line does, and is killed
as any other process is. As a program it is the process that forks.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

PATIENCE = 120.0
POLL_SECONDS = 0.005
LOADED = (
    "strandline.cli.app.commands",
    "strandline.cli.commands.runs.drive",
    "strandline.cli.commands.runs.run",
    "strandline.engine.inline",
)
# Where `strandline run` starts its driver.
STARTER = "strandline.run.supervise.driver_process"


class WarmDriver:
    """Runs one command at a time.

    Args:
        environment: of all of them.
        modules: that are loaded besides, such as those of stages.
    """

    def __init__(self, environment: Mapping[str, str], modules: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self.pid = 0

    def start(self, words: Sequence[str], extra: Mapping[str, str], log: Path) -> None:
        """Begin with these words of the command line."""
        assert self._process.stdin is not None
        request = {"words": list(words), "extra": dict(extra), "log": str(log)}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        self.pid = self._read(PATIENCE)["pid"]

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit code, below 0 for a signal.

        Raises:
            TimeoutError: it does not end.
        """
        return int(self._read(seconds)["code"])

    def send(self, number: int) -> None:
        """Send the process a signal; nothing happens where it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def close(self) -> None:
        """End it, and whatever it runs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self.pid:
            self.send(signal.SIGKILL)
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def _read(self, seconds: float) -> Any:
        output = self._process.stdout
        assert output is not None
        if not select.select([output], [], [], seconds)[0]:
            raise TimeoutError(f"a driver has not ended within {seconds:.0f} s")
        answer = json.loads(output.readline())
        self.pid = 0 if "code" in answer else self.pid
        return answer


class WarmDrivers:
    """As many of them as run at once, for several threads.

    Args:
        environment, modules: of each.
    """

    def __init__(self, environment: Mapping[str, str], modules: Sequence[str] = ()) -> None:
        self._environment, self._modules = environment, modules
        self._idle: deque[WarmDriver] = deque()

    @contextmanager
    def lent(self) -> Iterator[WarmDriver]:
        """One that runs nothing; what it has been left running is killed."""
        try:
            driver = self._idle.pop()
        except IndexError:
            driver = WarmDriver(self._environment, self._modules)
        try:
            yield driver
        finally:
            if driver.pid:
                driver.close()
            else:
                self._idle.append(driver)

    def close(self) -> None:
        """End all that are not lent."""
        while self._idle:
            self._idle.pop().close()


class ForkedDriver:
    """Stands in for `subprocess.Popen` in a parent: its driver is a fork, in all else the same."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        process_group: int | None,
        env: Mapping[str, str],
        pass_fds: Sequence[int],
        stdout: int | None,
        stderr: int | None,
    ) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        if process_group is not None:
            os.setpgid(0, process_group)
        for source, target in ((stdout, 1), (stderr, 2)):
            if source is not None:
                os.dup2(source, target)
        # What a new program would not have: the parent's locks, among others.
        kept = [2, *sorted(pass_fds), os.sysconf("SC_OPEN_MAX")]
        for low, high in pairwise(kept):
            os.closerange(low + 1, high)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.environ.clear()
        _become([os.fsencode(word).decode() for word in words[words.index("drive") :]], env)

    def wait(self, timeout: float) -> int:
        """The exit code, below 0 for a signal.

        Raises:
            TimeoutExpired: it has not ended.
        """
        end = time.monotonic() + timeout
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                raise subprocess.TimeoutExpired("drive", timeout)
            else:
                time.sleep(POLL_SECONDS)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


def main() -> None:
    """Fork a process for each line of standard input; tell its pid, and then how it ended."""
    for name in (*LOADED, *sys.argv[1:]):
        import_module(name)
    parts = SimpleNamespace(Popen=ForkedDriver, TimeoutExpired=subprocess.TimeoutExpired)
    vars(import_module(STARTER))["subprocess"] = parts
    answers = os.fdopen(os.dup(1), "w")
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        pid = os.fork()
        if not pid:
            answers.close()
            _redirect(request["log"])
            _become(request["words"], request["extra"])
        print(json.dumps({"pid": pid}), file=answers, flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), file=answers, flush=True)


def _redirect(path: str) -> None:
    log = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)


def _become(words: list[str], environment: Mapping[str, str]) -> NoReturn:
    code = 1
    os.environ.update(environment)
    tempfile.tempdir = None
    try:
        import_module("strandline.cli.app.commands").program.main(words, "strandline")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - told, and ends here
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
