"""An attempt's signs of life: in the ledger, and for the work in flight."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.ledger.access import heartbeat
from strandline.ledger.access.heartbeat import (
    LEAST_BYTES,
    LEAST_SECONDS,
    WINDOW_SECONDS,
    Heartbeat,
    ProcessUsage,
    has_progressed,
    read_moved,
)
from strandline.ledger.errors import LeaseLostError
from strandline.ledger.records.entries import LAPSE_SECONDS, RENEWAL_SECONDS

PATIENCE = 100.0
PATIENT_TICKS = int(PATIENCE)


class Watched:
    """A process with its own clock, and the signs of life that other processes see."""

    def __init__(self, limit: float | None = PATIENCE) -> None:
        self.now = 1000.0
        self.effort = ProcessUsage(0.0, 0)
        self.beats: list[float] = []
        self.shown: list[float] = []
        self.beating = Heartbeat(lambda: self.now, lambda: self.now, limit, lambda: self.effort)
        self.around = ExitStack()
        self.around.enter_context(self.beating.showing(self.shown.append))
        self.around.enter_context(self.beating.renewing(self.beats.append))

    def tick(self, seconds: float = 1.0, *, works: bool = False) -> None:
        self.now += seconds
        if works:
            self.beating.note_progress()
        self.beating.renew_lease()

    def strain(self, seconds: float = 0.0, moved: int = 0) -> None:
        self.effort = ProcessUsage(self.effort.seconds + seconds, self.effort.moved + moved)


@given(st.lists(st.booleans(), max_size=300))
def test_law_the_lease_is_renewed_while_the_last_step_is_recent(steps: list[bool]) -> None:
    watched, worked = Watched(), 1000.0
    for works in steps:
        watched.tick(works=works)
        worked = watched.now if works else worked
        assert worked == watched.shown[-1]
        is_renewed = watched.now - watched.beats[-1] <= RENEWAL_SECONDS < LAPSE_SECONDS
        assert is_renewed or watched.now - worked > PATIENCE - RENEWAL_SECONDS
    later = zip(watched.beats, watched.beats[1:], strict=False)
    assert all(after - before >= RENEWAL_SECONDS for before, after in later)


def test_an_idle_attempt_is_detected_and_loses_the_lease() -> None:
    watched = Watched()
    for _ in range(3 * PATIENT_TICKS):
        watched.tick()
    assert {1000.0} == set(watched.shown)
    assert PATIENCE - RENEWAL_SECONDS <= watched.beats[-1] - 1000.0 < PATIENCE
    watched.tick(works=True)
    assert watched.now == watched.beats[-1] == watched.shown[-1]


def test_without_a_limit_a_living_process_keeps_the_lease() -> None:
    watched = Watched(limit=None)
    for _ in range(3 * PATIENT_TICKS):
        watched.tick()
    assert watched.now - watched.beats[-1] <= RENEWAL_SECONDS


@pytest.mark.parametrize("moved", [0, LEAST_BYTES // 10])
def test_code_without_steps_counts_as_working_if_it_computes_or_moves_bytes(moved: int) -> None:
    watched = Watched()
    with watched.beating.trusting():
        for _ in range(3 * PATIENT_TICKS):
            watched.strain(0.0 if moved else LEAST_SECONDS / 10, moved)
            watched.tick()
            assert watched.now - watched.shown[-1] <= WINDOW_SECONDS


def test_idle_code_without_steps_does_not_count_as_working() -> None:
    """A hanging process still wakes up sometimes, and its small CPU times add up."""
    watched = Watched()
    with watched.beating.trusting():
        for _ in range(30 * PATIENT_TICKS):
            watched.strain(LEAST_SECONDS / WINDOW_SECONDS / 2, LEAST_BYTES // 100)
            watched.tick()
    assert {1000.0} == set(watched.shown)


def test_computation_in_code_with_steps_is_not_a_step() -> None:
    """Code that should report steps counts as hanging if it computes without a step."""
    watched = Watched()
    for _ in range(PATIENT_TICKS):
        watched.strain(1.0, LEAST_BYTES)
        watched.tick()
    assert {1000.0} == set(watched.shown)


def test_the_end_of_code_without_steps_is_a_step() -> None:
    watched = Watched()
    with watched.beating.trusting():
        watched.tick()
    watched.tick()
    assert watched.now == watched.shown[-1]


def test_a_lost_lease_ends_the_work_but_not_the_thread() -> None:
    watched, asked = Watched(), []

    def lose(time: float) -> None:
        asked.append(time)
        raise LeaseLostError("attempt 2 has taken the ledger over")

    with watched.beating.renewing(lose):
        watched.tick()
        watched.tick(2 * RENEWAL_SECONDS)
        with pytest.raises(LeaseLostError, match="attempt 2"):
            watched.beating.note_progress()
    assert 1 == len(asked)


def test_renewals_may_end_in_any_order() -> None:
    """The gathering thread may still renew the lease when the engine has stopped."""
    watched = Watched()
    second: list[float] = []
    third: list[float] = []
    first_ends, second_ends = ExitStack(), ExitStack()
    first_ends.enter_context(watched.beating.renewing(second.append))
    second_ends.enter_context(watched.beating.renewing(third.append))
    watched.tick(RENEWAL_SECONDS, works=True)
    first_ends.close()
    watched.tick(RENEWAL_SECONDS, works=True)
    second_ends.close()
    watched.tick(RENEWAL_SECONDS, works=True)
    assert (1, 0, 2) == (len(watched.beats), len(second), len(third))


def test_no_heartbeats_are_sent_after_the_work() -> None:
    watched = Watched()
    watched.around.close()
    watched.tick(PATIENCE / 2, works=True)
    assert ([], [1000.0]) == (watched.beats, watched.shown)


def test_a_thread_sends_heartbeats_during_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "TICK_SECONDS", 0.001)
    beats = threading.Semaphore(0)
    beating = Heartbeat(lambda: 0.0, lambda: 0.0)
    with beating.beating(), beating.showing(lambda _: beats.release()):
        for _ in range(10):
            assert beats.acquire(timeout=30)
    assert not any(thread.name == "heart" for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("seconds", "moved", "expected"),
    [
        (0.0, 0, False),
        (LEAST_SECONDS, 0, True),
        (0.0, LEAST_BYTES, True),
        (LEAST_SECONDS * 0.99, LEAST_BYTES - 1, False),
    ],
)
def test_computation_and_moved_bytes_count_as_work(
    seconds: float, moved: int, expected: bool
) -> None:
    assert expected == has_progressed(
        ProcessUsage(5.0, 100), ProcessUsage(5.0 + seconds, 100 + moved)
    )


def test_bytes_are_counted_if_the_kernel_counts_them(tmp_path: Path) -> None:
    (tmp_path / "io").write_text("rchar: 5\nwchar: 7\nsyscr: 99\nread_bytes: 11\nwrite_bytes: 13\n")
    assert 36 == read_moved(tmp_path / "io")
    assert 0 == read_moved(tmp_path / "none")
    before = read_moved()
    (tmp_path / "large").write_bytes(bytes(LEAST_BYTES))
    assert before + LEAST_BYTES <= read_moved()
