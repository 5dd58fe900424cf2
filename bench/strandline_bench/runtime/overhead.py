"""Measures the Ray engine's overhead per task, compared with the lower bound and with Ray Data."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from strandline.engine.core.ports import RunProgress
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline_api.outcome.exit_codes import ExitCode
from strandline_bench.engines.rivals.bare_chain import run_bare_chain
from strandline_bench.ground.local_ray import started_ray
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.stages import plan_empty
from strandline_bench.ground.steady_rate import SteadyRate
from strandline_bench.ground.table import Row, bound, format_number

_MICROSECONDS = 1_000_000


def measure_engine(scale: Scale) -> list[Row]:
    """Measure microseconds per task of each engine, turn by turn on one Ray cluster."""
    count = scale.pick(16_000, 3_200)
    # Ray Data is many times slower, so its runs have fewer tasks.
    runs: dict[str, Callable[[], float]] = {
        "bare": lambda: run_bare_chain(count),
        "chained": lambda: _run_ours(count, scale.folder, is_apart=False),
        "apart": lambda: _run_ours(count, scale.folder, is_apart=True),
    }
    has_ray_data = importlib.util.find_spec("pandas") is not None  # Ray Data requires pandas
    if has_ray_data:
        from strandline_bench.runtime.ray_data_chain import run_ray_data  # noqa: PLC0415 - needs what may not be there

        runs["data"] = lambda: run_ray_data(count // 4)
    with started_ray(scale.folder):
        seen: dict[str, list[float]] = {name: [] for name in runs}
        for turn in range(scale.pick(5, 1)):
            for name in sorted(runs, reverse=bool(turn % 2)):
                seen[name].append(runs[name]() * _MICROSECONDS)
    return _list_rows(seen)


def _list_rows(seen: dict[str, list[float]]) -> list[Row]:
    median = {name: statistics.median(values) for name, values in seen.items()}
    of = "a task through three empty stages, batches of 16"
    data = (
        format_number(median["data"], "µs")
        if "data" in median
        else "not measured: pandas is missing"
    )
    rows = [Row(f"{of}: bare actors", format_number(median["bare"], "µs"))]
    for name, how in (("chained", "ours, chained"), ("apart", "ours, each stage apart")):
        paired = zip(seen[name], seen["bare"], strict=True)
        ratio = statistics.median(ours / bare for ours, bare in paired)
        rows.append(Row(f"{of}: {how}", format_number(median[name], "µs")))
        rows.append(bound(f"{how}, as a multiple of bare actors", ratio, 1.2, "×"))
    return [*rows, Row(f"{of}: Ray Data", data)]


def _run_ours(count: int, folder: Path, *, is_apart: bool) -> float:
    rate = SteadyRate(count, time.perf_counter)

    def report(progress: RunProgress) -> None:
        rate.note(progress.flow.counts["third"].tasks_in)

    plan = plan_empty(count, str(folder / "output"), is_apart=is_apart)
    outcome = run_attempt(AttemptConfig(plan, None), report=report)
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
    return rate.seconds_per_task
