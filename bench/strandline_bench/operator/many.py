"""Measures the cost of the operator if most pipelines are idle and some hundred run.

Eight of nine idle pipelines have ended. Each is a copy of a real run, with all objects that the
operator left. The ninth is suspended, and the operator adopts it at its start. Other pipelines are
applied beside the idle pipelines and run until their end, as in the benchmark `operator`.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from api_server import ApiServer, open_api_server
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row
from strandline_bench.operator.bench import (
    PER_NAMESPACE,
    Findings,
    Load,
    choose_pace,
    list_settings,
    measure_load,
    print_line,
    see_through,
)
from strandline_bench.operator.cluster.objects import render_pipeline
from strandline_bench.operator.cluster.player import serve_drivers
from strandline_bench.operator.cluster.wire import Wire, open_wire
from strandline_bench.operator.host import run_host
from strandline_bench.operator.rest import copy_all, run_model, wait_until_quiet

_SUSPENDED = 9  # every ninth idle pipeline is suspended
_RUNNING = 10  # every tenth pipeline runs
_MEMORY = 600.0  # megabytes, the same limit as for idle pipelines alone


def measure_many(scale: Scale) -> list[Row]:
    """Return rows on memory, CPU, requests, and delays."""
    every = scale.pipelines or scale.pick(5000, 50)
    return measure_load(plan_load(every, rest=scale.pick(15, 5)), scale.folder, observe_many)


def plan_load(every: int, rest: float) -> Load:
    """Return the load for a total of `every` pipelines."""
    running = max(1, every // _RUNNING)
    return Load(
        running, pace=choose_pace(running), rest=rest, beside=every - running, memory=_MEMORY
    )


def observe_many(load: Load, folder: Path) -> Findings:
    """Start a control plane with idle pipelines and an operator, then run the other pipelines.

    Raises:
        NoApiServerError: if there is no control plane.
        OperatorEndedError: if the operator has ended.
    """
    with open_api_server(folder, print_line) as server:
        return asyncio.run(_observe(load, server, folder))


async def _observe(load: Load, server: ApiServer, folder: Path) -> Findings:
    count = -(-(load.pipelines + load.beside) // PER_NAMESPACE)
    namespaces = [server.make_namespace("many") for _ in range(count)]
    async with serve_drivers(time.time) as port, open_wire(server.kubeconfig) as wire:
        settings = list_settings(load, port)
        with run_host(server.kubeconfig, folder, settings) as host:
            await asyncio.to_thread(host.wait)
            pipeline, attempt = await run_model(wire, host, namespaces[0])
            await asyncio.to_thread(host.stop)
        suspended = load.beside // _SUSPENDED
        await copy_all(wire, namespaces, load.beside - suspended, pipeline, attempt)
        await _suspend(wire, namespaces, suspended)
        with run_host(server.kubeconfig, folder, settings) as host:
            await asyncio.to_thread(host.wait)
            await wait_until_quiet(host)
            return await see_through(load, wire, host, namespaces)


async def _suspend(wire: Wire, namespaces: list[str], pipelines: int) -> None:
    for number in range(pipelines):
        body = render_pipeline(f"held-{number}")
        body["spec"]["suspend"] = True
        await wire.create(body, namespaces[number % len(namespaces)])
