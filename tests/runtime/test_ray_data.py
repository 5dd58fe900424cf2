"""The engine on Ray Data: what it owes beside what all engines owe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
import ray
from ray import cloudpickle
from ray.exceptions import RayError

import command_server
import engine_stages as bad
import ray_data_stages as stages
from jobs import PATIENCE, Job, find_ray_processes
from strandline.engine.call.setup import PackageMissingError, StageSetupError, WorkerSite
from strandline.engine.call.slots import Slot
from strandline.engine.call.stage.receipts import ShapeError
from strandline.engine.call.wire import pack_receipt, pack_tasks
from strandline.engine.core.pools import PoolBrokenError
from strandline.engine.core.ports import RunProgress
from strandline.engine.ray_data import engine as ray_data
from strandline.engine.ray_data.losses import DEATHS_PER_TASK, Deaths
from strandline.engine.ray_data.window import StreamEnd
from strandline.engine.ray_data.worker import StageRows, WorkerSettings, make_rows, read_notes
from strandline.ledger.checks.verification import verify
from strandline.ledger.entries import FailureRecord
from strandline.ledger.errors import LedgerError
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.receipt import Event, Receipt, StageCounts
from strandline.plan.stage import Stage
from strandline.plan.task import Lineage, Task
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.outputs import LocalOutputs, OutputLocation
from strandline_api.documents.problems import SpecError
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Checkpoint

# Ray Data takes seconds to start. tests/engine/test_ray_data_rows.py and test_window.py have its
# parts, and the first tier has the same facts with the other engines in tests/engines.
on_shared_ray = pytest.mark.usefixtures("local_ray")


def make_plan(*middle: Stage, count: int = 10, **asked: Any) -> PipelinePlan:
    """Numbers through these stages; the last of them asks for something more."""
    source = StagePlan("numbers", "numbers", bad.Numbers(count=count))
    plans = [
        StagePlan(f"stage-{index}", "stage", stage, cpu=0.1, max_workers=1)
        for index, stage in enumerate(middle)
    ]
    plans[-1:] = [replace(plan, **asked) for plan in plans[-1:]]
    last = StagePlan("text", "text", bad.TextSink(), cpu=0.1, max_workers=1, batch_size=2)
    return check_plan("default", "numbers", source, [*plans, last])


def run(
    plan: PipelinePlan, volume: Path | None, engine: str = "ray-data", **more: Any
) -> AttemptResult:
    return run_attempt(AttemptConfig(plan, volume, engine=engine), **more)


def read_outputs(outcome: AttemptResult) -> dict[str, bytes]:
    root = Path(outcome.output)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.txt")}


def read_failures(volume: Path) -> dict[str, FailureRecord]:
    store = Store(PipelineFolder.of(volume, "default", "numbers").ledger, readonly=True)
    failures = {failure.key: failure for _, failure in store.list_failures()}
    store.close()
    return failures


@pytest.mark.more
@on_shared_ray
def test_a_stop_drops_what_is_not_begun_and_the_next_run_goes_on(tmp_path: Path) -> None:
    plan = make_plan(stages.Slow(), count=40)
    worked: list[int] = []

    def watch(progress: RunProgress) -> None:
        worked.append(progress.flow.queues[0].counts.tasks_in)

    patient = AttemptConfig(
        plan, tmp_path, engine="ray-data", checkpoint=Checkpoint(grace_period="1h")
    )
    first = run_attempt(patient, must_stop=lambda: bool(worked and worked[-1]), report=watch)
    second = run(plan, tmp_path, "inline")  # any engine goes on with the ledger of the other

    kept = first.standing.finished
    assert first.code == ExitCode.INTERRUPTED
    assert 0 < kept < 40
    assert (second.code, second.standing.skipped, second.standing.finished) == (0, kept, 40 - kept)
    assert len(read_outputs(second)) == 40


@pytest.mark.more
@on_shared_ray
def test_a_task_that_fails_or_ends_its_workers_takes_its_source_alone(tmp_path: Path) -> None:
    trouble = stages.Trouble(stages.Trouble.Params(marker=str(tmp_path / "marker")))

    outcome = run(make_plan(trouble, count=6, batch_size=2), tmp_path)

    assert (outcome.code, outcome.standing.finished, outcome.standing.failed) == (3, 4, 2)
    assert set(outcome.incidents) == {"a worker of 'stage-0' was lost, its work is tried again"}
    # One while it was set up, one over the task and its neighbour, three over the task alone.
    assert len(outcome.incidents) == 1 + 1 + DEATHS_PER_TASK
    assert (outcome.pools["stage-0"].lost, outcome.pools["stage-0"].started) == (5, 6)
    failures = read_failures(tmp_path)
    assert failures["number-2"].message.startswith("ValueError: two is no good")
    assert failures["number-3"].message.startswith(
        "lost 3 workers; the last: its process was killed (SIGKILL), or left by os._exit"
    )
    assert {failure.stage for failure in failures.values()} == {"stage-0"}


@pytest.mark.more
@on_shared_ray
@pytest.mark.parametrize(
    ("stage", "lost", "error", "words"),
    [
        (bad.Unprepared(), 0, StageSetupError, "can't be set up: FileNotFoundError: no model"),
        (bad.Unpacked(), 0, PackageMissingError, "can't be set up: it needs the package a_pack"),
        (bad.ShortBatch(), 0, ShapeError, "answered a batch of 4 tasks with 3"),
        (bad.Identity(), DEATHS_PER_TASK, PoolBrokenError, "lost 3 workers while it was set up"),
    ],
)
def test_what_ends_a_run_reaches_the_driver_as_it_is(
    stage: Stage, lost: int, error: type[Exception], words: str
) -> None:
    (plan, _) = make_plan(stage, batch_size=4).stages
    deaths: Any = ray.remote(num_cpus=0)(Deaths).remote()
    for process in range(lost):  # this is no actor, so it is called None
        deaths.begin.remote("None", process, 0, b"", is_one=True)
    outputs = OutputLocation("/nowhere")
    place = WorkerSettings(
        0, plan.name, cloudpickle.dumps(plan), None, outputs, deaths, WorkerSite("here", "0001")
    )
    tasks = [
        Task(number, {}, Lineage(b"s" * 16, bytes([number]) * 16, "key", None))
        for number in range(4)
    ]

    table = StageRows(place)(make_rows(pack_tasks(tasks), []))

    with pytest.raises(error, match=f"stage 'stage-0' {words}"):
        read_notes(table)
    ray.kill(deaths)


class LossyWindows:
    """Stands in for Ray Data: finishes sources, and loses each window that has a poison in it."""

    def __init__(self, poison: Sequence[str]) -> None:
        self.keys: list[list[str]] = []
        self._poison = poison

    def stream(self, slots: Sequence[Slot]) -> LossyWindows:
        self.keys.append([slot.key for slot in slots])
        healthy = [slot for slot in slots if slot.key not in self._poison]
        is_lost = len(healthy) < len(slots)
        # What is worked on when a window is lost was never heard of.
        events = [Event(slot.source, (slot.token,), ()) for slot in healthy[: 2 if is_lost else 99]]
        receipt = pack_receipt(Receipt(tuple(events), (), (), StageCounts()))
        error = RayError("out of luck\nand more") if is_lost else None
        self._items = [make_rows([], [cloudpickle.dumps([0, receipt])]), StreamEnd(error)]
        return self

    def take(self, seconds: float) -> pa.Table | StreamEnd:
        return self._items.pop(0)

    def close(self) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.mark.more
@on_shared_ray
def test_a_source_that_ray_data_itself_gives_up_over_is_found_and_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = LossyWindows(["number-5"])
    monkeypatch.setattr(ray_data, "Windows", lambda *_: windows)

    outcome = run(make_plan(count=8), tmp_path)

    assert (outcome.code, outcome.standing.finished, outcome.standing.failed) == (3, 7, 1)
    failure = read_failures(tmp_path)["number-5"]
    assert failure.message == "Ray Data lost 3 windows over it; the last: out of luck"
    assert [len(keys) for keys in windows.keys] == [8, 3, 3, 1, 1]
    assert outcome.incidents[0] == (
        "a window of Ray Data was lost, 6 sources are tried again: out of luck"
    )


@pytest.mark.more
@on_shared_ray
def test_one_window_follows_the_other_and_without_a_checkpoint_nothing_is_tracked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_data, "WINDOW_SOURCES", 4)
    windows = LossyWindows([])
    monkeypatch.setattr(ray_data, "Windows", lambda *_: windows)

    outcome = run(replace(make_plan(count=10), output=str(tmp_path / "out")), None)

    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, 10)
    assert [len(keys) for keys in windows.keys] == [4, 4, 2]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.more
@on_shared_ray
def test_where_one_window_after_another_is_lost_the_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = LossyWindows([f"number-{number}" for number in range(8)])
    monkeypatch.setattr(ray_data, "Windows", lambda *_: windows)

    with pytest.raises(ray_data.WindowLostError, match=r"lost 4 windows in a row; .*: out of luck"):
        run(make_plan(count=8), tmp_path)

    assert [len(keys) for keys in windows.keys] == [8, 4, 4, 2]


@pytest.mark.parametrize(
    ("asked", "address", "words"),
    [
        ({"max_age": 60.0}, None, r"spec.stages\[0\].workers.maxAge: the engine ray-data can't"),
        ({"max_memory": 1 << 30}, None, r"spec.stages\[0\].workers.maxMemory: .* --engine ray"),
        ({}, "ray://head:10001", "can't work through Ray Client, which ray://head:10001 asks for"),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_is_begun(
    asked: dict[str, Any], address: str | None, words: str, tmp_path: Path
) -> None:
    plan = make_plan(bad.Identity(), **asked)
    volume = tmp_path / "volume"

    with pytest.raises(SpecError, match=words):
        run_attempt(AttemptConfig(plan, volume, engine="ray-data", address=address))

    assert not volume.exists()


def test_without_its_libraries_it_says_what_to_install_and_begins_nothing(
    small_job: Job, tmp_path: Path
) -> None:
    # Jobs have no pandas, without which there is no Ray Data.
    assert small_job.run(tmp_path, engine="ray-data") == ExitCode.BAD_SPEC

    *_, last = small_job.read_log(tmp_path).splitlines()
    assert json.loads(last.partition(" ")[2])["message"] == (
        "the engine ray-data is not installed (ImportError); install strandline[ray-data]"
    )
    assert not small_job.find_folder(tmp_path).ledger.exists()


def count_kept(ledger: Path) -> int:
    """Sources that the ledger holds as finished; none while it is being made."""
    with suppress(LedgerError):
        store = Store(ledger, readonly=True)
        try:
            return len(list(store.list_records()))
        finally:
            store.close()
    return 0


@pytest.mark.more
@on_shared_ray
def test_a_driver_killed_in_a_window_loses_and_doubles_nothing(tmp_path: Path) -> None:
    # On a Ray of its own: Ray Data keeps the share of a driver that is gone for three minutes, and
    # what else would run on the same Ray would have one worker at a time meanwhile.
    program = (
        "import sys, pathlib\n"
        "from test_ray_data import AttemptConfig, make_plan, run_attempt, stages\n"
        "plan = make_plan(stages.Slow(), count=60)\n"
        "run_attempt(AttemptConfig(plan, pathlib.Path(sys.argv[1]), engine='ray-data'))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    here = str(Path(__file__).parent)
    support = str(Path(command_server.__file__).parent)
    path = os.pathsep.join([here, support, os.environ.get("PYTHONPATH", "")])
    folder = PipelineFolder.of(tmp_path, "default", "numbers")
    with subprocess.Popen(command, cwd=here, env={**os.environ, "PYTHONPATH": path}) as driver:
        while driver.poll() is None and count_kept(folder.ledger) < 3:
            time.sleep(0.05)
        writers = find_ray_processes(psutil.Process(driver.pid), "ledger")
        driver.kill()
    # What the driver had handed over is still written down before the ledger's process follows it.
    ended, _ = psutil.wait_procs(writers, timeout=PATIENCE)
    kept = count_kept(folder.ledger)

    outcome = run(make_plan(stages.Slow(), count=60), tmp_path)

    assert len(ended) == 1
    assert 3 <= kept < 60
    assert (outcome.code, outcome.standing.skipped) == (ExitCode.COMPLETE, kept)
    assert outcome.standing.finished == 60 - kept
    assert sorted(read_outputs(outcome).values()) == sorted(b"%d" % one for one in range(60))
    store = Store(folder.ledger, readonly=True)
    verdict = verify(store, LocalOutputs(folder.output))
    store.close()
    assert (verdict.problems, verdict.unfinished) == ([], 0)
