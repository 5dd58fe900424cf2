"""Measures the speed of the tally, and its memory per live source."""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from strandline.ledger.tally import Tally
from strandline.plan.receipt import Event, Output
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.table import Row, bound, reach

_ALIVE = 1_000  # number of sources with open trees at any time
_MESSAGE = 500  # events per message
_CHILDREN = 4
_MANY_CHILDREN = 32


def measure_tally(scale: Scale) -> list[Row]:
    """Measure events per second for trees with a fan-out of four, and the bytes of open trees."""
    rates = run_apart(count_rates, scale.pick(60_000, 5_000), scale.pick(9, 2))
    first, further, after = run_apart(trace_memory, scale.pick(50_000, 2_000))
    return [
        reach("tally, one process", statistics.median(rates), 1_000_000, "events/s"),
        bound("tally: live source with one token", first, 400, "bytes"),
        bound("tally: each further token", further, 150, "bytes"),
        bound("tally: source that is finished", after, 0, "bytes"),
    ]


def count_rates(sources: int, times: int) -> list[float]:
    """Count the same events several times, and return the events per second of each pass."""
    events = list(_list_events(sources))
    messages = [events[at : at + _MESSAGE] for at in range(0, len(events), _MESSAGE)]
    gc.collect()
    gc.freeze()  # exclude the messages from collections: in a real run, they are short-lived
    rates = []
    for _ in range(times):
        tally, finished = Tally(_is_never_over), 0
        begun = time.perf_counter()
        for message in messages:
            finished += len(tally.count(message))
        rates.append(len(events) / (time.perf_counter() - begun))
        _check(finished == sources)
    return rates


def trace_memory(sources: int) -> tuple[float, float, float]:
    """Return the bytes per live source with one token, per further token, and per finished source.

    Names are created for each event, so the tally alone holds the remaining names, and they count
    as its memory.
    """
    tally, numbers = Tally(_is_never_over), range(sources)
    tracemalloc.start()
    empty = _read_heap()
    tally.count(_announce(numbers))
    announced = _read_heap()
    tally.count(_fan_out(numbers, _MANY_CHILDREN))
    fanned_out = _read_heap()
    del tally
    return (
        (announced - empty) / sources,
        (fanned_out - announced) / sources / _MANY_CHILDREN,
        _trace_finished(sources),
    )


def _trace_finished(sources: int) -> float:
    """Return the memory growth of a tally in bytes per finished source."""
    tally, finished, before = Tally(_is_never_over), 0, 0
    for start in range(0, 2 * sources, _ALIVE):
        if start == sources:
            before = _read_heap()
        finished += len(tally.count(_live_through(range(start, start + _ALIVE))))
    _check(finished == 2 * sources)
    return max(0, _read_heap() - before) // sources


def _list_events(sources: int) -> Iterator[Event]:
    for start in range(0, sources, _ALIVE):
        yield from _live_through(range(start, min(start + _ALIVE, sources)))


def _live_through(numbers: Iterable[int]) -> Iterator[Event]:
    yield from _announce(numbers)
    yield from _fan_out(numbers, _CHILDREN)
    for child in range(_CHILDREN):
        for number in numbers:
            token = _name(number, child)
            outputs = (Output(token, ".parquet", 1_000, token, 10),)
            yield Event(_name(number, -2), (token,), (), outputs)


def _announce(numbers: Iterable[int]) -> Iterator[Event]:
    for number in numbers:
        yield Event(_name(number, -2), (), (_name(number, -1),))


def _fan_out(numbers: Iterable[int], children: int) -> Iterator[Event]:
    for number in numbers:
        tokens = tuple(_name(number, child) for child in range(children))
        yield Event(_name(number, -2), (_name(number, -1),), tokens)


def _name(number: int, part: int) -> bytes:
    return blake2b(b"%d %d" % (number, part), digest_size=16).digest()


def _is_never_over(_: bytes) -> bool:
    return False


def _read_heap() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _check(is_right: bool) -> None:  # noqa: FBT001 - a plain assertion that -O leaves in
    if not is_right:
        msg = "the tally did not finish every source"
        raise RuntimeError(msg)
