"""Runs the program of each product on a server, and makes rows of it.

The clock is the server's: from the first request to the last answer. What a product takes before
and after that is told beside it.
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
    """Return a row for each product that is installed, and one for each that is not."""
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
    """Describe a rate in requests and in tokens."""
    tokens = format_number(requests * quick_server.TOKENS, "tokens/s")
    return f"{format_number(requests, 'requests/s')}, {tokens}"


def _run(name: str, asking: Asking) -> tuple[float, float]:
    """Return the seconds of asking, and those before and after it.

    Raises:
        RuntimeError: the program failed, or there are more or fewer answers than requests.
    """
    look = f"{asking.url}/{quick_server.ASKED}"
    httpx.get(look)  # so that requests of others are not counted
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
