"""A slow stage delays earlier stages, but a slow listing delays no stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray

import engine_stages as bad
import worker_stages as told
from strandline.engine.core.call_size import SINK_SECONDS
from strandline.engine.core.pools import CALLS_PER_WORKER, bound_queue
from strandline.engine.core.ports import RunProgress
from strandline.plan.pipeline import StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.ends import Source
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline_api.outcome.exit_codes import ExitCode

COUNT = 60
TINY = 160
TINY_SECONDS = 0.05
SLOW_SECONDS = 0.2
QUICK_SECONDS = SLOW_SECONDS / 20
PATIENCE = 120.0
# For each of three stages, two calls run and three calls wait, with two tasks each. The sink's
# calls have as many tasks as the sink takes together.
_CALLS = 3 * 5 * 2 + 5 * int(SINK_SECONDS / TINY_SECONDS)
FEW = {"processes": _CALLS, "ray": _CALLS}

pytestmark = [
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.first(reason="fills the queues of Ray and of processes"),
]


class SlowEnd(bad.Numbers):
    """Lists half of the numbers, and the rest after the first number is finished."""

    class Params(bad.Numbers.Params):
        """The output folder of the sink."""

        output: str = ""

    params: Params

    def list_sources(self) -> Iterator[Source]:
        """Yield half of the sources, wait for an output, and yield the rest.

        Raises:
            TimeoutError: if the first source is never finished.
        """
        sources = list(super().list_sources())
        half, end = len(sources) // 2, time.monotonic() + PATIENCE
        yield from sources[:half]
        while not list(Path(self.params.output).rglob("*.txt")):
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0.05)
        yield from sources[half:]


def read_store() -> float:
    """Return the bytes in the object store."""
    kind = "object_store_memory"
    return float(ray.cluster_resources()[kind] - ray.available_resources()[kind])


@pytest.mark.more
def test_law_a_producer_twenty_times_as_fast_fills_no_memory(tmp_path: Path) -> None:
    seen: list[float] = []

    def report(progress: RunProgress) -> None:
        if progress.finished:
            seen.append(read_store())

    source = StagePlan("numbers", "numbers", bad.Numbers(count=COUNT))
    stages = [
        StagePlan("large", "large", told.Large(seconds=QUICK_SECONDS), cpu=0.5, max_workers=1),
        StagePlan("slow", "slow", told.SlowSink(seconds=SLOW_SECONDS), cpu=0.5, max_workers=1),
    ]
    plan = check_plan("default", "pressure", source, stages)
    before = read_store()
    outcome = run_attempt(AttemptConfig(plan, tmp_path), report=report)

    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, COUNT)
    # Tasks at the sink or in its queue, the results of calls that were sent before the queue was
    # full, and a block that is not yet freed.
    most = bound_queue(1, 1) + 2 * CALLS_PER_WORKER + 1
    assert len(seen) > COUNT / 4
    assert max(seen) - before <= most * told.LARGE * 1.01
    assert most * told.LARGE < COUNT * told.LARGE / 5


# On Ray, the previous test has a tighter bound.
@pytest.mark.parametrize("engine", ["processes", pytest.param("ray", marks=pytest.mark.more)])
def test_law_open_sources_are_limited_to_a_few_calls_of_the_slowest_stage(
    tmp_path: Path, engine: str
) -> None:
    """The limit also holds for tiny tasks and quick stages: a kill loses all open sources."""
    log, output = tmp_path / "opened", tmp_path / "output"
    most = 0

    def look(_: RunProgress) -> None:
        nonlocal most
        written = len(list(output.rglob("*.txt")))  # first, because more sources open meanwhile
        opened = log.stat().st_size if log.exists() else 0
        most = max(most, opened - written)

    source = StagePlan("numbers", "numbers", bad.Numbers(count=TINY))
    asked: dict[str, Any] = {"cpu": 0.25, "max_workers": 1}
    asked["isolate"] = engine == "processes"  # chains report only at their end
    stages = [
        StagePlan("open", "open", told.Opened(log=str(log)), **asked),
        StagePlan("pass", "pass", bad.Identity(), **asked),
        StagePlan("pass-on", "pass-on", bad.Identity(), **asked),
        StagePlan("slow", "slow", told.SlowSink(seconds=TINY_SECONDS), **asked),
    ]
    plan = replace(check_plan("default", "tiny", source, stages), output=str(output))

    outcome = run_attempt(AttemptConfig(plan, tmp_path, engine=engine), report=look)

    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, TINY)
    assert log.stat().st_size == TINY
    print(engine, most)
    assert 0 < most <= FEW[engine]


# tests/engine/test_listing_thread.py shows in one process that a listing does not block a driver.
@pytest.mark.parametrize("engine", ["processes", pytest.param("ray", marks=pytest.mark.more)])
def test_law_a_hanging_listing_does_not_delay_listed_sources(engine: str, tmp_path: Path) -> None:
    output = tmp_path / "output"
    source = StagePlan("numbers", "numbers", SlowEnd(count=10, output=str(output)))
    stages = [StagePlan("text", "text", bad.TextSink(), cpu=0.1)]
    plan = replace(check_plan("default", "listing", source, stages), output=str(output))

    outcome = run_attempt(AttemptConfig(plan, tmp_path, engine=engine))

    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, 10)
