"""Measures whether one source with thousands of uneven tasks keeps all workers busy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from strandline.plan.pipeline import StagePlan
from strandline.plan.planning import check_plan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline_api.outcome.exit_codes import ExitCode
from strandline_bench.engines.fanout.spread_stages import RARE, Count, Nap, Naps
from strandline_bench.engines.fanout.stages import One
from strandline_bench.ground.local_ray import started_ray
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.table import Row, bound, format_number

_CPUS = 8  # logical: a sleeping worker needs no core
_NAPS = (0.005, 0.02)  # seconds
_MOST = 1.1  # times the optimum


def measure_spread(scale: Scale) -> list[Row]:
    """Run one source through a fan-out and sleeps, with chained and isolated stages."""
    rows = []
    for nap in _NAPS[:1] if scale.is_quick else _NAPS:
        rows += _list_rows(scale.folder / f"{nap * 1000:g}", scale.pick(10_000, 100), nap)
    return rows


def _list_rows(folder: Path, count: int, nap: float) -> list[Row]:
    optimum = count * nap * (2 - 1 / RARE) / _CPUS
    what = f"(f) one source that becomes {count:,} naps of {nap * 1000:g} ms, 1 % of them longer"
    rows = [Row(f"{what}: at best, on {_CPUS} CPUs", format_number(optimum, "s"))]
    for is_apart, how in ((False, "chained"), (True, "each stage apart")):
        own = folder / f"{is_apart:d}"  # short, because Ray's socket paths have a length limit
        took = run_apart(_measure, own, count, nap, is_apart)  # up to a minute
        rows.append(bound(f"{what}: {how}, as a multiple of that", took / optimum, _MOST, "×"))
    return rows


def _measure(folder: Path, count: int, nap: float, is_apart: bool) -> float:  # noqa: FBT001 - of a process
    """Return the seconds from the start of the first sleep to the end of the last."""
    notes = folder / "notes"
    notes.mkdir(parents=True)
    stages = [
        StagePlan("naps", "naps", Naps(count=count, seconds=nap)),
        StagePlan("nap", "nap", Nap(folder=str(notes))),
        StagePlan("count", "count", Count(), cpu=0.0, max_workers=1),
    ]
    stages = [replace(stage, isolate=is_apart) for stage in stages]
    plan = check_plan("bench", "spread", StagePlan("one", "one", One()), stages)
    with started_ray(folder, _CPUS):
        outcome = run_attempt(AttemptConfig(plan, folder / "volume", "ray"))
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
    moments = [line.split() for path in notes.iterdir() for line in path.read_text().splitlines()]
    if len(moments) != count:
        msg = f"there were {len(moments)} naps, not {count}"
        raise RuntimeError(msg)
    return max(float(end) for _, end in moments) - min(float(begun) for begun, _ in moments)
