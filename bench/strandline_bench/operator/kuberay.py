"""Measures the cost of KubeRay's own controller for the operator's RayJobs.

KubeRay and the Job controller are real programs with default settings, except that KubeRay elects
no leader. Kubelets and Ray are simulated: pods are marked as running, and a server responds in
place of Ray. The variable KUBERAY names a checkout of KubeRay with its built program.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from api_server import KUBERAY, ApiServer, NoApiServerError, find_binary, open_api_server
from control_plane import (
    LOOPBACK,
    NotStartedError,
    find_free_ports,
    install_definitions,
    list_controller_flags,
    run_program,
)
from proving_ground.installation.kuberay import (
    NO_ELECTION,
    Checkout,
    CheckoutError,
    find_version,
    read_checkout,
)
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number, reach
from strandline_bench.operator.bench import (
    PER_NAMESPACE,
    Findings,
    Load,
    list_settings,
    list_share,
    megabytes,
    print_line,
    see_through,
)
from strandline_bench.operator.cluster.kubelet import Jobs, Kubelet, serve_jobs
from strandline_bench.operator.cluster.player import serve_drivers
from strandline_bench.operator.cluster.wire import open_wire
from strandline_bench.operator.host import Reading, count_samples, fetch, read_process, run_host

CHECKOUT = "KUBERAY"
_CRDS = Path("ray-operator", "config", "crd", "bases")
_REQUESTS = "rest_client_requests_total"
_WAIT_SECONDS = 120.0  # timeout in seconds for the start
# Pipelines per second. KubeRay sends at most a hundred requests per second, enough for the whole
# lives of three or four RayJobs.
_PACE = 3.0
_LONGEST = 900.0


@dataclass(frozen=True, slots=True)
class Beside:
    """Observations of KubeRay and the operator.

    Attributes:
        begun, ended: readings of KubeRay before the first RayJob, and after the removal of the
            last.
    """

    version: str
    findings: Findings
    begun: Reading
    ended: Reading


@dataclass(frozen=True, slots=True)
class Controller:
    """A running KubeRay controller; see `run_kuberay`."""

    process: subprocess.Popen[bytes]
    log: Path
    metrics_port: int

    def wait(self) -> None:
        """Wait until the controller's metrics count requests.

        Raises:
            NotStartedError: if the controller ended, or on a timeout.
        """
        end = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(OSError):
                if "ray" in fetch(self.metrics_port, "/metrics")[1]:
                    return
            time.sleep(0.2)
        raise NotStartedError(f"KubeRay did not start: {self.log.read_text()[-2000:]}")

    def read(self) -> Reading:
        """Return the controller's current resource use."""
        page = fetch(self.metrics_port, "/metrics")[1]
        return read_process(self.process.pid, count_methods(page))


def measure_kuberay(scale: Scale) -> list[Row]:
    """Return rows on memory, CPU, and requests of KubeRay and of the operator."""
    try:
        checkout = find_checkout()
        number = scale.pipelines or scale.pick(500, 5)
        load = Load(number, pace=_PACE, longest=_LONGEST, rest=0.0, is_smooth=True)
        with tempfile.TemporaryDirectory(dir=scale.folder) as folder:
            beside = observe_beside(load, checkout, Path(folder))
    except (CheckoutError, NoApiServerError, NotStartedError) as error:
        return [Row("KubeRay's controller beside the operator", f"not measured: {error}")]
    return list_rows(beside)


def find_checkout() -> Checkout:
    """Return the KubeRay checkout that the environment names.

    Raises:
        CheckoutError: if the variable is not set, or the checkout is incomplete.
    """
    named = os.environ.get(CHECKOUT)
    if not named:
        raise CheckoutError(f"{CHECKOUT} names no checkout of KubeRay in which it was built")
    return read_checkout(Path(named))


def list_rows(beside: Beside) -> list[Row]:
    """Return the observations as rows."""
    findings, moments = beside.findings, beside.findings.moments
    number = findings.load.pipelines
    what = f"{number:,} RayJobs on KubeRay {beside.version}"
    over = sum(phase == "Succeeded" for phase in moments.phases.values())
    theirs, ours = (beside.begun, beside.ended), (findings.begun, findings.ended)
    return [
        reach(f"{what}: run to their end", over, number, "RayJobs"),
        *_list_costs(f"{what}: KubeRay's controller", *theirs, number),
        *_list_costs(f"{what}: the operator", *ours, number),
        list_share(
            f"{what}: end of an attempt after its driver's, p50", moments.end_delays, 0.5, "s"
        ),
        list_share(
            f"{what}: end of an attempt after its driver's, p99", moments.end_delays, 0.99, "s"
        ),
    ]


def _list_costs(what: str, begun: Reading, ended: Reading, number: int) -> list[Row]:
    cpu, seconds = ended.cpu - begun.cpu, ended.time - begun.time
    asked = {
        name: times
        for name, times in (ended.requests - begun.requests).items()
        if not name.startswith("WATCH")
    }
    return [
        Row(f"{what}, memory, at most", megabytes(ended.peak)),
        Row(f"{what}, CPU a RayJob", format_number(1000 * cpu / number, "ms")),
        Row(f"{what}, share of a core", format_number(100 * cpu / seconds, "%")),
        Row(f"{what}, requests a RayJob", format_number(sum(asked.values()) / number, "")),
    ]


def count_methods(page: str) -> Counter[str]:
    """Return requests by method, from the metrics page of a Go controller."""
    return count_samples(page, _REQUESTS, "method")


def observe_beside(load: Load, checkout: Checkout, folder: Path) -> Beside:
    """Start a control plane, KubeRay, and an operator, and run the pipelines until all have ended.

    Raises:
        NoApiServerError: if there is no control plane.
        NotStartedError: if a program does not start.
    """
    os.environ.setdefault(KUBERAY, str(checkout.folder / _CRDS))
    flags = {"controllers": "job-controller"}
    jobs = folder / "jobs"
    jobs.mkdir()
    with open_api_server(folder, print_line) as server:
        install_definitions(server.client, sorted((checkout.folder / _CRDS).glob("*.yaml")))
        binary, flags = find_binary(print_line), list_controller_flags(server.kubeconfig) | flags
        with run_program(binary, "kube-controller-manager", jobs, flags):
            return asyncio.run(_observe(load, checkout, server, folder))


async def _observe(load: Load, checkout: Checkout, server: ApiServer, folder: Path) -> Beside:
    count = -(-load.pipelines // PER_NAMESPACE)
    namespaces = [server.make_namespace("kuberay") for _ in range(count)]
    jobs = Jobs()
    async with (
        serve_drivers(time.time) as port,
        serve_jobs(jobs) as proxy,
        open_wire(server.kubeconfig) as wire,
    ):
        with (
            run_kuberay(checkout, server.kubeconfig, folder, proxy) as kuberay,
            run_host(server.kubeconfig, folder, list_settings(load, port)) as host,
        ):
            await asyncio.to_thread(kuberay.wait)
            await asyncio.to_thread(host.wait)
            begun = await asyncio.to_thread(kuberay.read)
            findings = await see_through(load, wire, host, namespaces, partial(Kubelet, jobs))
            ended = await asyncio.to_thread(kuberay.read)
    return Beside(find_version(checkout.folder, ""), findings, begun, ended)


@contextmanager
def run_kuberay(
    checkout: Checkout, kubeconfig: Path, folder: Path, proxy: int
) -> Iterator[Controller]:
    """Run KubeRay's controller on local ports, and remove it at the end.

    Args:
        proxy: port of the proxy to the simulated Ray APIs.
    """
    metrics, health = find_free_ports(2)
    command = [
        str(checkout.program),
        f"--metrics-addr={LOOPBACK}:{metrics}",
        f"--health-probe-bind-address={LOOPBACK}:{health}",
        NO_ELECTION,
    ]
    variables = {"KUBECONFIG": str(kubeconfig), "HTTP_PROXY": f"http://{LOOPBACK}:{proxy}"}
    log = folder / "kuberay.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - what the user has named
            command, env={**os.environ, **variables}, stdout=output, stderr=output
        )
    try:
        yield Controller(process, log, metrics)
    finally:
        process.kill()
        process.wait()
