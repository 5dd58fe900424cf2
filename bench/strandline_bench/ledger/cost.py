"""Measures the ledger's share of a whole run of one-millisecond tasks, on two engines.

The garbage collector runs as rarely as in the command: one full collection takes as long as the
ledger takes for a thousand sources, and would hit runs at random.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from pathlib import Path

from strandline.engine.core.ports import RunProgress
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline_api.outcome.exit_codes import ExitCode
from strandline_bench.ground.garbage import search_as_commands
from strandline_bench.ground.local_ray import started_ray
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.stages import plan_busy
from strandline_bench.ground.steady_rate import SteadyRate
from strandline_bench.ground.table import Row, bound, format_number


def measure_cost(scale: Scale) -> list[Row]:
    """Measure the same pipeline with and without a ledger, turn by turn."""
    with search_as_commands():
        rows = _compare(scale, "inline", 1, scale.pick(2_000, 400))
        with started_ray(scale.folder):
            cores = len(os.sched_getaffinity(0))
            return rows + _compare(scale, "ray", cores, scale.pick(2_000, 500) * cores)


def _compare(scale: Scale, engine: str, workers: int, count: int) -> list[Row]:
    ratios, starts = [], []
    # Use many turns, because the median of five turns varied from 0.6 to 2.2 % on Ray.
    for turn in range(scale.pick(15, 1)):
        volume = scale.folder / f"volume-{engine}-{turn}"
        # Alternate the order, because the machine may become slower or faster over time.
        order = (None, volume) if turn % 2 else (volume, None)
        (first, whole_first), (second, whole_second) = (
            _run_once(scale.folder, engine, workers, count, is_tracked) for is_tracked in order
        )
        plain, tracked = (first, second) if turn % 2 else (second, first)
        ratios.append(tracked / plain)
        wholes = (whole_first, whole_second) if turn % 2 else (whole_second, whole_first)
        starts.append(wholes[1] - wholes[0] - count * (tracked - plain))
        shutil.rmtree(volume, ignore_errors=True)
    percent = (statistics.median(ratios) - 1) * 100
    what = f"ledger's cost, {workers} busy at 1 ms tasks, {engine}"
    once = Row(f"{what}: once a run", format_number(statistics.median(starts) * 1000, "ms"))
    return [bound(f"{what}: of the run", percent, 2, "%"), once]


def _run_once(
    folder: Path, engine: str, workers: int, count: int, volume: Path | None
) -> tuple[float, float]:
    """Return the steady-state seconds per task, and the seconds of the whole run."""
    rate = SteadyRate(count, time.perf_counter)
    # Use another folder: a run without a ledger rejects a folder that a ledger owns.
    output = folder / ("output" if volume is None else f"{volume.name}-output")
    plan = plan_busy(count, workers, str(output))

    def report(progress: RunProgress) -> None:
        rate.note(progress.flow.queues[-1].counts.tasks_in)

    begun = time.perf_counter()
    outcome = run_attempt(AttemptConfig(plan, volume, engine), report=report)
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
    return rate.seconds_per_task, time.perf_counter() - begun
