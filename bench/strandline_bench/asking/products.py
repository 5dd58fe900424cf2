"""Runs each product's program against a server and returns table rows.

The server measures the time from the first request to the last response. The time before and after
is a separate value.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from importlib import metadata, util
from statistics import median

import httpx

from strandline_bench.asking import quick_server
from strandline_bench.asking.programs import PROGRAMS, Asking
from strandline_bench.engines.rivals.index import HOW_TO_INSTALL
from strandline_bench.ground.folders import join_python_path
from strandline_bench.ground.table import Row, format_number

_MODULE = "strandline_bench.asking.programs"
_ERROR_CHARACTERS = 500


def measure_products(what: str, asking: Asking, turns: int) -> list[Row]:
    """Return a row per product, even if the product is not installed."""
    rows = []
    for name, program in PROGRAMS.items():
        if not all(util.find_spec(module) for module in program.needs):
            rows.append(Row(f"{what}: {program.package}, {program.title}", HOW_TO_INSTALL))
            continue
        found = [_run(name, asking) for _ in range(turns)]
        rate = asking.requests / median(seconds for seconds, _ in found)
        rest = format_number(median(rest for _, rest in found), "s")
        title = f"{program.package} {metadata.version(program.package)}, {program.title}"
        rows.append(Row(f"{what}: {title}", f"{describe_rate(rate)}; {rest} before and after"))
    return rows


def describe_rate(requests: float) -> str:
    """Format a rate in requests per second and in tokens per second."""
    tokens = format_number(requests * quick_server.TOKENS, "tokens/s")
    return f"{format_number(requests, 'requests/s')}, {tokens}"


def _run(name: str, asking: Asking) -> tuple[float, float]:
    """Return the seconds from the first request to the last response, and the remaining seconds.

    Raises:
        RuntimeError: if the program failed, or the number of responses differs from the requests.
    """
    look = f"{asking.url}/{quick_server.ASKED}"
    httpx.get(look)  # reset the counters, so that earlier requests are not counted
    folder = asking.folder / f"asking-{name}"
    folder.mkdir()
    words = [name, asking.url, str(asking.requests), str(asking.at_once), str(folder)]
    begun = time.perf_counter()
    done = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-m", _MODULE, *words],
        env={**os.environ, "PYTHONPATH": join_python_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    whole = time.perf_counter() - begun
    shutil.rmtree(folder)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-_ERROR_CHARACTERS:]}")
    asked, answers = httpx.get(look).json(), int(done.stdout.split()[-1])
    if not answers == asked["answers"] == asking.requests:
        raise RuntimeError(f"{name}: {answers} of {asked['answers']} answers, of {asking.requests}")
    return asked["seconds"], whole - asked["seconds"]
