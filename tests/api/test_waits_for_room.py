"""Attempts that a quota kept from starting are retried without limit, and use no retry."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from retry_histories import NOON, UID, histories, policies, policy_of, uids, waits
from strandline_api.law.retry import (
    PastAttempt,
    RetryAt,
    Spent,
    back_off,
    count_spent,
    decide,
    describe_due,
)
from strandline_api.outcome.causes import Cause, Treatment
from strandline_api.spec.policy import RetryPolicy

QUOTA = Cause.QUOTA_EXCEEDED


def retry_after(*causes: Cause) -> RetryAt:
    """Return the retry that follows attempts with these causes and without progress."""
    history = [PastAttempt(number, cause, NOON) for number, cause in enumerate(causes, start=1)]
    answer = decide(policy_of(jitter="none", delay=60), history, NOON, uid=UID)
    assert isinstance(answer, RetryAt), answer
    return answer


@given(policies(), histories(is_plain=True), waits, st.data())
def test_a_wait_for_room_costs_no_attempt_and_no_retry(
    policy: RetryPolicy, history: list[PastAttempt], cause: Cause, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(history) - 1))
    wait = PastAttempt(0, cause, history[at].ended)
    before = count_spent(policy, history, Spent())
    assert count_spent(policy, [*history[:at], wait, wait, *history[at:]], Spent()) == before


@given(policies(), histories(is_plain=True), waits, st.integers(1, 2000), uids)
def test_a_wait_for_room_is_unlimited_and_its_pauses_grow_like_retries(
    policy: RetryPolicy, history: list[PastAttempt], cause: Cause, number: int, uid: str
) -> None:
    wait = PastAttempt(0, cause, NOON)
    since = replace(count_spent(policy, history, Spent()), cause=cause, waits=number - 1)
    answer = decide(policy, [wait], NOON, uid=uid, since=since)
    assert isinstance(answer, RetryAt) == (cause in policy.eligible_causes)
    if isinstance(answer, RetryAt):
        assert (answer.number, answer.budget) == (number, Treatment.WAITED)
        assert answer.delay >= back_off(policy, number)


def test_another_wait_for_room_restarts_the_pauses() -> None:
    assert retry_after(QUOTA, QUOTA, QUOTA).delay == 240
    assert retry_after(QUOTA, QUOTA, Cause.OOM_KILLED, QUOTA).delay == 60
    assert retry_after(QUOTA, QUOTA, Cause.OOM_KILLED).number == 1


def test_a_wait_for_room_is_reported_without_a_budget() -> None:
    retry = retry_after(QUOTA, QUOTA)
    assert describe_due(retry, "10:31:05") == (
        "wait 2 for the quota, retry at 10:31:05 after QuotaExceeded"
    )
    assert retry.why == ("attempt 2 ended with QuotaExceeded; another retry follows 02:00 later")
