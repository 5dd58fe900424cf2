"""The operator as it runs in production: a process of its own, known by its ports and its log.

with run_operator(api_server.kubeconfig, tmp_path, "--namespaces", namespace) as operator:
    operator.ask("healthz")
    operator.kill()             # as a crash; the next one goes on from there
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from recordings import Json

PATIENCE = 60.0


@dataclass(slots=True)
class OperatorProcess:
    """A running operator.

    Attributes:
        log: the file with its lines, one JSON object each.
    """

    process: subprocess.Popen[bytes]
    log: Path
    ports: dict[str, int]

    def ask(self, page: str) -> tuple[int, str]:
        """What `healthz` or `metrics` answers: HTTP status and text."""
        connection = HTTPConnection("127.0.0.1", self.ports[page], timeout=20)
        try:
            connection.request("GET", f"/{page}")
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    @property
    def lines(self) -> list[Json]:
        """Its log up to now; half a line at the end is left out."""
        text = self.log.read_text(encoding="utf-8")
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def wait_for(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so, for as long as the process runs."""
        end = time.monotonic() + PATIENCE
        while not is_so():
            assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
            assert time.monotonic() < end, self.log.read_text(encoding="utf-8")[-5000:]
            time.sleep(0.05)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextmanager
def run_operator(
    kubeconfig: Path, folder: Path, *arguments: str, **environment: str
) -> Iterator[OperatorProcess]:
    """Run an operator, and end it in the end whatever happens."""
    ports = {"metrics": find_port(), "healthz": find_port()}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STRANDLINE")}
    variables = {
        **kept,
        "KUBECONFIG": str(kubeconfig),
        "STRANDLINE_METRICS_PORT": str(ports["metrics"]),
        "STRANDLINE_LIVENESS_PORT": str(ports["healthz"]),
        **environment,
    }
    log = folder / f"operator-{ports['metrics']}.log"
    with log.open("wb") as file:
        command = [sys.executable, "-m", "strandline_operator", *arguments]
        process = subprocess.Popen(command, env=variables, stdout=file, stderr=file)
        try:
            yield OperatorProcess(process, log, ports)
        finally:
            process.kill()
            process.wait()


def find_port() -> int:
    """A port of loopback that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
