"""Measures the CPU use of a driver's loop with more workers than a machine can run.

The loop is real, with its listing, queues, pools, and call sizes. Workers are simulated with their
own clock. Ray's cost per call is not included, and is measured separately with Ray workers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from strandline.engine.core.ports import Control, Listing, RunProgress
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.storage.outputs.ports import OutputLocation
from strandline_api.outcome.exit_codes import ExitCode
from strandline_bench.ground.local_ray import started_ray
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.stages import Nowhere, Numbers, Pass, plan_dozing
from strandline_bench.ground.table import Row, format_number
from strandline_bench.runtime.simulated_workers import SimulatedEngine, Simulation

WORKERS = (8, 64, 512)
TASKS = (0.01, 0.1, 1.0)  # lengths of tasks in seconds
_SECONDS = 8.0  # minimum length of a run on the simulated clock


@dataclass(frozen=True)
class Load:
    """CPU cost of a driver.

    Attributes:
        busy: share of the run's time during which workers work.
        share: CPU seconds per second of the run.
        call, task: CPU seconds per call and per task.
        in_call: tasks per call.
    """

    busy: float
    share: float
    call: float
    task: float
    in_call: float


def measure_limit(scale: Scale) -> list[Row]:
    """Measure the driver's cost for several numbers of workers and lengths of tasks."""
    rows = list(measure_on_ray(scale))
    for is_apart in (False, True):
        shape = "two stages apart" if is_apart else "a chain"
        for seconds in TASKS[: scale.pick(3, 1)]:
            for workers in WORKERS[: scale.pick(3, 1)]:
                count = workers * scale.pick(int(max(20, _SECONDS / seconds)), 5)
                load = run_apart(simulate, count, workers, seconds, is_apart)
                what = f"{shape}, {workers} workers, tasks of {seconds:g} s"
                rows.append(Row(f"{what}: the driver", _describe(load)))
    return rows


def measure_on_ray(scale: Scale) -> Iterator[Row]:
    """Yield the driver's cost on Ray, with as many workers as this machine can run."""
    for workers in (2, 16)[: scale.pick(2, 1)]:
        with started_ray(scale.folder, cpus=workers):
            for seconds in TASKS[: scale.pick(2, 1)]:
                count = scale.pick(int(20 / seconds), 40) * workers
                load = _drive(count, workers, seconds, str(scale.folder / "output"))
                what = f"on Ray, {workers} workers, tasks of {seconds:g} s: the driver"
                yield Row(what, _describe(load))


def _drive(count: int, workers: int, seconds: float, output: str) -> Load:
    """Run this many sleeping tasks on Ray, and measure the loop after the first fifth."""
    looks: list[tuple[float, float, int, int]] = []

    def report(progress: RunProgress) -> None:
        counts = progress.flow.queues[-1].counts
        if counts.tasks_in >= count / 5:
            # Use the thread's CPU time, because Ray's threads run beside the loop on other cores.
            clocks = time.perf_counter(), time.thread_time()
            looks.append((*clocks, counts.calls, counts.tasks_in))

    outcome = run_attempt(
        AttemptConfig(plan_dozing(count, seconds, workers, output), None, "ray"), report=report
    )
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
    whole, taken, calls, tasks = (
        last - first for first, last in zip(looks[0], looks[-1], strict=True)
    )
    busy = tasks * seconds / (workers * whole)
    return Load(busy, taken / whole, taken / calls, taken / tasks, tasks / calls)


def _describe(load: Load) -> str:
    percent = format_number(load.share * 100, "% of a core")
    call, task = (format_number(each * 1e6, "µs") for each in (load.call, load.task))
    calls = f"{call} a call of {load.in_call:.0f}, {task} a task"
    return f"{percent}, workers {load.busy:.0%} busy; {calls}"


def simulate(count: int, workers: int, seconds: float, is_apart: bool) -> Load:  # noqa: FBT001
    """Run this many sources of one task each on simulated workers."""
    plan = make_plan(count, is_apart=is_apart)
    chains = 2 if is_apart else 1
    simulation = Simulation([seconds / chains] * chains)
    engine = SimulatedEngine(OutputLocation("nowhere"), workers // chains, simulation=simulation)
    listing = Listing(Numbers(count=count).list_sources())
    engine.run(plan, listing, None, Control(lambda: False, lambda _: None, simulation.read))
    taken, whole, calls = simulation.drive(), simulation.read(), simulation.calls
    busy = count * seconds / (workers * whole)
    return Load(busy, taken / whole, taken / calls, taken / count, count * chains / calls)


def make_plan(count: int, *, is_apart: bool) -> PipelinePlan:
    """Return a plan of two stages in one chain, or in separate workers if `is_apart`."""
    stages = [
        StagePlan("work", "pass", Pass(), isolate=is_apart),
        StagePlan("sink", "nowhere", Nowhere()),
    ]
    source = StagePlan("numbers", "numbers", Numbers(count=count))
    return replace(check_plan("bench", "limit", source, stages), output="nowhere")
