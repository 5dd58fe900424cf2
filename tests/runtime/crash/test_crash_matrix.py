"""A fault at any named step loses only the work in flight.

This module covers all steps in one process, and both kinds of processes of the engine `processes`.
test_kills.py covers the processes on Ray; test_crash_engines.py and `make crash` cover the
remaining cases.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from matrix import (
    ENGINES,
    SEPARATE,
    TIMES,
    TOLERATED,
    Case,
    Finding,
    Ground,
    expect_code,
    list_cases,
    list_telling_cases,
)
from strandline.storage.faults import ACTIONS, STEPS

pytestmark = pytest.mark.first(reason="every named crash point of the product")

INLINE = list_telling_cases("inline")
OF_PROCESSES = [
    Case("processes", "output.synced", "kill", 4),  # a worker
    Case("processes", "commit.begun", "kill", 1),  # the driver
]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    ground = Ground(tmp_path_factory.mktemp("crash") / "ground")
    yield ground
    ground.close()


@pytest.mark.parametrize("case", [*INLINE, *OF_PROCESSES], ids=str)
def test_a_fault_costs_only_the_work_in_flight(case: Case, ground: Ground) -> None:
    finding = ground.carry_out(case)

    assert finding.faults == [], finding.log


def test_a_forked_run_ends_as_a_run_of_a_new_interpreter(ground: Ground) -> None:
    case, seen = Case("inline", "commit.synced", "kill", 1), []
    for is_forked in (True, False):
        finding = ground.carry_out(case, is_forked=is_forked)
        assert finding.faults == [], finding.log
        seen.append((finding.fired.split()[:2], finding.code))
    assert seen[0] == seen[1]


def test_the_separate_processes_of_each_engine_are_listed() -> None:
    assert SEPARATE.keys() == set(ENGINES)


def test_each_engine_has_all_actions_at_every_step() -> None:
    cases = {(case.engine, case.step, case.action) for case in list_cases()}
    assert cases == {
        (engine, step, action) for engine in ENGINES for step in STEPS for action in ACTIONS
    }
    assert len(list_cases()) == len(set(list_cases()))


def test_expected_results_refer_to_existing_steps() -> None:
    assert TIMES.keys() | TOLERATED.keys() <= set(STEPS)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_selected_cases_have_a_kill_and_an_error_at_each_step(engine: str) -> None:
    chosen = list_telling_cases(engine)
    assert {case.engine for case in chosen} == {engine}
    for step in STEPS:
        actions = {case.action for case in chosen if case.step == step}
        assert "kill" in actions
        assert len(actions) == 2
    assert {case.action for case in chosen} == set(ACTIONS)


def test_a_worker_and_a_driver_of_the_engine_processes_are_killed() -> None:
    assert {expect_code(case) for case in OF_PROCESSES} == {0, 137}
    assert set(OF_PROCESSES) <= set(list_cases())


@pytest.mark.parametrize(
    ("fired", "code", "rerun", "problems", "faults"),
    [
        ("commit.begun kill 7\n", 137, 0, (), []),
        ("", 137, 0, (), ["the fault has not fired"]),
        ("commit.synced kill 7\n", 137, 0, (), ["the fault has not fired"]),
        ("commit.begun kill 7\n", 0, 0, (), ["exit code 0 instead of 137"]),
        ("commit.begun kill 7\n", 137, 3, (), ["the next run ended with exit code 3"]),
        ("commit.begun kill 7\n", 137, 0, ("left over: x",), ["left over: x"]),
    ],
)
def test_a_finding_reports_each_deviation(
    fired: str, code: int, rerun: int, problems: tuple[str, ...], faults: list[str]
) -> None:
    case = Case("inline", "commit.begun", "kill", 1)
    assert Finding(case, fired, code, rerun, problems, "").faults == faults


@pytest.mark.parametrize(
    ("case", "code"),
    [
        (Case("ray", "output.synced", "kill", 1), 0),
        (Case("ray", "commit.begun", "kill", 1), 1),
        (Case("ray", "commit.written", "kill", 1), 137),
        (Case("ray", "latest.linked", "kill", 1), 137),
        (Case("processes", "output.synced", "kill", 1), 0),
        (Case("processes", "commit.begun", "kill", 1), 137),
        (Case("inline", "output.synced", "kill", 1), 137),
        (Case("ray", "output.synced", "enospc", 1), 73),
        (Case("inline", "lease.ended", "eio", 1), 0),
    ],
)
def test_the_exit_code_follows_from_the_engine_and_the_step(case: Case, code: int) -> None:
    assert expect_code(case) == code
