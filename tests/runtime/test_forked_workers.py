"""Forked workers: messages about their end, their parent process, and unsupported features."""

from __future__ import annotations

import ast
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import engine_stages as bad
import forked_stages as forked
from jobs import PATIENCE
from number_plans import find_texts, make_plan
from strandline.engine.processes.fork_client import explain_end
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stages.stage import Stage
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.engines import dump_portably
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.documents.problems import SpecError
from strandline_api.outcome.exit_codes import ExitCode

pytestmark = pytest.mark.first(reason="starts drivers that fork")

DRIVER = """
import sys
from pathlib import Path
import forked_stages as forked
from test_forked_workers import run
from number_plans import make_plan
run(make_plan(forked.Waiting(folder=sys.argv[1])), Path(sys.argv[1], "volume"))
"""


def run(plan: PipelinePlan, volume: Path, workers: int = 2) -> AttemptResult:
    return run_attempt(AttemptConfig(plan, volume, engine="processes", workers=workers))


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGKILL, "its process was killed (SIGKILL)"),
        # The interpreter's dump shows the line.
        (signal.SIGSEGV, "its process died of SIGSEGV in process (runtime/forked_stages.py:N)"),
        (signal.SIGTERM, "its process was ended by SIGTERM"),
    ],
)
def test_a_signal_that_ends_a_worker_is_named(
    number: signal.Signals, words: str, tmp_path: Path
) -> None:
    outcome = run(make_plan(forked.Signalled(number=int(number))), tmp_path)

    assert (outcome.code, outcome.standing.finished) == (ExitCode.SOURCES_FAILED, 9)
    found = {incident.rpartition(": ")[2] for incident in outcome.incidents}
    assert {re.sub(r":\d+\)", ":N)", each) for each in found} == {words}
    assert outcome.failures[0].message == f"lost 3 workers; the last: {found.pop()}"


def test_the_stage_of_a_chain_in_which_a_worker_died_is_named(tmp_path: Path) -> None:
    outcome = run(make_plan(bad.Identity(), forked.Signalled(), bad.Identity()), tmp_path)

    assert len(outcome.incidents) >= 3
    assert all(each.startswith("a worker of 'stage-1' was lost") for each in outcome.incidents)
    assert outcome.failures[0].stage == "stage-1"


def test_each_end_has_a_message() -> None:
    assert explain_end(None) == "its process can't be reached"
    assert explain_end(3) == "its process exited: 3"
    assert explain_end(-signal.SIGRTMIN - 3) == f"its process died of signal {signal.SIGRTMIN + 3}"


def test_requested_workers_are_not_exceeded_and_have_one_parent(tmp_path: Path) -> None:
    outcome = run(make_plan(forked.Inside(), count=40), tmp_path, workers=3)

    told = [ast.literal_eval(path.read_text()) for path in find_texts(outcome)]
    assert len(told) == 40
    assert 1 <= len({pid for pid, _ in told}) <= 3
    (parent,) = {parent for _, parent in told}
    assert not psutil.pid_exists(parent)  # the parent ends with the run


@pytest.mark.parametrize("victim", ["driver", "forker"])
def test_law_a_run_whose_processes_are_killed_leaves_nothing(victim: str, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path)], env=environment, stderr=subprocess.PIPE
    )
    pids = await_workers(tmp_path, driver)
    workers = [psutil.Process(pid) for pid in pids]
    killed = driver.pid if victim == "driver" else workers[0].ppid()
    parent = psutil.Process(workers[0].ppid())
    os.kill(killed, signal.SIGKILL)
    _, errors = driver.communicate(timeout=PATIENCE)

    _, alive = psutil.wait_procs([parent, *workers], timeout=PATIENCE)
    assert alive == []
    if victim == "forker":
        assert (
            b"the process that starts workers was killed; run the pipeline again to continue"
            in errors
        )


def test_law_forked_workers_draw_different_numbers(tmp_path: Path) -> None:
    (tmp_path / "pids").mkdir()
    plan = make_plan(forked.Random(folder=str(tmp_path / "pids")), count=40)
    told = [ast.literal_eval(path.read_text()) for path in find_texts(run(plan, tmp_path))]
    by_worker = {pid: numbers for pid, *numbers in told}
    assert len(by_worker) == 2
    for numbers in zip(*by_worker.values(), strict=True):
        assert len(set(numbers)) == 2


def test_law_a_worker_stopped_while_answering_becomes_overdue(tmp_path: Path) -> None:
    plan = make_plan(forked.StoppedWhileSending(mark=str(tmp_path / "mark")))
    stage = replace(plan.stages[0], timeout=2.0, isolate=True)
    outcome = run(replace(plan, stages=(stage, *plan.stages[1:])), tmp_path)
    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, 10)
    assert len(outcome.incidents) == 1


def test_law_a_stop_does_not_wait_for_an_endlessly_yielding_stage(tmp_path: Path) -> None:
    log = tmp_path / "log"
    plan = make_plan(forked.Endless(log=str(log)), count=1)
    stage = replace(plan.stages[0], isolate=True)  # a sink in the same worker would slow the stage
    plan = replace(plan, stages=(stage, *plan.stages[1:]))

    def count() -> int:
        return len(log.read_text().splitlines()) if log.exists() else 0

    config = AttemptConfig(plan, tmp_path / "volume", engine="processes", workers=2)
    seen: list[int] = []

    def must_stop() -> bool:
        seen.append(count())
        return seen[-1] > 20

    assert run_attempt(config, must_stop).code is ExitCode.INTERRUPTED
    asked = next(number for number in seen if number > 20)
    assert count() - asked < 20  # hundreds would have been possible


@pytest.mark.more
def test_law_calls_behind_a_hanging_call_move_to_another_worker(tmp_path: Path) -> None:
    (tmp_path / "done").mkdir()
    plan = make_plan(forked.HangingOnce(folder=str(tmp_path / "done"), count=400), count=400)
    # With a timeout, a call has only one task, and quick tasks wait at their worker.
    stage = replace(plan.stages[0], timeout=60.0)
    outcome = run(replace(plan, stages=(stage, *plan.stages[1:])), tmp_path)
    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, 400)
    assert outcome.incidents == ()  # the timeout has not ended the call


@pytest.mark.parametrize(
    ("before", "is_apart", "kind"),
    [
        ([forked.Printing()], False, forked.WaitingForOthers),
        # These cases wait for some seconds, and `test_chains.py` splits all kinds of chains.
        pytest.param([], False, forked.WaitingForOthers, marks=pytest.mark.more),
        pytest.param([], True, forked.WaitingForOthers, marks=pytest.mark.more),
        pytest.param([], False, forked.YieldingForOthers, marks=pytest.mark.more),
    ],
    ids=["behind another", "first", "alone", "yielding"],
)
def test_law_tasks_of_one_call_do_not_wait_for_a_hanging_task(
    tmp_path: Path, before: list[Stage], is_apart: bool, kind: type[forked.WaitingForOthers]
) -> None:
    count, volume = 120, tmp_path / "volume"
    hanging = kind(kind.Params(number=90, count=count, folder=str(volume)))
    plan = make_plan(*before, hanging, count=count)
    stages = [replace(each, isolate=is_apart) for each in plan.stages]
    outcome = run(replace(plan, stages=tuple(stages)), volume)
    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, count)
    assert count == len(find_texts(outcome))
    assert {counts.tasks_in for name, counts in outcome.counts.items() if name != "numbers"} == {
        count
    }
    assert outcome.incidents == ()


def await_workers(folder: Path, driver: subprocess.Popen[bytes]) -> list[int]:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and driver.poll() is None:
        pids = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
        if len(pids) == 2:
            return pids
        time.sleep(0.05)
    raise AssertionError(driver.communicate()[1])


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({"gpu": 1}, "GPU"),
        ({"memory": 1_000_000}, "memory to reserve"),
        ({"custom": {"spot": 1}}, "custom resources"),
        ({"runtime_env": {"env_vars": {"A": "b"}}}, "their own environment"),
        ({"cpu": 2}, "more than one core"),
    ],
)
def test_features_that_need_ray_are_refused_before_any_work(
    more: dict[str, object], asked: str, tmp_path: Path
) -> None:
    plan = make_plan(forked.Inside())
    plan = replace(plan, stages=(replace(plan.stages[0], **more), *plan.stages[1:]))  # type: ignore[arg-type]
    message = f"the engine `processes` does not support {asked} for workers; use --engine ray"
    with pytest.raises(SpecError, match=message):
        run(plan, tmp_path / "volume")
    assert not (tmp_path / "volume").exists()


def test_a_cluster_is_refused(tmp_path: Path) -> None:
    config = AttemptConfig(
        make_plan(forked.Inside()), tmp_path / "volume", engine="processes", address="auto"
    )
    with pytest.raises(SpecError, match="runs only on this machine; omit --address auto"):
        run_attempt(config)


def test_law_objects_defined_in_main_are_readable_by_another_process(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from pathlib import Path\n"
        "from strandline.plan.stages.stage import Stage\n"
        "class Number:\n"
        "    def __init__(self, n): self.n = n\n"
        "class Own(Stage):\n"
        "    def process(self, task):\n"
        "        return task.replace(Number(task.data * 2))\n"
        "class Back(Stage):\n"
        "    def process(self, task):\n"
        "        return task.replace(task.data.n)\n"
        "if __name__ == '__main__':\n"
        "    from dataclasses import replace\n"
        "    from test_forked_workers import run\n"
        "    from number_plans import find_texts, make_plan\n"
        "    plan = make_plan(Own(), Back())\n"
        "    stages = tuple(replace(each, isolate=True) for each in plan.stages)\n"
        "    outcome = run(replace(plan, stages=stages), Path('volume'))\n"
        "    print(sorted(int(each.read_text()) for each in find_texts(outcome)))\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(program)],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{[2 * number for number in range(10)]}\n", done.stderr


def test_law_portable_bytes_are_plain_pickles_if_possible() -> None:
    for data in ({"a": [1, b"x"]}, Path("x"), Stage):
        assert pickle.loads(dump_portably(data, protocol=5)) == data  # noqa: S301 - our own
    assert pickle.loads(dump_portably(lambda: 3, protocol=5))() == 3  # noqa: S301 - our own


def test_output_of_stages_is_not_mixed_with_output_of_the_command(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path\n"
        "import forked_stages as forked\n"
        "from test_forked_workers import run\n"
        "from number_plans import make_plan\n"
        "run(make_plan(forked.Printing()), Path('volume'))\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout == ""
    assert done.stderr.count("number ") == done.stderr.count("raw\n") == 10
