"""Real workers: how they run stages, and how they report to the driver."""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import ObjectLostError

import engine_stages as bad
import worker_stages as told
from strandline.engine.call.setup import WorkerSite
from strandline.engine.call.slots import WHOLE
from strandline.engine.call.wire import pack_tasks
from strandline.engine.core.pools import FIRST_CALL, PoolState
from strandline.engine.flow.chains import Chain
from strandline.engine.ray.worker import start_worker
from strandline.ledger.access.lease import OnChange
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Lineage, Task
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.storage.outputs.ports import OutputLocation
from strandline_api.outcome.exit_codes import ExitCode

TIMEOUT = 120.0

pytestmark = [
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.first(reason="workers of Ray are replaced"),
]


def make_plan(stage: Stage, count: int = 10, **more: Any) -> PipelinePlan:
    """Return a pipeline over numbers with this stage in the middle."""
    plan = StagePlan("told", "told", stage, **{"cpu": 0.1, **more})
    source = StagePlan("numbers", "numbers", bad.Numbers(count=count))
    sink = StagePlan("text", "text", told.NodeSink(), cpu=0.1)
    return check_plan("default", "workers", source, [plan, sink])


def run(plan: PipelinePlan, volume: Path, engine: str = "ray", **more: Any) -> AttemptResult:
    return run_attempt(AttemptConfig(plan, volume, engine=engine, **more))


def read_told(outcome: AttemptResult) -> list[Any]:
    files = Path(outcome.output).rglob("*.txt")
    return [ast.literal_eval(path.read_text()) for path in files]


@contextmanager
def started(stage: Stage, name: str = "told") -> Iterator[Any]:
    """Start one ready worker without a driver."""
    outputs = OutputLocation(tempfile.gettempdir())
    chain = Chain(0, (StagePlan(name, name, stage),))
    actor, _, ready = start_worker(chain, 0.1, outputs, WorkerSite("tests.workers", "0001"))
    try:
        ray.get(ready, timeout=TIMEOUT)
        yield actor
    finally:
        ray.kill(actor)


def put(data: Any) -> Any:
    """Put a block with one task into the object store."""
    lineage = Lineage(b"s" * 16, b"t" * 16, "key")
    return ray.put(pack_tasks([Task(data, {}, lineage)]))


def take(answer: list[Any]) -> Any:
    """Return the data of a call's only task."""
    ((data, *_),) = ray.get(answer[0], timeout=TIMEOUT)
    return data


def list_folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("strandline-node-*default.workers/*"))


def test_law_set_up_and_tasks_see_one_thread(tmp_path: Path) -> None:
    outcome = run(make_plan(told.Told(), max_workers=2), tmp_path)
    assert [facts["thread"] for facts in read_told(outcome)] == [True] * 10


def test_law_a_small_second_call_never_overtakes_a_large_first_one() -> None:
    with started(told.Ordered()) as actor:
        large, small = put((told.Slow(1.0), b"1" * 10_000_000)), put(1)
        first = actor.run.remote(FIRST_CALL, WHOLE, [[0, 0]], large)
        second = actor.run.remote(FIRST_CALL + 1, WHOLE, [[0, 0]], small)
        assert (take(second), take(first)) == (1, 0)


def test_the_next_input_is_read_while_a_task_is_worked_on(tmp_path: Path) -> None:
    with started(told.Overlapped(folder=str(tmp_path))) as actor:
        first = actor.run.remote(FIRST_CALL, WHOLE, [[0, 0]], put(1))
        second = put(told.Slow(mark=str(tmp_path / "read")))
        actor.run.remote(FIRST_CALL + 1, WHOLE, [[0, 0]], second)
        assert take(first) is True


def test_a_skipped_call_with_lost_input_blocks_no_other_call() -> None:
    with started(told.Ordered()) as actor:
        lost = told.put_and_lose()
        first = actor.run.remote(FIRST_CALL, WHOLE, [[0, 0]], lost)
        second = actor.run.remote(FIRST_CALL + 1, WHOLE, [[0, 0]], put(1))
        with pytest.raises(ObjectLostError):
            ray.get(first[1], timeout=TIMEOUT)
        assert not ray.wait([second[1]], timeout=0.5)[0]
        ray.get(actor.skip.remote(FIRST_CALL), timeout=TIMEOUT)
        assert take(second) == 0


def test_law_a_node_is_set_up_once_before_any_of_its_workers(tmp_path: Path) -> None:
    stage = told.NodeReady(folder=str(tmp_path), workers=3)
    outcome = run(make_plan(stage, min_workers=3), tmp_path / "run")

    assert outcome.code is ExitCode.COMPLETE
    assert len(list(tmp_path.glob("worker-*"))) == 3
    assert len(list(tmp_path.glob("node-*"))) == 1
    assert not list_folders()


# tests/engine/test_node_setup.py covers the folders of earlier attempts.
@pytest.mark.more
def test_a_new_attempt_sets_nodes_up_again(tmp_path: Path) -> None:
    for count in (1, 2):
        plan = make_plan(told.NodeReady(folder=str(tmp_path)), count=count)
        run(plan, tmp_path / "run", on_change=OnChange.CONTINUE)
    assert len(list(tmp_path.glob("node-*"))) == 2


def test_inline_sets_its_node_up_once(tmp_path: Path) -> None:
    stage = told.NodeReady(folder=str(tmp_path))
    assert run(make_plan(stage), tmp_path / "run", "inline").code is ExitCode.COMPLETE
    assert len(list(tmp_path.glob("node-*"))) == 1


# tests/engine/test_node_setup.py covers processes that end during the setup of a node.
@pytest.mark.more
def test_after_a_death_during_node_setup_the_next_worker_sets_the_node_up(
    tmp_path: Path,
) -> None:
    plan = make_plan(told.NodeReady(folder=str(tmp_path), what="die"), min_workers=2)
    outcome = run(plan, tmp_path / "run")
    assert (outcome.code, len(outcome.incidents)) == (ExitCode.COMPLETE, 1)
    assert len(list(tmp_path.glob("node-*"))) == 2


def find_pool(outcome: AttemptResult) -> PoolState:
    """Return the final state of the pool of the stage `told`."""
    return outcome.pools["told"]


@pytest.mark.parametrize(
    ("stage", "limit"),
    [
        # tests/engine/test_worker_limits.py tests the maximum age.
        pytest.param(told.Process(), {"max_age": 0.001}, marks=pytest.mark.more),
        (told.Growing(), {"max_memory": 220_000_000}),
    ],
)
def test_law_a_worker_beyond_its_limit_is_replaced_and_nothing_is_lost(
    stage: Stage, limit: dict[str, Any], tmp_path: Path
) -> None:
    outcome = run(make_plan(stage, max_workers=1, **limit), tmp_path)

    pool = find_pool(outcome)
    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, 10)
    assert outcome.incidents == ()
    assert (pool.lost, pool.deaths) == (0, 0)
    assert pool.recycled >= 2
    assert pool.recycled <= len(set(read_told(outcome))) <= pool.started


@pytest.mark.parametrize(
    "needs",
    [
        # Ray reserves all resources in the same way. GPUs also set a variable.
        pytest.param({"cpu": 0.25}, marks=pytest.mark.more),
        pytest.param({"cpu": 0.1, "custom": {"nvdec": 0.5}}, marks=pytest.mark.more),
        {"cpu": 0.0, "gpu": 0.5},
    ],
)
def test_two_workers_share_a_resource_by_halves(needs: Any, tmp_path: Path) -> None:
    outcome = run(make_plan(told.Told(), min_workers=2, max_workers=2, **needs), tmp_path)

    assert (outcome.code, outcome.incidents) == (ExitCode.COMPLETE, ())
    gpus = {facts["gpu"] for facts in read_told(outcome)}
    assert ("0" in gpus) is ("gpu" in needs)


def test_a_stages_own_environment_reaches_its_workers(tmp_path: Path) -> None:
    environment = {"env_vars": {"WORKER_WORD": "tide"}}
    outcome = run(make_plan(told.Told(), runtime_env=environment), tmp_path)
    assert {facts["word"] for facts in read_told(outcome)} == {"tide"}


# Starts a cluster of two nodes. tests/engine tests the placement of workers and calls.
@pytest.mark.more
def test_workers_start_on_requested_nodes_and_calls_go_to_their_input() -> None:
    program = Path(__file__).with_name("two_nodes.py")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
