"""Measures the cost and the delays of the operator with many concurrent pipelines.

At the peak, every pipeline has a running attempt; then attempts end as fast as they began. One in
five fails and is retried. The API server, etcd, and the cleanup controllers are real; KubeRay,
kubelets, and drivers are simulated.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from api_server import ApiServer, NoApiServerError, open_api_server
from control_plane import NotStartedError
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, bound, format_number, reach
from strandline_bench.operator.cluster.objects import Ending, render_pipeline
from strandline_bench.operator.cluster.player import (
    Cast,
    Clock,
    JobSimulator,
    Part,
    Player,
    ShowEvidence,
    serve_drivers,
)
from strandline_bench.operator.cluster.wire import Wire, open_wire
from strandline_bench.operator.host import Host, Pass, Reading, run_host
from strandline_bench.operator.moments import AttemptId, Moments, take_share

_MEGABYTE = 1_000_000
PER_NAMESPACE = 100
_LIVE = "corpus-"  # name prefix of applied pipelines
_TICK = 0.1
_RETRY_SECONDS = 5.0  # length of a retry


@dataclass(frozen=True, slots=True)
class Load:
    """A workload for the operator.

    Attributes:
        pace: pipelines applied per second.
        longest: seconds until the measurement stops, even if pipelines are still running.
        rest: seconds for which the idle operator is observed.
        settings: environment variables of the operator.
        beside: number of additional idle pipelines.
        memory: limit of the operator's memory in megabytes.
        is_smooth: whether all attempts succeed.
    """

    pipelines: int
    pace: float = 10.0
    longest: float = 600.0
    rest: float = 15.0
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    beside: int = 0
    memory: float = 250.0
    is_smooth: bool = False

    @property
    def what(self) -> str:
        """The load's name in rows."""
        if not self.beside:
            return f"operator, {self.pipelines:,} pipelines"
        every = self.pipelines + self.beside
        return f"operator, {every:,} pipelines of which {self.pipelines:,} run"

    @property
    def seconds(self) -> float:
        """The length of a first attempt in seconds.

        The attempt outlasts the start of all pipelines.
        """
        return self.pipelines / self.pace + 10.0

    def cast(self, attempt_id: AttemptId) -> Part:
        """Choose an attempt's length and ending.

        Two of ten first attempts fail, unless `is_smooth` is set. All retries succeed.
        """
        if attempt_id.number > 1:
            return Part(_RETRY_SECONDS, Ending.WELL)
        last = int(attempt_id.pipeline.rpartition("-")[2]) % 10
        ending = {3: Ending.MEMORY, 7: Ending.PREEMPTED}.get(last, Ending.WELL)
        if self.is_smooth:
            ending = Ending.WELL
        return Part(self.seconds, ending)


@dataclass(frozen=True, slots=True)
class Findings:
    """Observations of a run.

    Attributes:
        begun, ended, rested: readings before the first pipeline, after the end of the last, and
            after the idle period.
        late: delays of the observing loop itself, in seconds.
    """

    load: Load
    moments: Moments
    begun: Reading
    ended: Reading
    rested: Reading
    late: tuple[float, ...]
    passes: tuple[Pass, ...] = ()

    @property
    def requests(self) -> Counter[str]:
        """Requests by kind while pipelines were running, without watch streams."""
        made = self.ended.requests - self.begun.requests
        return Counter({what: n for what, n in made.items() if not what.startswith("WATCH")})

    @property
    def close(self) -> str:
        """Describe how the busy time ended."""
        is_over = len(self.moments.phases) == self.load.pipelines
        return "when all have ended" if is_over else "when it was stopped"

    @property
    def busy(self) -> list[Pass]:
        """The passes of the busy time."""
        return [
            record for record in self.passes if self.begun.time <= record.ended <= self.ended.time
        ]


def measure_operator(scale: Scale) -> list[Row]:
    """Return the rows on memory, CPU, requests, and delays."""
    load = Load(scale.pipelines or scale.pick(1000, 20))
    load = replace(load, pace=choose_pace(load.pipelines), rest=scale.pick(15, 5))
    return measure_load(load, scale.folder, observe)


def choose_pace(pipelines: int) -> float:
    """Return the number of pipelines to apply per second; lower for small loads.

    Two cores cannot run an API server and a simulator at ten pipelines per second. The benchmark
    would then measure queues of the server, which needs three times the operator's CPU time.
    """
    return min(max(2.0, pipelines / 100), 5.0)


def measure_load(load: Load, parent: Path, observe: Callable[[Load, Path], Findings]) -> list[Row]:
    """Measure a load and return rows, or one explanatory row if there is no control plane.

    Args:
        parent: parent of the control plane's folder, which is removed at the end.
    """
    try:
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            findings = observe(load, Path(folder))
    except (NoApiServerError, NotStartedError) as error:
        print_line(str(error))
        return [Row(load.what, "not measured: there is no API server")]
    print_requests(findings)
    return list_rows(findings)


def observe(load: Load, folder: Path) -> Findings:
    """Start a control plane and an operator, and run the pipelines until all have ended.

    Raises:
        NoApiServerError: if there is no control plane.
        OperatorEndedError: if the operator has ended.
    """
    with open_api_server(folder, print_line) as server:
        return asyncio.run(_observe(load, server, folder))


def print_line(line: str) -> None:
    """Print a line outside the table."""
    sys.stderr.write(f"{line}\n")


def print_requests(findings: Findings) -> None:
    """Print the requests per attempt."""
    for what, count in findings.requests.most_common():
        print_line(f"  {count / max(1, len(findings.moments.ended)):6.1f} an attempt: {what}")


def list_rows(findings: Findings) -> list[Row]:
    """Return the findings as rows."""
    moments, load = findings.moments, findings.load
    requests = [findings.requests.total() / len(moments.ended)] if moments.ended else []
    over = sum(phase == "Succeeded" for phase in moments.phases.values())
    what = load.what
    return [
        reach(f"{what}: run to their end", over, load.pipelines, "pipelines"),
        bound(f"{what}: memory, at most", findings.rested.peak / _MEGABYTE, load.memory, "MB"),
        Row(f"{what}: memory, {findings.close}", megabytes(findings.rested.resident)),
        *_list_costs(what, findings),
        list_share(f"{what}: requests an attempt", requests, 1.0, "", target=35),
        *_list_delays(what, moments),
        list_share(f"{what}: delay of the looker-on himself, p99", findings.late, 0.99, "s"),
    ]


def _list_costs(what: str, findings: Findings) -> list[Row]:
    begun, ended, rested = findings.begun, findings.ended, findings.rested
    costs = [record.cost for record in findings.busy]
    lengths = [record.length for record in findings.busy]
    cpu, seconds = ended.cpu - begun.cpu, ended.time - begun.time
    idle = (rested.cpu - ended.cpu) / max(0.001, rested.time - ended.time)
    return [
        list_share(f"{what}: CPU of a pass, p50", costs, 0.5, "ms"),
        list_share(f"{what}: CPU of a pass, p99", costs, 0.99, "ms", target=50),
        list_share(f"{what}: length of a pass, p50", lengths, 0.5, "ms"),
        list_share(f"{what}: length of a pass, p99", lengths, 0.99, "ms"),
        Row(
            f"{what}: CPU of the process for each pass, streams and sockets too",
            format_number(1000 * cpu / max(1, len(costs)), "ms"),
        ),
        Row(f"{what}: passes", format_number(len(costs) / seconds, "a second")),
        Row(f"{what}: share of a core", format_number(100 * cpu / seconds, "%")),
        Row(
            f"{what}: share of all cores, of all that runs here",
            format_number(100 * (ended.busy - begun.busy) / seconds / (os.cpu_count() or 1), "%"),
        ),
        Row(f"{what}: share of a core, {findings.close}", format_number(100 * idle, "%")),
    ]


def _list_delays(what: str, moments: Moments) -> list[Row]:
    ends, retries, firsts = moments.end_delays, moments.retry_delays, moments.first_delays
    return [
        list_share(f"{what}: first attempt after its pipeline, p50", firsts, 0.5, "s"),
        list_share(f"{what}: first attempt after its pipeline, p99", firsts, 0.99, "s", target=2),
        list_share(f"{what}: end of an attempt after its evidence, p50", ends, 0.5, "s"),
        list_share(f"{what}: end of an attempt after its evidence, p99", ends, 0.99, "s", target=2),
        list_share(f"{what}: next attempt after its time, p50", retries, 0.5, "s"),
        list_share(f"{what}: next attempt after its time, p99", retries, 0.99, "s", target=2),
    ]


def list_share(
    what: str, numbers: Sequence[float], share: float, unit: str, *, target: float | None = None
) -> Row:
    """Return a row with a percentile of the numbers.

    If there are no numbers, the row reads "not seen".
    """
    if not numbers:
        return Row(what, "not seen")
    taken = take_share(numbers, share)
    if target is None:
        return Row(what, format_number(taken, unit))
    return bound(what, taken, target, unit)


def megabytes(size: int) -> str:
    """Format bytes as megabytes."""
    return format_number(size / _MEGABYTE, "MB")


async def _observe(load: Load, server: ApiServer, folder: Path) -> Findings:
    count = -(-load.pipelines // PER_NAMESPACE)
    namespaces = [server.make_namespace("bench") for _ in range(count)]
    async with serve_drivers(time.time) as port, open_wire(server.kubeconfig) as wire:
        with run_host(server.kubeconfig, folder, list_settings(load, port)) as host:
            await asyncio.to_thread(host.wait)
            return await see_through(load, wire, host, namespaces)


def list_settings(load: Load, port: int) -> dict[str, str]:
    """Return the operator's environment variables, including the port of the simulated drivers."""
    return {
        "STRANDLINE_RETRIES_PER_MINUTE": "100000",
        "STRANDLINE_DRIVER_PORT": str(port),
        **load.settings,
    }


async def see_through(
    load: Load,
    wire: Wire,
    host: Host,
    namespaces: Sequence[str],
    cast: Callable[[Wire, Cast, ShowEvidence, Clock], JobSimulator] = Player,
) -> Findings:
    """Apply the pipelines of a load, watch them until all have ended, and stop the operator."""
    moments, late = Moments(), list[float]()
    player = cast(wire, load.cast, moments.show_evidence, time.time)
    work = [
        player.play(),
        _look(wire, "CurationPipeline", moments.see_pipeline),
        _look(wire, "CurationAttempt", moments.see_attempt),
    ]
    begun = await asyncio.to_thread(host.read)
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    applying = asyncio.create_task(_apply(load, wire, namespaces))
    try:
        end = time.monotonic() + load.longest
        while time.monotonic() < end and (len(moments.phases) < load.pipelines or player.left):
            for task in (applying, *tasks):
                if task.done():
                    task.result()
            host.check()
            asleep = time.monotonic()
            await asyncio.sleep(_TICK)
            late.append(time.monotonic() - asleep - _TICK)
        ended = await asyncio.to_thread(host.read)
        await asyncio.sleep(load.rest)
        rested = await asyncio.to_thread(host.read)
    finally:
        for task in (applying, *tasks):
            task.cancel()
        await asyncio.gather(applying, *tasks, return_exceptions=True)
    passes = await asyncio.to_thread(host.stop)
    return Findings(load, moments, begun, ended, rested, tuple(late), tuple(passes))


async def _apply(load: Load, wire: Wire, namespaces: Sequence[str]) -> None:
    """Apply pipelines at an even pace."""
    begun = time.monotonic()
    for number in range(load.pipelines):
        await asyncio.sleep(max(0.0, begun + number / load.pace - time.monotonic()))
        name, namespace = f"{_LIVE}{number}", namespaces[number % len(namespaces)]
        await wire.create(render_pipeline(name), namespace)


async def _look(wire: Wire, kind: str, see: Callable[[Mapping[str, object], float], None]) -> None:
    async for word, body in wire.follow(kind):
        # Attempts have the name prefix of their pipelines. Idle pipelines have another prefix.
        if word != "DELETED" and body["metadata"]["name"].startswith(_LIVE):
            see(body, time.time())
