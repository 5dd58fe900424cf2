"""The operator as a process, like in production, observed by its ports and its log.

with run_operator(proxy.kubeconfig, tmp_path, "--namespaces", namespace) as operator:
    operator.ask("healthz")
    operator.kill()             # as a crash
    operator.start()            # a new process continues the work
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from control_plane import find_free_ports
from recordings import Json

PATIENCE = 180.0
SKEWED = Path(__file__).with_name("skewed_operator.py")
# Settings that shorten stories from minutes to seconds. All other settings are as in production.
QUICK = {
    "STRANDLINE_SETTLE": "1",
    "STRANDLINE_OUTCOME": "1",
    "STRANDLINE_PULL_INTERVAL": "1",
    "STRANDLINE_RESYNC": "2",
}


class OperatorProcess:
    """An operator process that can be killed and restarted. All its processes write the same log.

    Attributes:
        log: file of its log lines, one JSON object each.
        starts: number of starts.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        variables: Mapping[str, str],
        log: Path,
        clock: Path | None = None,
    ) -> None:
        self.log = log
        self.ports = dict(zip(("metrics", "healthz"), find_free_ports(2), strict=True))
        entry = ["-m", "strandline_operator"] if clock is None else [str(SKEWED), str(clock)]
        self._command = [sys.executable, *entry, *arguments]
        ports = {
            "STRANDLINE_METRICS_PORT": str(self.ports["metrics"]),
            "STRANDLINE_LIVENESS_PORT": str(self.ports["healthz"]),
        }
        self._variables = {**ports, **variables}
        self.start()

    def start(self) -> None:
        """Start or restart the operator."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._variables, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        """The process id of the last start."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """True if the process is running.

        Raises:
            AssertionError: if the process has ended by itself.
        """
        code = self._process.poll()
        assert code in {None, -signal.SIGKILL}, self.tail
        return code is None

    @property
    def lines(self) -> list[Json]:
        """The complete log lines so far."""
        text = self.log.read_text(encoding="utf-8")
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    @property
    def faults(self) -> list[Json]:
        """Log lines with an exception or a critical error."""
        return [line for line in self.lines if "error" in line or line["level"] == "CRITICAL"]

    @property
    def tail(self) -> str:
        """The last part of the log."""
        return self.log.read_text(encoding="utf-8")[-5000:]

    def ask(self, page: str) -> tuple[int, str]:
        """Return the HTTP status and the text of the page `healthz` or `metrics`."""
        connection = HTTPConnection("127.0.0.1", self.ports[page], timeout=20)
        try:
            connection.request("GET", f"/{page}")
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def wait_for(self, is_so: Callable[[], object]) -> None:
        """Wait until a condition holds. Fail if the process ends first."""
        end = time.monotonic() + PATIENCE
        while not is_so():
            assert self.is_alive, self.tail
            assert time.monotonic() < end, self.tail
            time.sleep(0.05)

    def strike(self) -> None:
        """Kill the process without waiting for its end."""
        self._process.kill()

    def kill(self) -> None:
        """Kill the process, and wait for its end."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Request an orderly stop, and return the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE)


@contextmanager
def run_operator(
    kubeconfig: Path, folder: Path, *arguments: str, **environment: str
) -> Iterator[OperatorProcess]:
    """Run an operator, and kill the process when the block ends."""
    with run_skewed_operator(kubeconfig, folder, None, *arguments, **environment) as operator:
        yield operator


@contextmanager
def run_skewed_operator(
    kubeconfig: Path, folder: Path, clock: Path | None, *arguments: str, **environment: str
) -> Iterator[OperatorProcess]:
    """Run an operator whose clock is ahead by the seconds in a file. The file may change later."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STRANDLINE")}
    variables = {**kept, "KUBECONFIG": str(kubeconfig), **environment}
    operator = OperatorProcess(arguments, variables, folder / "operator.log", clock)
    try:
        yield operator
    finally:
        operator.kill()
