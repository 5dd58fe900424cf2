"""Whose death is counted against which work."""

from __future__ import annotations

import pytest

from strandline.engine.ray_data.losses import (
    DEATHS_PER_POOL,
    DEATHS_PER_TASK,
    Deaths,
    StageDeaths,
    WorkPermission,
)


def begin(deaths: Deaths, process: int, work: bytes = b"w", *, worker: str = "a") -> WorkPermission:
    return deaths.begin(worker, process, 0, work, is_one=True)


def count_lost(deaths: Deaths) -> int:
    return deaths.look(1)[0].lost


def test_a_worker_that_goes_on_has_died_over_nothing() -> None:
    deaths = Deaths()

    for work in (b"1", b"2", b"3"):
        assert begin(deaths, 7, work) is WorkPermission.BEGIN

    assert count_lost(deaths) == 0


def test_work_that_workers_die_over_when_it_has_ended_fails_too() -> None:
    deaths = Deaths()
    for process in range(DEATHS_PER_TASK):
        assert begin(deaths, process, b"before") is WorkPermission.BEGIN
        deaths.end("a")
        assert begin(deaths, process) is WorkPermission.BEGIN
        deaths.end("a")

    assert begin(deaths, 9, b"before") is WorkPermission.BEGIN
    assert begin(deaths, 9) is WorkPermission.FAIL


def test_work_that_has_had_all_its_workers_fails_and_others_go_on() -> None:
    deaths = Deaths()

    verdicts = [begin(deaths, process) for process in range(DEATHS_PER_TASK + 1)]

    assert verdicts == [WorkPermission.BEGIN] * DEATHS_PER_TASK + [WorkPermission.FAIL]
    assert count_lost(deaths) == DEATHS_PER_TASK
    assert begin(deaths, 3, b"other") is WorkPermission.BEGIN


def set_up(deaths: Deaths, process: int) -> WorkPermission:
    verdict = begin(deaths, process, b"")
    deaths.end("a")
    return verdict


@pytest.mark.parametrize("works", [True, False])
def test_a_stage_whose_workers_die_before_any_work_fails_and_one_that_works_between_does_not(
    works: bool,
) -> None:
    deaths = Deaths()
    for process in range(DEATHS_PER_TASK):
        assert set_up(deaths, process) is WorkPermission.BEGIN
    if works:
        begin(deaths, DEATHS_PER_TASK - 1)
        deaths.end("a")
    set_up(deaths, 8)

    assert set_up(deaths, 9) is (WorkPermission.BEGIN if works else WorkPermission.FAIL)


def test_what_several_tasks_died_in_is_taken_apart() -> None:
    deaths = Deaths()
    assert deaths.begin("a", 1, 0, b"many", is_one=False) is WorkPermission.BEGIN

    assert deaths.begin("a", 2, 0, b"many", is_one=False) is WorkPermission.APART
    assert begin(deaths, 2, b"one") is WorkPermission.BEGIN


def test_only_the_work_that_was_begun_is_blamed() -> None:
    deaths = Deaths()
    begin(deaths, 1, b"neighbour")
    deaths.end("a")
    begin(deaths, 1, b"culprit")

    for process in (2, 3, 4, 5):  # whatever the worker is given first when it comes back
        begin(deaths, process, b"neighbour")
        deaths.end("a")
        last = begin(deaths, process, b"culprit")

    assert last is WorkPermission.FAIL
    assert count_lost(deaths) == DEATHS_PER_TASK


def test_workers_are_known_apart() -> None:
    deaths = Deaths()
    begin(deaths, 1, b"first", worker="a")
    begin(deaths, 2, b"second", worker="b")

    assert count_lost(deaths) == 0


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_stage_that_loses_every_worker_is_broken_and_one_that_ends_something_is_not(
    succeeds: bool,
) -> None:
    deaths = Deaths()

    for process in range(DEATHS_PER_POOL):
        assert begin(deaths, process, bytes([process]), worker="a") is WorkPermission.BEGIN
        if succeeds:
            begin(deaths, 100, b"fine", worker="b")
            deaths.end("b")

    last = begin(deaths, DEATHS_PER_POOL, b"next")
    assert last is (WorkPermission.BEGIN if succeeds else WorkPermission.BROKEN)


def test_one_culprit_that_kills_again_and_again_does_not_stop_the_stage() -> None:
    deaths = Deaths()
    for process in range(DEATHS_PER_TASK):
        begin(deaths, process)

    assert begin(deaths, 9) is WorkPermission.FAIL
    assert begin(deaths, 9, b"next") is WorkPermission.BEGIN


def test_once_it_is_left_nothing_is_begun_and_deaths_are_counted_still() -> None:
    deaths = Deaths()
    begin(deaths, 1)
    deaths.leave()

    assert begin(deaths, 2) is WorkPermission.LEAVE
    assert begin(deaths, 3, worker="b") is WorkPermission.LEAVE
    assert count_lost(deaths) == 1


def test_each_stage_knows_its_workers() -> None:
    deaths = Deaths()
    for worker in ("a", "b"):
        begin(deaths, 1, b"", worker=worker)  # it is set up
        deaths.end(worker)
    begin(deaths, 1)
    begin(deaths, 2)

    assert deaths.look(2) == [StageDeaths(2, 1, 1), StageDeaths(0, 0, 0)]


def test_law_a_worker_whose_node_died_counts_against_no_work_and_no_stage() -> None:
    gone: set[str] = set()
    deaths = Deaths(gone.__contains__)
    for number in range(2 * max(DEATHS_PER_TASK, DEATHS_PER_POOL)):
        node = f"node{number}"
        verdict = deaths.begin("a", 7, 0, b"w", is_one=True, node=node)
        assert verdict is WorkPermission.BEGIN
        gone.add(node)
    assert deaths.look(1)[0].in_a_row == 0
    assert count_lost(deaths) == 2 * max(DEATHS_PER_TASK, DEATHS_PER_POOL) - 1


def test_a_worker_that_dies_on_a_node_that_stays_counts_wherever_it_comes_back() -> None:
    deaths = Deaths(lambda _: False)
    verdicts = [
        deaths.begin("a", 7, 0, b"w", is_one=True, node=f"node{number}")
        for number in range(DEATHS_PER_TASK + 1)
    ]
    assert verdicts == [WorkPermission.BEGIN] * DEATHS_PER_TASK + [WorkPermission.FAIL]
