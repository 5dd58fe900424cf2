"""Measures the cost of the operator with very many idle pipelines.

One pipeline runs until its end, and its final state is copied many times. Then an operator starts,
examines all copies, and stays idle.
"""

from __future__ import annotations

import asyncio
import copy
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from api_server import ApiServer, NoApiServerError, open_api_server
from control_plane import NotStartedError
from recordings import Json
from strandline_api.names import PIPELINE_LABEL, PIPELINE_UID_LABEL
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, bound, format_number
from strandline_bench.operator.bench import PER_NAMESPACE, print_line
from strandline_bench.operator.cluster.objects import Ending, render_pipeline
from strandline_bench.operator.cluster.player import Part, Player, serve_drivers
from strandline_bench.operator.cluster.wire import Wire, open_wire
from strandline_bench.operator.host import Host, Reading, run_host
from strandline_bench.operator.moments import FINAL
from strandline_operator.reconcile.caches.own_kinds import read_pipeline
from strandline_operator.render.attempt import render_claim

_MEGABYTE = 1_000_000
_AT_ONCE = 16
_MODEL = "first-of-all"  # unique, so that the name can be replaced in the pipeline's objects
_MODEL_SECONDS = 6.0  # enough for the operator to check the claim again and record it as bound
_QUIET_SECONDS = 5.0
_LONGEST_LOOK = 600.0


@dataclass(frozen=True, slots=True)
class Rest:
    """Observations of the idle operator.

    Attributes:
        begun: reading when the operator became healthy.
        quiet: first reading without new requests since the previous reading.
        rested: a reading some seconds later.
    """

    pipelines: int
    begun: Reading
    quiet: Reading
    rested: Reading


def measure_rest(scale: Scale) -> list[Row]:
    """Return rows on memory and CPU."""
    pipelines = scale.pipelines or scale.pick(5000, 50)
    try:
        with (
            tempfile.TemporaryDirectory(dir=scale.folder) as folder,
            open_api_server(Path(folder), print_line) as server,
        ):
            rest = asyncio.run(_observe(server, Path(folder), pipelines, scale.pick(60, 5)))
    except (NoApiServerError, NotStartedError) as error:
        sys.stderr.write(f"{error}\n")
        return [Row("operator at rest", "not measured: there is no API server")]
    return list_rows(rest)


def list_rows(rest: Rest) -> list[Row]:
    """Return the observations as rows."""
    what = f"operator, {rest.pipelines:,} pipelines at rest"
    asked = rest.quiet.requests - rest.begun.requests
    for request, times in asked.most_common():
        print_line(f"  {times / rest.pipelines:6.1f} a pipeline: {request}")
    seconds = rest.rested.time - rest.quiet.time
    idle = 100 * (rest.rested.cpu - rest.quiet.cpu) / max(0.001, seconds)
    return [
        bound(f"{what}: memory, at most", rest.rested.peak / _MEGABYTE, 600, "MB"),
        Row(f"{what}: memory", format_number(rest.rested.resident / _MEGABYTE, "MB")),
        bound(f"{what}: share of a core", idle, 5, "%"),
        Row(f"{what}: requests for each since its start", f"{asked.total() / rest.pipelines:.2f}"),
        Row(
            f"{what}: CPU of the start for each",
            format_number(1000 * rest.quiet.cpu / rest.pipelines, "ms"),
        ),
    ]


async def _observe(server: ApiServer, folder: Path, pipelines: int, seconds: float) -> Rest:
    count = -(-pipelines // PER_NAMESPACE)
    namespaces = [server.make_namespace("rest") for _ in range(count)]
    async with serve_drivers(time.time) as port, open_wire(server.kubeconfig) as wire:
        settings = {"STRANDLINE_DRIVER_PORT": str(port)}
        with run_host(server.kubeconfig, folder, settings) as host:
            await asyncio.to_thread(host.wait)
            pipeline, attempt = await run_model(wire, host, namespaces[0])
            await asyncio.to_thread(host.stop)
        await copy_all(wire, namespaces, pipelines, pipeline, attempt)
        with run_host(server.kubeconfig, folder, settings) as host:
            await asyncio.to_thread(host.wait)
            begun = await asyncio.to_thread(host.read)
            quiet = await wait_until_quiet(host)
            await asyncio.sleep(seconds)
            return Rest(pipelines, begun, quiet, await asyncio.to_thread(host.read))


async def run_model(wire: Wire, host: Host, namespace: str) -> tuple[Json, Json]:
    """Run one pipeline until its end, and return the pipeline and its attempt."""
    player = Player(wire, lambda _: Part(_MODEL_SECONDS, Ending.WELL), lambda *_: None, time.time)
    playing = asyncio.create_task(player.play())
    try:
        await wire.create(render_pipeline(_MODEL), namespace)
        async with asyncio.timeout(_LONGEST_LOOK):
            async for _, pipeline in wire.follow("CurationPipeline"):
                host.check()
                is_held = pipeline["metadata"].get("finalizers")
                if (pipeline.get("status") or {}).get("phase") in FINAL and not is_held:
                    break
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
    _, attempt = await anext(wire.follow("CurationAttempt"))
    return pipeline, attempt


async def copy_all(
    wire: Wire, namespaces: list[str], pipelines: int, pipeline: Json, attempt: Json
) -> None:
    """Create this many copies of the model pipeline under other names."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def write(number: int) -> None:
        async with slots:
            namespace = namespaces[number % len(namespaces)]
            await _copy(wire, namespace, f"rested-{number}", pipeline, attempt)

    await asyncio.gather(*(write(number) for number in range(pipelines)))


async def _copy(wire: Wire, namespace: str, name: str, pipeline: Json, attempt: Json) -> None:
    """Create a copy of the model pipeline under another name, with its whole status."""
    text = json.dumps([pipeline, attempt]).replace(_MODEL, name)
    finished, ended = json.loads(text)
    made = await wire.create(render_pipeline(name), namespace)
    assert made is not None
    uid = made["metadata"]["uid"]
    await wire.put_status("CurationPipeline", namespace, name, finished["status"])
    metadata = copy.deepcopy(ended["metadata"])
    labels = metadata["labels"] | {PIPELINE_UID_LABEL: uid, PIPELINE_LABEL: name}
    owners = [{**metadata["ownerReferences"][0], "name": name, "uid": uid}]
    body = {
        **ended,
        "metadata": {"name": metadata["name"], "labels": labels, "ownerReferences": owners},
        "spec": {**ended["spec"], "pipelineUid": uid},
    }
    await wire.create(body, namespace)
    await wire.put_status("CurationAttempt", namespace, metadata["name"], ended["status"])
    claim = render_claim(read_pipeline(made))
    await wire.create(claim, namespace)
    bound = {"phase": "Bound", "accessModes": claim["spec"]["accessModes"]}
    await wire.put_status(claim["kind"], namespace, claim["metadata"]["name"], bound)


async def wait_until_quiet(host: Host) -> Reading:
    """Wait until the operator sends no requests for some seconds, and return a reading.

    Watch streams do not count. Return the last reading after a timeout.
    """
    end, last = time.monotonic() + _LONGEST_LOOK, await asyncio.to_thread(host.read)
    while time.monotonic() < end:
        await asyncio.sleep(_QUIET_SECONDS)
        reading = await asyncio.to_thread(host.read)
        if _count(reading) == _count(last):
            return reading
        last = reading
    return last


def _count(reading: Reading) -> int:
    return sum(n for what, n in reading.requests.items() if not what.startswith("WATCH"))
