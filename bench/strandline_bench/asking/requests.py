"""Compares `ask-model` with bare clients and products, and measures its request log.

Clients take turns on one server in a separate process, at the same concurrency; the ratio is a
ratio of medians. Then each product sends the same number of requests.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from pathlib import Path

import pyarrow as pa

from strandline import Task
from strandline.stages import AskModel
from strandline_bench.asking.bare import time_aiohttp, time_httpx
from strandline_bench.asking.products import describe_rate, measure_products
from strandline_bench.asking.programs import MODEL, PROMPT, Asking
from strandline_bench.asking.quick_server import started_server
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, bound, format_number, reach
from strandline_packs.models.asking.answers import ModelAnswer
from strandline_packs.models.asking.log.answer_book import AnswerBook, KeepingTerms
from strandline_packs.models.asking.log.log_blocks import LogEntry, build_block, pack
from strandline_packs.models.asking.log.request_log import ANSWERS, SUFFIX, FolderLog

LEAST_SHARE = 95.0  # percent of the request rate that the HTTP library reaches alone
MOST_BYTES, MOST_SECONDS = 500.0, 10.0  # MB for a log of a million requests; seconds to read it
WRITERS, GROUP, WORDS, TASK = 100, 64, 40, 1_000
HTTPX, AIOHTTP, OURS = "httpx alone", "aiohttp alone", "`ask-model` with its log"
_BARE = {HTTPX: time_httpx, AIOHTTP: time_aiohttp}
FIRST = 1_000  # maximum number of requests in the first turn
MANY = 20_000  # from this number of requests on, one turn suffices


def measure_requests(scale: Scale) -> list[Row]:
    """Send requests to servers with response times of 1 ms and 200 ms, then measure the log."""
    count = scale.requests or scale.pick(3_000, 200)
    turns = scale.turns or scale.pick(3 if count < MANY else 1, 1)
    fast = _compare(scale, 0.001, count, 32, turns)
    slow = _compare(scale, 0.2, count, 128, turns)
    return [*fast, *slow, *_measure_log(scale, scale.pick(1_000_000, 20_000))]


def _compare(scale: Scale, seconds: float, count: int, at_once: int, turns: int) -> list[Row]:
    what = f"{count:,} requests of {seconds * 1000:g} ms, {at_once} at a time"
    rates: dict[str, list[float]] = {name: [] for name in (*_BARE, OURS)}
    with started_server(seconds) as server:
        folder = scale.folder / f"asked-{seconds}"
        stage = AskModel(
            url=f"{server}/v1",
            model=MODEL,
            prompt=PROMPT,
            concurrency=at_once,
            requests=str(folder),
        )
        stage.setup()
        at = 0
        for size in (min(count, FIRST), *[count] * turns):  # the first turn opens connections
            numbers = range(at, at + size)
            at += size
            for name, time_bare in _BARE.items():
                rates[name].append(size / time_bare(server, numbers, at_once))
            begun = time.perf_counter()
            stage.process(Task(pa.table({"n": list(numbers)})))
            rates[OURS].append(size / (time.perf_counter() - begun))
        products = measure_products(what, Asking(server, count, at_once, scale.folder), turns)
    found = {name: statistics.median(each[1:]) for name, each in rates.items()}
    shares = {name: 100 * found[OURS] / found[name] for name in _BARE}
    return [
        *(Row(f"{what}: {name}", describe_rate(rate)) for name, rate in found.items()),
        Row(f"{what}: of httpx alone", format_number(shares[HTTPX], "%")),
        reach(f"{what}: of aiohttp alone", shares[AIOHTTP], LEAST_SHARE, "%"),
        *products,
    ]


def _measure_log(scale: Scale, count: int) -> list[Row]:
    """Write a log of forty-word answers, and look up all of them as a new run does."""
    folder = scale.folder / "logs"
    (folder / ANSWERS).mkdir(parents=True)
    paths = [folder / ANSWERS / f"{number}{SUFFIX}" for number in range(WRITERS)]
    chance = random.Random(5)  # noqa: S311 - samples, not secrets
    digests = [digest for path in paths for digest in _write_log(path, count // WRITERS, chance)]
    begun = time.perf_counter()
    keeping = KeepingTerms(GROUP, 1.0, is_eager=True)
    book = AnswerBook(FolderLog(folder, "own"), keeping, time.monotonic, time.time)
    found = sum(len(book.find(digests[at : at + TASK])) for at in range(0, count, TASK))
    took = time.perf_counter() - begun
    if found != count:
        msg = f"{found} of {count} answers were read"
        raise RuntimeError(msg)
    size = sum(path.stat().st_size for path in paths) / 1e6
    what = f"log of {count:,} requests, answers of {WORDS} words"
    rows = [
        bound(f"{what}: size", size, MOST_BYTES, "MB"),
        bound(f"{what}: time to find all of them", took, MOST_SECONDS, "s"),
    ]
    return rows if count >= 1_000_000 else [Row(row.what, row.measured) for row in rows]


def _write_log(path: Path, count: int, chance: random.Random) -> list[bytes]:
    """Append answers individually, as a worker does, and return the digests of their requests."""
    words = [f"word{number:x}" for number in range(2000)]
    digests = []
    with path.open("wb") as file:
        for _ in range(count):
            text = json.dumps({"score": 3, "reason": " ".join(chance.choices(words, k=WORDS))})
            answer = ModelAnswer(text, None, "stop", 300, 60, "quick")
            entry = LogEntry(chance.randbytes(16), 1.8e9 + chance.random(), answer)
            file.write(build_block([pack(entry)]))
            digests.append(entry.digest)
    return digests
