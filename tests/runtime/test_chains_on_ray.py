"""Chains on a real Ray spread work over workers and name a stage that kills its worker."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import chain_stages as chained
import engine_stages as bad
from strandline.engine.core.ports import RunProgress
from strandline.engine.core.workers import LONG_SECONDS
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.stage import Stage
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode

pytestmark = [
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.first(reason="workers of Ray die in chains"),
]


def make_plan(stages: Mapping[str, Stage], count: int, **more: Any) -> PipelinePlan:
    """Return a pipeline over numbers, whose stages and sink can all form one chain."""
    source = StagePlan("numbers", "numbers", bad.Numbers(count=count))
    middle = [StagePlan(name, name, stage, cpu=0.1, **more) for name, stage in stages.items()]
    sink = StagePlan("text", "text", bad.TextSink(), cpu=0.1, **more)
    return check_plan("default", "chained", source, [*middle, sink])


def run(plan: PipelinePlan, volume: Path) -> AttemptResult:
    return run_attempt(AttemptConfig(plan, volume, engine="ray"))


def read_written(outcome: AttemptResult) -> list[Any]:
    return [ast.literal_eval(path.read_text()) for path in Path(outcome.output).rglob("*.txt")]


@pytest.mark.more
def test_tasks_of_one_source_spread_over_the_workers_of_its_chain(tmp_path: Path) -> None:
    stages = {"split": chained.Split(count=200), "nap": chained.Nap(), "again": chained.Nap()}
    outcome = run(make_plan(stages, 1, min_workers=3), tmp_path)

    written = read_written(outcome)
    assert sorted(line[:2] for line in written) == [[0, number] for number in range(200)]
    workers = [line[2] for line in written]
    shares = [workers.count(worker) for worker in set(workers)]
    assert len(shares) == 3
    assert min(shares) >= 20
    assert sum(line[2] == line[3] for line in written) > 100  # most tasks stay in their worker
    assert outcome.counts["nap"].tasks_in == outcome.counts["text"].tasks_in == 200
    assert outcome.pools["split"].started >= 3
    assert outcome.pools["nap"].started == 0  # the chain reports its workers once


@pytest.mark.more
def test_a_task_that_kills_its_worker_fails_its_source_under_the_right_stage(
    tmp_path: Path,
) -> None:
    stages = {"split": chained.Split(count=3), "nap": chained.Nap(), "die": chained.Die()}
    outcome = run(make_plan(stages, 6), tmp_path)

    assert outcome.code is ExitCode.SOURCES_FAILED
    assert (outcome.standing.finished, outcome.standing.failed) == (5, 1)
    store = Store(PipelineFolder.on_volume(tmp_path, "default", "chained").ledger, readonly=True)
    ((_, failure),) = store.list_failures()
    store.close()
    assert (failure.key, failure.stage) == ("number-3", "die")
    assert failure.message.startswith("lost 3 workers")
    whole = [line[:2] for line in read_written(outcome) if line[0] != 3]
    assert sorted(whole) == [[key, number] for key in (0, 1, 2, 4, 5) for number in range(3)]


# In the first tier, tests/engines has a stage that ends every worker on the engine `processes`, and
# the previous test names a stage within a chain.
@pytest.mark.more
def test_a_stage_of_a_chain_that_kills_all_its_workers_ends_the_attempt_by_its_name(
    tmp_path: Path,
) -> None:
    stages = {"split": chained.Split(count=2), "deadly": bad.Deadly(), "nap": chained.Nap()}
    with pytest.raises(Exception, match="stage 'deadly' lost 4 workers in a row"):
        run(make_plan(stages, 8), tmp_path)


# Waits until a call counts as long. tests/engine/test_long_calls.py tests the decisions.
@pytest.mark.more
def test_a_long_stage_in_a_chain_is_shown_by_name_and_blocks_nothing(
    tmp_path: Path,
) -> None:
    seen: list[dict[str, float]] = []
    over: set[str] = set()
    done: list[int] = []

    def look(progress: RunProgress) -> None:
        names = [stage.name for stage in progress.flow.list_stages()]
        pools = dict(zip(names, progress.list_pools(), strict=True))
        seen.append({name: pool.oldest for name, pool in pools.items()})
        over.update(pool.over for pool in pools.values())
        done.append(progress.finished)

    stages = {"read": chained.RestOnce(seconds=0.0), "rest": chained.RestOnce(seconds=20.0)}
    plan = make_plan(stages, 6, min_workers=2)
    outcome = run_attempt(AttemptConfig(plan, tmp_path, engine="ray"), report=look)

    assert outcome.code is ExitCode.COMPLETE, outcome.message
    assert max(each["rest"] for each in seen) > 2 * LONG_SECONDS
    assert max(each["read"] for each in seen) < max(each["rest"] for each in seen)
    assert over == {"", "number-0"}
    # The worker returned its remaining tasks, and the other worker processed them.
    assert max(done) == 5
