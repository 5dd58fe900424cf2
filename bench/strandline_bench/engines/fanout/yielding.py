"""Measures the memory of a stage that turns one task into many, yielded singly or as a list."""

from __future__ import annotations

from pathlib import Path

from strandline.plan.pipeline import StagePlan
from strandline.plan.planning import check_plan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline_api.outcome.exit_codes import ExitCode
from strandline_bench.engines.fanout.stages import PIECE_BYTES, One, Pieces, PiecesAtOnce, Sums
from strandline_bench.ground.local_ray import started_ray
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.table import Row, bound, format_number

_MOST_MB = 150
_STORE_BYTES = 1_500_000_000


def measure_fanout(scale: Scale) -> list[Row]:
    """Run one source that becomes many large pieces, on each engine, yielded and as a list."""
    streamed, at_once = scale.pick(1000, 10), scale.pick(100, 5)
    rows = []
    for engine, name in (("ray", "on Ray"), ("inline", "inline")):
        most = run_apart(_measure, scale.folder, engine, Pieces, streamed) / 1e6
        rows.append(bound(f"{_describe(streamed)} yielded, {name}: memory", most, _MOST_MB, "MB"))
        most = run_apart(_measure, scale.folder, engine, PiecesAtOnce, at_once) / 1e6
        rows.append(
            Row(f"{_describe(at_once)} in a list, {name}: memory", format_number(most, "MB"))
        )
    return rows


def _describe(count: int) -> str:
    size = count * PIECE_BYTES / 1e9
    return f"{size:g} GB in pieces of {PIECE_BYTES / 1e6:g} MB,"


def _measure(folder: Path, engine: str, stage: type[Pieces], count: int) -> int:
    note, name = folder / "note", f"{stage.__name__.lower()}-{engine}"
    stages = [
        StagePlan("pieces", "pieces", stage(count=count, note=str(note)), cpu=0.5, max_workers=1),
        StagePlan("sums", "sums", Sums(), cpu=0.5, max_workers=1),
    ]
    plan = check_plan("bench", name, StagePlan("one", "one", One()), stages)
    config = AttemptConfig(plan, folder / "volume", engine)
    if engine == "inline":
        outcome = run_attempt(config)
    else:
        with started_ray(folder / "ray", store=_STORE_BYTES):
            outcome = run_attempt(config)
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
    return int(note.read_text())
