"""Requests to a busy server are retried within documented limits, and no error is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.run.release.push.backoff import LONGEST, TRIES, CallRefusal, ask_again, list_waits


class BusyError(Exception):
    """The error of a refused request."""


@given(refusals=st.integers(0, TRIES + 3), seconds=st.none() | st.floats(0, 1e6))
def test_law_a_call_is_retried_until_it_succeeds_or_the_tries_are_used_up(
    refusals: int, seconds: float | None
) -> None:
    calls = 0
    slept: list[float] = []

    def call() -> str:
        nonlocal calls
        calls += 1
        if calls <= refusals:
            raise BusyError
        return "answer"

    def ask() -> str:
        return ask_again(
            call, lambda _: CallRefusal(is_passing=True, seconds=seconds), slept.append
        )

    if refusals < TRIES:
        assert ask() == "answer"
    else:
        with pytest.raises(BusyError):
            ask()
    assert calls == min(refusals + 1, TRIES)
    assert len(slept) == calls - 1
    expected = list(list_waits()) if seconds is None else [min(seconds, LONGEST)] * (TRIES - 1)
    assert slept == expected[: len(slept)]


def test_permanent_errors_are_raised_at_once() -> None:
    def call() -> str:
        raise BusyError

    with pytest.raises(BusyError):
        ask_again(call, lambda _: CallRefusal(is_passing=False), lambda _: pytest.fail("it slept"))
