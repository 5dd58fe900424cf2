"""How long an attempt continues to work after a request to stop."""

from __future__ import annotations

import pytest

from strandline.run.attempt.control import (
    ENDING_SECONDS,
    PROMPT_SECONDS,
    UNKNOWN_SECONDS,
    Grace,
    find_period,
)
from strandline_api.spec.policy import Checkpoint


class Attempt:
    """A grace period with a manually set clock."""

    def __init__(self, period: float) -> None:
        self.now = 500.0
        self.is_asked = False
        self.grace = Grace(lambda: self.is_asked, period, lambda: self.now)

    def is_over_after(self, seconds: float) -> bool:
        self.now += seconds
        return self.grace.is_over()


def test_an_attempt_without_a_request_has_no_deadline() -> None:
    attempt = Attempt(30.0)
    assert not attempt.is_over_after(0.0)
    assert not attempt.is_over_after(1e9)


@pytest.mark.parametrize(
    ("period", "working"), [(30.0, 20.0), (60.0, 50.0), (3600.0, 3590.0), (3.0, 2.0)]
)
def test_a_margin_is_reserved_for_the_steps_after_work(period: float, working: float) -> None:
    """Ten seconds or a third of the period are reserved for flushing and publishing."""
    attempt = Attempt(period)
    attempt.is_asked = True
    assert not attempt.is_over_after(0.0)
    assert not attempt.is_over_after(working - 0.001)
    assert attempt.is_over_after(0.002)


def test_without_a_grace_period_work_ends_at_once() -> None:
    attempt = Attempt(0.0)
    attempt.is_asked = True
    assert attempt.is_over_after(0.0)


def test_time_counts_from_the_request_and_not_from_the_beginning() -> None:
    attempt = Attempt(30.0)
    assert not attempt.is_over_after(1000.0)
    attempt.is_asked = True
    assert not attempt.is_over_after(1000.0)  # the attempt sees the request only now
    assert not attempt.is_over_after(19.0)
    assert attempt.is_over_after(1.0)


def test_law_by_default_the_end_is_recorded_within_ten_seconds() -> None:
    assert find_period(Checkpoint()) == PROMPT_SECONDS - ENDING_SECONDS
    attempt = Attempt(find_period(Checkpoint()))
    attempt.is_asked = True
    assert not attempt.is_over_after(0.0)
    assert not attempt.is_over_after(PROMPT_SECONDS / 2 - 0.01)
    assert attempt.is_over_after(0.01)


@pytest.mark.parametrize("period", ["0s", "5s", "30s", "10m"])
def test_law_a_requested_grace_period_is_used(period: str) -> None:
    checkpoint = Checkpoint.model_validate({"gracePeriod": period})
    assert find_period(checkpoint) == checkpoint.grace_period_seconds


def test_calls_without_a_duration_are_awaited_briefly_from_the_request() -> None:
    attempt = Attempt(600.0)
    assert attempt.grace.find_leave().prompt_at == float("inf")
    attempt.is_asked = True
    assert not attempt.is_over_after(1.0)
    assert attempt.grace.find_leave() == (501.0 + UNKNOWN_SECONDS, 501.0 + 590.0)
