"""Measures the driver's cost per event, with short and with long queues.

Without Ray or a disk, calls the queues, groups, and tally of a run as the driver's loop does.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

from strandline.engine.call.slots import Slot
from strandline.engine.flow.flow import Flow
from strandline.ledger.tally import Tally
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.receipt import EmittedTask, Event, Failure, Output, Receipt, StageCounts
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Origin
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.table import Row, bound, format_number

_BATCH = 16
_EVENTS = 4_000
_LITTLE = 10_000
_MOST_TIMES = 2.0


def measure_driver(scale: Scale) -> list[Row]:
    """Compare the costs of few and many tasks of one source, waiting sources, and open groups."""
    cases: tuple[tuple[str, Callable[[int], float], int], ...] = (
        ("tasks out of one source", time_tasks, scale.pick(1_000_000, 30_000)),
        ("sources that wait", time_sources, scale.pick(1_000_000, 30_000)),
        ("open groups, sources that fail", time_groups, scale.pick(200_000, 20_000)),
        ("whole groups that wait", time_whole_groups, scale.pick(200_000, 20_000)),
    )
    rows = []
    for what, measure, many in cases:
        few_seconds, many_seconds = run_apart(_compare, measure, many, scale.pick(3, 1))
        name = f"driver, an event of {many:,} {what}"
        rows.append(Row(name, format_number(many_seconds * 1e6, "µs")))
        ratio = many_seconds / few_seconds
        rows.append(bound(f"{name}: as a multiple of {_LITTLE:,}", ratio, _MOST_TIMES, "×"))
    return rows


def time_tasks(count: int) -> float:
    """Return the seconds per task while all tasks of one source wait for the last stage."""
    flow, tally = _make_flow(), Tally(_is_never_over)
    (root,) = _make_roots(1)
    tokens = tuple(_name(number) for number in range(1, count + 1))
    tally.count([Event(root.source, (), (root.token,)), Event(root.source, (root.token,), tokens)])
    flow.enter([root])
    batch = flow.next_batch(0)
    emitted = tuple(
        EmittedTask(index, root.source, token, Origin(root.token, index, count))
        for index, token in enumerate(tokens)
    )
    flow.complete(
        0, batch, Receipt((), (), emitted, StageCounts(tasks_in=1, tasks_out=count)), None
    )
    return _time(lambda: _turn(flow, 1, tally), _EVENTS // _BATCH) / _BATCH


def time_sources(count: int) -> float:
    """Return the seconds per source while `count` sources wait for the first stage."""
    flow, tally = _make_flow(), Tally(_is_never_over)
    roots = _make_roots(count)
    tally.count(Event(root.source, (), (root.token,)) for root in roots)
    flow.enter(roots)
    return _time(lambda: _turn(flow, 0, tally), _EVENTS // _BATCH) / _BATCH


def time_groups(count: int) -> float:
    """Return the seconds per failed source while a group per source waits for its second half."""
    flow = _make_flow(group=2)
    for number in range(count):
        _begin_group(flow, number, arriving=1)
    numbers = iter(range(count))

    def fail() -> None:
        source = _name(next(numbers))
        flow.fail([Failure(source, "key", source, "s0", "no")])
        _ask(flow)

    return _time(fail, _EVENTS)


def time_whole_groups(count: int) -> float:
    """Return the seconds per group while `count` groups wait for the last stage."""
    flow = _make_flow(group=2)
    for number in range(count):
        _begin_group(flow, number, arriving=2)

    def take() -> None:
        _ask(flow)
        batch = flow.next_batch(1)
        flow.complete(1, batch, Receipt((), (), (), StageCounts(tasks_in=2, filtered=2)), None)

    return _time(take, _EVENTS)


def _compare(measure: Callable[[int], float], many: int, turns: int) -> tuple[float, float]:
    """Return the median seconds for few and for many events, measured alternately."""
    few_times, many_times = [], []
    for _ in range(turns):
        few_times.append(measure(_LITTLE))
        many_times.append(measure(many))
    return statistics.median(few_times), statistics.median(many_times)


def _time(event: Callable[[], None], times: int) -> float:
    """Return the seconds per event, without garbage collection."""
    gc.collect()
    gc.disable()
    begun = time.perf_counter()
    for _ in range(times):
        event()
    seconds = (time.perf_counter() - begun) / times
    gc.enable()
    return seconds


def _turn(flow: Flow, stage: int, tally: Tally) -> None:
    """Run one turn of the driver's loop: query the queues, send a batch, and take its receipt."""
    _ask(flow)
    batch = flow.next_batch(stage, _BATCH)
    events = [
        Event(slot.source, (slot.token,), (), (Output(slot.token, ".x", 1, slot.token, 1),))
        for slot in batch
    ]
    tally.count(events)
    counts = StageCounts(tasks_in=len(batch), filtered=len(batch))
    flow.complete(stage, batch, Receipt(tuple(events), (), (), counts), None)


def _ask(flow: Flow) -> None:
    """Query the queues as each turn of the driver's loop does."""
    flow.is_idle()
    for stage, queue in enumerate(flow.queues):
        len(queue)
        flow.has_suspects(stage)


def _make_flow(group: int | None = None) -> Flow:
    stages = (
        StagePlan("s0", "s", Stage(), batch_size=_BATCH),
        StagePlan("s1", "s", Stage(), batch_size=_BATCH, group=group),
    )
    source = StagePlan("source", "source", Stage())
    return Flow(PipelinePlan("bench", "driver", source, stages, Fingerprint("", {})))


def _make_roots(count: int) -> list[Slot]:
    names = map(_name, range(count))
    return [Slot(name, "key", name, None, None, 0) for name in names]


def _begin_group(flow: Flow, number: int, arriving: int) -> None:
    """Split a source's task into two tasks, `arriving` of which have arrived."""
    name = _name(number)
    slot = Slot(name, "key", name, None, None, 0)
    flow.queues[0].running += 1
    emitted = tuple(
        EmittedTask(index, name, _name(number << 1 | index), Origin(b"f" + name[1:], index, 2))
        for index in range(arriving)
    )
    flow.complete(0, [slot], Receipt((), (), emitted, StageCounts(tasks_in=1, tasks_out=2)), None)


def _name(number: int) -> bytes:
    return (number + 1).to_bytes(16, "big")


def _is_never_over(_: bytes) -> bool:
    return False
