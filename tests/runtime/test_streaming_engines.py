"""Yielded tasks go to the next stage before their call ends. No task is lost or duplicated.

Pieces are large, so a part of an answer holds only a few of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import engine_stages as bad
import streaming_stages as told
from strandline.engine.core.pools import CALLS_PER_WORKER, bound_queue
from strandline.engine.worker.worker_loop import PARTS_AHEAD
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Checkpoint

SOURCES = 2
PIECES = 12
# Limits by engine. On Ray: parts that are made, waiting, or at the driver; tasks at the sink or in
# its queue; and results of calls that were sent before the queue was full.
AHEAD = {
    "inline": told.PIECES_PER_PART,
    # Parts that are answered or in flight, and tasks at the sink or in its queue.
    "processes": told.PIECES_PER_PART * 2 + bound_queue(1, 2) + CALLS_PER_WORKER,
    "ray": told.PIECES_PER_PART * (PARTS_AHEAD + 4) + bound_queue(1, 1) + CALLS_PER_WORKER,
}

pytestmark = [pytest.mark.usefixtures("local_ray"), pytest.mark.first(reason="streams through Ray")]
MORE = pytest.mark.more
both = pytest.mark.parametrize("engine", ["inline", "processes", "ray"])


def make_plan(
    folder: Path,
    *,
    sources: int = SOURCES,
    pieces: int = PIECES,
    seconds: float = 0.0,
    refuses: int = -1,
    **how: Any,
) -> PipelinePlan:
    """Return a plan that splits numbers into pieces for a slow sink, which may reject a piece."""
    log = str(folder / "log")
    asked: dict[str, Any] = {"cpu": 0.25, "max_workers": 1}
    stages = [
        StagePlan("pieces", "pieces", told.Pieces(log=log, count=pieces, **how), **asked),
        StagePlan("name", "name", told.Name(log=log, seconds=seconds, refuses=refuses), **asked),
    ]
    source = StagePlan("numbers", "numbers", bad.Numbers(count=sources))
    return check_plan("default", "pieces", source, stages)


def read_log(folder: Path) -> list[str]:
    return (folder / "log").read_text().splitlines()


def list_outputs(folder: Path) -> list[str]:
    return sorted(path.read_text() for path in folder.rglob("*.txt"))


def name_pieces(sources: Sequence[int] = range(SOURCES), pieces: int = PIECES) -> list[str]:
    return sorted(f"{source}-{piece}" for source in sources for piece in range(pieces))


def count_ahead(log: list[str]) -> int:
    """Return the maximum number of pieces that were made but not yet written."""
    ahead = most = 0
    for line in log:
        ahead += 1 if line.startswith("made") else -1
        most = max(most, ahead)
    return most


@pytest.mark.parametrize("engine", ["inline", "processes", pytest.param("ray", marks=MORE)])
def test_law_a_long_answer_fills_no_memory(engine: str, tmp_path: Path) -> None:
    pieces = 4 * AHEAD[engine]
    plan = make_plan(tmp_path, sources=1, pieces=pieces, seconds=0.02)

    outcome = run_attempt(AttemptConfig(plan, tmp_path, engine=engine))

    assert outcome.code == ExitCode.COMPLETE
    assert len(list_outputs(tmp_path)) == pieces
    assert count_ahead(read_log(tmp_path)) <= AHEAD[engine]


# tests/engine/test_streaming.py tests repeated calls without Ray.
@pytest.mark.parametrize(
    "dies_at", [7, *(pytest.param(piece, marks=pytest.mark.more) for piece in (0, 1, PIECES - 1))]
)
def test_law_a_worker_that_dies_in_the_middle_loses_and_doubles_no_piece(
    dies_at: int, tmp_path: Path
) -> None:
    plan = make_plan(tmp_path, dies_at=dies_at)

    outcome = run_attempt(AttemptConfig(plan, tmp_path))

    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, SOURCES)
    assert list_outputs(tmp_path) == name_pieces()
    written = Counter(line for line in read_log(tmp_path) if line.startswith("written"))
    assert set(written.values()) == {1}
    counts = outcome.counts["pieces"]
    assert (counts.tasks_in, counts.tasks_out) == (SOURCES, SOURCES * PIECES)


# The previous test has the bound on Ray.
@pytest.mark.parametrize("engine", ["inline", "processes", pytest.param("ray", marks=MORE)])
def test_a_failed_source_yields_no_more_pieces(engine: str, tmp_path: Path) -> None:
    plan = make_plan(tmp_path, sources=1, pieces=4 * AHEAD[engine], refuses=1)

    outcome = run_attempt(AttemptConfig(plan, tmp_path, engine=engine))

    assert outcome.code == ExitCode.SOURCES_FAILED
    assert "refused" in outcome.failures[0].message
    assert len(read_log(tmp_path)) <= 2 * AHEAD[engine]


# tests/engines stops each engine, and tests/run/test_grace.py tests the grace period.
@pytest.mark.parametrize(
    ("engine", "grace"),
    [("inline", "0s"), *(pytest.param("ray", grace, marks=MORE) for grace in ("0s", "60s"))],
)
def test_the_next_run_finishes_a_stopped_run(engine: str, grace: str, tmp_path: Path) -> None:
    def must_stop() -> bool:
        return (tmp_path / "log").exists() and "written" in (tmp_path / "log").read_text()

    checkpoint = Checkpoint.model_validate({"gracePeriod": grace})
    plan = make_plan(tmp_path, sources=1, seconds=0.1)
    config = AttemptConfig(plan, tmp_path, engine=engine, checkpoint=checkpoint)

    stopped = run_attempt(config, must_stop=must_stop)
    ended = run_attempt(config)

    assert (stopped.code, stopped.standing.finished) == (ExitCode.INTERRUPTED, 0)
    assert (ended.code, ended.standing.finished + ended.standing.skipped) == (ExitCode.COMPLETE, 1)
    assert list_outputs(tmp_path) == name_pieces([0])
