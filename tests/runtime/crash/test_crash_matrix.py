"""A fault at any named step costs the work in flight and nothing else.

Here are, for the engine in one process, a kill and one of the errors at each step, and a sample of
the others'; `make crash` has them all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import pytest

from matrix import ENGINES, TIMES, TOLERATED, Case, Finding, Ground, expect_code, list_cases
from strandline.storage.faults import ACTIONS, STEPS

AT_ONCE = {"inline": 2, "processes": 1, "ray": 1}
SAMPLE = 8


def choose_sample(cases: list[Case], seed: int) -> list[Case]:
    """Some cases: one for each of as many kinds of steps, and the actions in turn."""
    rng = random.Random(seed)
    kinds = sorted({case.kind for case in cases})
    actions = cycle(rng.sample(ACTIONS, len(ACTIONS)))
    return [
        rng.choice([case for case in cases if (case.kind, case.action) == (kind, action)])
        for kind, action in zip(rng.sample(kinds, SAMPLE), actions, strict=False)
    ]


def choose_actions(cases: list[Case]) -> list[Case]:
    """All kills, and at each step one of the errors, in turn: both are told in the same way."""
    errors = [action for action in ACTIONS if action != "kill"]
    turns = {step: errors[number % len(errors)] for number, step in enumerate(STEPS)}
    return [case for case in cases if case.action in {"kill", turns[case.step]}]


CASES = choose_actions([case for case in list_cases() if case.engine == "inline"])
# Another sample whenever the steps change.
for number, engine in enumerate(("ray", "processes")):
    cases = [case for case in list_cases() if case.engine == engine]
    CASES += choose_sample(cases, seed=len(STEPS) + number)


@pytest.fixture(scope="module")
def findings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[Case, Future[Finding]]]:
    """What each chosen case comes to; several are carried out at once."""
    chosen = list(_list_chosen(request.session))
    ground = Ground(tmp_path_factory.mktemp("crash") / "ground")
    pools = {engine: ThreadPoolExecutor(most) for engine, most in AT_ONCE.items()}
    yield {case: pools[case.engine].submit(ground.carry_out, case) for case in chosen}
    for pool in pools.values():
        pool.shutdown(cancel_futures=True)
    ground.close()


def _list_chosen(session: pytest.Session) -> Iterator[Case]:
    for item in session.items:
        case = item.callspec.params.get("case") if hasattr(item, "callspec") else None
        if isinstance(case, Case) and "findings" in getattr(item, "fixturenames", ()):
            yield case


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_fault_costs_the_work_in_flight_alone(
    case: Case, findings: Mapping[Case, Future[Finding]]
) -> None:
    finding = findings[case].result()

    assert finding.faults == [], finding.log


def test_a_forked_run_is_killed_and_goes_on_as_one_of_a_fresh_interpreter(tmp_path: Path) -> None:
    case, seen = Case("inline", "commit.synced", "kill", 1), []
    for is_warm in (True, False):
        ground = Ground(tmp_path / str(is_warm), is_warm=is_warm)
        finding = ground.carry_out(case)
        ground.close()
        assert finding.faults == [], finding.log
        left = len(ground.whole), ground.artifacts.keys()
        seen.append((finding.fired.split()[:2], finding.code, *left))
    assert seen[0] == seen[1]


def test_every_step_and_every_action_is_in_the_matrix_for_each_engine() -> None:
    cases = {(case.engine, case.step, case.action) for case in list_cases()}
    assert cases == {
        (engine, step, action) for engine in ENGINES for step in STEPS for action in ACTIONS
    }
    assert len(list_cases()) == len(set(list_cases()))


def test_what_is_said_of_steps_is_said_of_steps_that_there_are() -> None:
    assert TIMES.keys() | TOLERATED.keys() <= set(STEPS)


def test_here_is_a_kill_and_an_error_at_each_step() -> None:
    chosen = [case for case in CASES if case.engine == "inline"]
    for step in STEPS:
        actions = {case.action for case in chosen if case.step == step}
        assert "kill" in actions
        assert len(actions) == 2
    assert {case.action for case in chosen} == set(ACTIONS)


def test_the_sample_has_all_actions_and_several_kinds_of_steps() -> None:
    for engine in ("processes", "ray"):
        sample = [case for case in CASES if case.engine == engine]
        assert {case.action for case in sample} == set(ACTIONS)
        assert len({case.kind for case in sample}) == SAMPLE


@pytest.mark.parametrize(
    ("fired", "code", "rerun", "problems", "faults"),
    [
        ("commit.begun kill 7\n", 137, 0, (), []),
        ("", 137, 0, (), ["the fault has not fired"]),
        ("commit.synced kill 7\n", 137, 0, (), ["the fault has not fired"]),
        ("commit.begun kill 7\n", 0, 0, (), ["exit code 0 instead of 137"]),
        ("commit.begun kill 7\n", 137, 3, (), ["the run after it ended with exit code 3"]),
        ("commit.begun kill 7\n", 137, 0, ("left over: x",), ["left over: x"]),
    ],
)
def test_a_finding_that_is_not_as_expected_says_so(
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
def test_each_end_is_written_down_beforehand(case: Case, code: int) -> None:
    assert expect_code(case) == code
