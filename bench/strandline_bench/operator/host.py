"""Runs an operator in a separate process and measures memory, CPU, requests, and passes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from control_plane import LOOPBACK, find_free_ports
from strandline_bench.ground.folders import join_python_path
from strandline_bench.operator.entry import PASSES, PROFILE

_WAIT_SECONDS = 120.0  # timeout in seconds for the start and the stop
_REQUESTS = "strandline_api_requests_total"
_TICKS = os.sysconf("SC_CLK_TCK")


class OperatorEndedError(Exception):
    """Raised if the operator ended unexpectedly or did not start.

    The message has its last log lines.
    """


@dataclass(frozen=True, slots=True)
class Pass:
    """A reconcile pass.

    Attributes:
        ended: end time in seconds since the epoch.
        cost: CPU time of its steps, in ms.
        length: wall-clock time from start to end, in ms.
    """

    ended: float
    cost: float
    length: float


@dataclass(frozen=True, slots=True)
class Reading:
    """Resources that a process has used until a point in time.

    Attributes:
        time: time of the reading, in seconds since the epoch.
        cpu: CPU seconds of all threads of the process.
        resident, peak: current and maximum resident memory in bytes.
        requests: requests to the API server, by verb and resource.
        busy: busy seconds of all cores of the machine, for any process.
    """

    time: float
    cpu: float
    resident: int
    peak: int
    requests: Counter[str]
    busy: float = 0.0


@dataclass(slots=True)
class Host:
    """A running operator; see `run_host`."""

    process: subprocess.Popen[bytes]
    folder: Path
    metrics_port: int
    health_port: int

    def check(self) -> None:
        """Check that the operator is running.

        Raises:
            OperatorEndedError: if the operator has ended.
        """
        if self.process.poll() is not None:
            tail = (self.folder / "operator.log").read_text(errors="replace")[-3000:]
            raise OperatorEndedError(f"the operator has ended ({self.process.returncode}):\n{tail}")

    def wait(self) -> None:
        """Wait until the operator is healthy.

        Raises:
            OperatorEndedError: if the operator has ended, or on a timeout.
        """
        end = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < end:
            self.check()
            with suppress(OSError):
                if fetch(self.health_port, "/healthz")[0] == 200:
                    return
            time.sleep(0.2)
        raise OperatorEndedError("the operator did not become healthy")

    def read(self) -> Reading:
        """Return the operator's current resource use."""
        self.check()
        return read_process(
            self.process.pid, count_requests(fetch(self.metrics_port, "/metrics")[1])
        )

    def stop(self) -> list[Pass]:
        """Stop the operator, and return its logged passes."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return read_passes((self.folder / "passes.txt").read_text())


@contextmanager
def run_host(kubeconfig: Path, folder: Path, settings: Mapping[str, str]) -> Iterator[Host]:
    """Run an operator that watches all namespaces, and remove it at the end.

    Args:
        settings: environment variables, in addition to those for its ports.
    """
    metrics, health = find_free_ports(2)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == PROFILE or not name.startswith("STRANDLINE")
    }
    variables = {
        **kept,
        "KUBECONFIG": str(kubeconfig),
        "STRANDLINE_METRICS_PORT": str(metrics),
        "STRANDLINE_LIVENESS_PORT": str(health),
        "PYTHONPATH": join_python_path(),
        PASSES: str(folder / "passes.txt"),
        **settings,
    }
    command = [sys.executable, "-m", "strandline_bench.operator.entry"]
    with (folder / "operator.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command, env=variables, stdout=log, stderr=log
        )
    try:
        yield Host(process, folder, metrics, health)
    finally:
        process.kill()
        process.wait()


def read_process(number: int, requests: Counter[str]) -> Reading:
    """Return the current resource use of a process by its ID."""
    folder = Path("/proc") / str(number)
    # The process name, in parentheses, may contain blanks.
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    sizes = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return Reading(
        time=time.time(),
        cpu=(int(fields[11]) + int(fields[12])) / _TICKS,
        resident=int(sizes["VmRSS"].split()[0]) << 10,
        peak=int(sizes["VmHWM"].split()[0]) << 10,
        requests=requests,
        busy=_read_busy(),
    )


def _read_busy() -> float:
    """Return the busy seconds of all cores."""
    with Path("/proc/stat").open() as file:
        user, nice, system = file.readline().split()[1:4]
    return (int(user) + int(nice) + int(system)) / _TICKS


def count_requests(page: str) -> Counter[str]:
    """Return requests by verb and resource, such as `LIST pods`, from a metrics page."""
    return count_samples(page, _REQUESTS, "verb", "resource")


def count_samples(page: str, name: str, *labels: str) -> Counter[str]:
    """Return the sums of a counter, grouped by the values of some labels, from a metrics page."""
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == name:
                found[" ".join(sample.labels[label] for label in labels)] += int(sample.value)
    return found


def read_passes(text: str) -> list[Pass]:
    """Return the passes of a log, without an incomplete line at its end."""
    whole = text[: text.rfind("\n") + 1]
    return [Pass(*map(float, line.split())) for line in whole.splitlines()]


def fetch(port: int, path: str) -> tuple[int, str]:
    """Return the status and text of a response from a local port."""
    connection = HTTPConnection(LOOPBACK, port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
