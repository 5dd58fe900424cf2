"""KubeRay's controller is measured with the RayJobs of the operator."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from api_server import NoApiServerError
from proving_ground.installation.kuberay import CheckoutError
from strandline_bench.ground.scale import Scale
from strandline_bench.operator.bench import Findings, Load
from strandline_bench.operator.cluster.kubelet import RUNNING, SUCCEEDED, Jobs, serve_jobs
from strandline_bench.operator.host import Reading
from strandline_bench.operator.kuberay import (
    CHECKOUT,
    Beside,
    count_methods,
    find_checkout,
    list_rows,
    measure_kuberay,
    observe_beside,
)
from strandline_bench.operator.moments import AttemptId, Moments


def test_without_kuberay_one_row_explains_the_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scale = Scale(is_quick=True, sources=None)
    monkeypatch.delenv(CHECKOUT, raising=False)
    (row,) = measure_kuberay(scale)
    assert row.measured == (
        "not measured: KUBERAY names no checkout of KubeRay in which it was built"
    )
    monkeypatch.setenv(CHECKOUT, str(tmp_path))
    (row,) = measure_kuberay(scale)
    assert "is no checkout of KubeRay" in row.measured
    assert row.verdict == "–"
    scale.remove()


def test_requests_of_a_controller_are_counted_by_method() -> None:
    name = "rest_client_requests_total"
    page = f"""# TYPE {name} counter
{name}{{code="200",host="a",method="GET"}} 3
{name}{{code="409",host="a",method="PUT"}} 1
{name}{{code="200",host="a",method="PUT"}} 4
# TYPE other gauge
other 7
"""
    assert count_methods(page) == {"GET": 3, "PUT": 5}


def test_rows_divide_resource_use_by_rayjobs() -> None:
    def read(at: float, cpu: float, **requests: int) -> Reading:
        return Reading(at, cpu, 30_000_000, 40_000_000, Counter(requests))

    moments = Moments(
        evidence={AttemptId("a", "corpus-0", 1): 1.0}, ended={AttemptId("a", "corpus-0", 1): 4.0}
    )
    moments.phases[("a", "corpus-0")] = "Succeeded"
    ours = (read(0.0, 1.0, GET=1), read(10.0, 2.0, GET=7, WATCH=9), read(10.0, 2.0))
    findings = Findings(Load(2), moments, *ours, late=())
    beside = Beside("v1.7.0", findings, read(0.0, 1.0, GET=4), read(20.0, 1.5, GET=4, PUT=10))
    rows = {row.what.partition(": ")[2]: (row.measured, row.verdict) for row in list_rows(beside)}
    assert rows["run to their end"] == ("1 RayJobs", "no")
    assert rows["KubeRay's controller, CPU a RayJob"] == ("250 ms", "–")
    assert rows["KubeRay's controller, share of a core"] == ("2.50 %", "–")
    assert rows["KubeRay's controller, requests a RayJob"] == ("5", "–")
    assert rows["the operator, CPU a RayJob"] == ("500 ms", "–")
    assert rows["the operator, requests a RayJob"] == ("3", "–")
    assert rows["the operator, memory, at most"] == ("40 MB", "–")
    assert rows["end of an attempt after its driver's, p99"] == ("3 s", "–")


def test_a_proxy_responds_for_the_ray_api_of_each_cluster() -> None:
    jobs: Jobs = {("a", "corpus-1"): RUNNING, ("b", "corpus-1"): SUCCEEDED}

    async def ask(namespace: str) -> tuple[int, str | None]:
        host = f"corpus-1-x-head-svc.{namespace}.svc.cluster.local"
        url = f"http://{host}:8265/api/jobs/corpus-1-q"
        async with (
            serve_jobs(jobs) as port,
            aiohttp.ClientSession() as session,
            session.get(url, proxy=f"http://127.0.0.1:{port}") as response,
        ):
            body = await response.json() if response.status == 200 else {}
            return response.status, body.get("status")

    assert asyncio.run(ask("a")) == (200, RUNNING)
    assert asyncio.run(ask("b")) == (200, SUCCEEDED)
    assert asyncio.run(ask("c")) == (404, None)


def test_a_real_kuberay_runs_rayjobs_to_their_end(tmp_path: Path) -> None:
    load = Load(2, rest=0.0, longest=150.0, is_smooth=True)
    try:
        beside = observe_beside(load, find_checkout(), tmp_path)
    except (CheckoutError, NoApiServerError) as error:
        pytest.skip(str(error))
    moments = beside.findings.moments
    assert list(moments.phases.values()) == ["Succeeded"] * 2
    assert len(moments.ended) == len(moments.evidence) == 2
    assert beside.ended.cpu > beside.begun.cpu
    assert beside.ended.requests["POST"] > beside.begun.requests["POST"]
