"""The operator as it runs in production: a process of its own, known by its ports and its log.

with run_operator(proxy.kubeconfig, tmp_path, "--namespaces", namespace) as operator:
    operator.ask("healthz")
    operator.kill()             # as a crash
    operator.start()            # the next one goes on from there
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
# What makes a story short that would take minutes; the rest is as in production.
QUICK = {
    "STRANDLINE_SETTLE": "1",
    "STRANDLINE_OUTCOME": "1",
    "STRANDLINE_PULL_INTERVAL": "1",
    "STRANDLINE_RESYNC": "2",
}


class OperatorProcess:
    """An operator that can be killed and started again; its log goes on.

    Attributes:
        log: the file with its lines, one JSON object each.
        starts: how often it has been started.
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
        """Start it, or start it again."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._variables, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        """The process of its last start."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs.

        Raises:
            AssertionError: it has ended by itself.
        """
        code = self._process.poll()
        assert code in {None, -signal.SIGKILL}, self.tail
        return code is None

    @property
    def lines(self) -> list[Json]:
        """Its log up to now; half a line at the end is left out."""
        text = self.log.read_text(encoding="utf-8")
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    @property
    def faults(self) -> list[Json]:
        """Lines of its log that tell of an exception, or of worse."""
        return [line for line in self.lines if "error" in line or line["level"] == "CRITICAL"]

    @property
    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8")[-5000:]

    def ask(self, page: str) -> tuple[int, str]:
        """What `healthz` or `metrics` answers: HTTP status and text."""
        connection = HTTPConnection("127.0.0.1", self.ports[page], timeout=20)
        try:
            connection.request("GET", f"/{page}")
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def wait_for(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so, for as long as the process runs."""
        end = time.monotonic() + PATIENCE
        while not is_so():
            assert self.is_alive, self.tail
            assert time.monotonic() < end, self.tail
            time.sleep(0.05)

    def strike(self) -> None:
        """End it at once, without waiting for that."""
        self._process.kill()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE)


@contextmanager
def run_operator(
    kubeconfig: Path, folder: Path, *arguments: str, **environment: str
) -> Iterator[OperatorProcess]:
    """Run an operator, and end it in the end whatever happens."""
    with run_skewed_operator(kubeconfig, folder, None, *arguments, **environment) as operator:
        yield operator


@contextmanager
def run_skewed_operator(
    kubeconfig: Path, folder: Path, clock: Path | None, *arguments: str, **environment: str
) -> Iterator[OperatorProcess]:
    """Run one on a machine whose clock is ahead by the seconds in a file, also while it runs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STRANDLINE")}
    variables = {**kept, "KUBECONFIG": str(kubeconfig), **environment}
    operator = OperatorProcess(arguments, variables, folder / "operator.log", clock)
    try:
        yield operator
    finally:
        operator.kill()
