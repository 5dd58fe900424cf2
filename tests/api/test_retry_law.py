"""The retry law decides whether another attempt follows, when it starts, and when a run ends."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retry_histories import (
    NOON,
    UID,
    budgets,
    count_by_hand,
    disruptions,
    draws,
    final_causes,
    histories,
    policies,
    policy_of,
    retried_causes,
    uids,
)
from strandline_api.law.retry import (
    GiveUp,
    PastAttempt,
    RetryAt,
    Spent,
    add_jitter,
    back_off,
    count_spent,
    decide,
    describe_due,
    describe_wait,
)
from strandline_api.outcome.causes import Cause, Treatment
from strandline_api.spec.policy import RetryPolicy

OOM = Cause.OOM_KILLED
PLAIN = {"jitter": "none", "backoff": "fixed", "delay": 60}
History = list[PastAttempt]


def chain(*causes: Cause | None, **last: object) -> History:
    """Return attempts a minute apart without progress. `last` sets fields of the last attempt."""
    history = [PastAttempt(at, cause, NOON + 60 * at) for at, cause in enumerate(causes, start=1)]
    return [*history[:-1], replace(history[-1], **last)]  # type: ignore[arg-type]


def retry_after(policy: RetryPolicy, history: History) -> RetryAt:
    answer = decide(policy, history, history[-1].ended, uid=UID)
    assert isinstance(answer, RetryAt), answer
    return answer


def given_up(policy: RetryPolicy, history: History) -> GiveUp:
    answer = decide(policy, history, history[-1].ended, uid=UID)
    assert isinstance(answer, GiveUp), answer
    return answer


# --- Laws


@given(policies(), st.integers(1, 10**6))
def test_the_wait_before_jitter_is_monotone(policy: RetryPolicy, number: int) -> None:
    assert 0 <= back_off(policy, number) <= back_off(policy, number + 1)


@given(policies(), st.integers(1, 10**12))
def test_the_wait_before_jitter_is_bounded(policy: RetryPolicy, number: int) -> None:
    assert back_off(policy, number) <= policy.max_delay_seconds <= 86400


@given(policies(), st.integers(1, 100), uids, draws)
def test_jitter_only_lengthens_and_by_no_more_than_its_ratio(
    policy: RetryPolicy, number: int, uid: str, drawn: float
) -> None:
    base = back_off(policy, number)
    delay = add_jitter(policy, base, uid=uid, number=number, drawn=drawn)
    assert base <= delay <= base * (1 + policy.jitter_ratio) + 1e-9 * base


@given(policies(), histories(), uids, draws)
def test_never_early(policy: RetryPolicy, history: History, uid: str, drawn: float) -> None:
    ended = history[-1].ended
    answer = decide(policy, history, ended, uid=uid, drawn=drawn)
    if isinstance(answer, RetryAt):
        assert answer.time == ended + answer.delay
        assert answer.delay >= back_off(policy, answer.number)


@given(policies(), histories(), st.integers(-(10**5), 10**5))
def test_an_end_in_the_future_counts_as_now(
    policy: RetryPolicy, history: History, ahead: int
) -> None:
    now = history[-1].ended - ahead
    answer = decide(policy, history, now, uid=UID)
    if isinstance(answer, RetryAt):
        assert answer.time <= now + answer.delay


@given(policies(), histories(), st.integers(1, 10**5), uids, draws)
def test_the_decision_does_not_depend_on_the_time_of_the_call(
    policy: RetryPolicy, history: History, later: int, uid: str, drawn: float
) -> None:
    now = history[-1].ended
    first = decide(policy, history, now, uid=uid, drawn=drawn)
    copied = policy.model_copy(deep=True)
    assert decide(copied, tuple(history), now, uid=uid, drawn=drawn) == first
    assert decide(policy, history, now + later, uid=uid, drawn=drawn) == first


@given(policies(), histories())
def test_the_count_is_that_of_retries_paid_since_the_reset(
    policy: RetryPolicy, history: History
) -> None:
    spent = count_spent(policy, history, Spent())
    assert spent.retries == count_by_hand(policy, history, Treatment.RETRIED)
    assert spent.disruptions == count_by_hand(policy, history, Treatment.DISRUPTION)
    assert spent.attempts == len(history)
    answer = decide(policy, history, NOON, uid=UID)
    if isinstance(answer, RetryAt):
        assert answer.number == 1 + count_by_hand(policy, history, answer.budget)
        assert answer.number <= answer.of


@given(policies(), histories(), st.data())
def test_a_truncated_history_changes_nothing(
    policy: RetryPolicy, history: History, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history) - 1))
    since = count_spent(policy, history[:cut], Spent())
    whole = decide(policy, history, NOON, uid=UID)
    assert decide(policy, history[cut:], NOON, uid=UID, since=since) == whole


@given(policies(maxRetries=0, disruptions={"maxRetries": 0}), histories())
def test_zero_retries_schedule_nothing_and_report_no_exhaustion(
    policy: RetryPolicy, history: History
) -> None:
    assert not given_up(policy, history).is_exhausted


@given(policies(maxRetries=0), histories(causes=retried_causes))
def test_zero_max_retries_leave_disruptions_alone(policy: RetryPolicy, history: History) -> None:
    assert not given_up(policy, history).is_exhausted


@given(policies(), histories(is_plain=True), disruptions, st.data())
def test_a_disruption_never_eats_max_retries(
    policy: RetryPolicy, history: History, cause: Cause, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(history) - 1))
    disrupted = PastAttempt(0, cause, history[at].ended)
    before = count_spent(policy, history, Spent())
    after = count_spent(policy, [*history[:at], disrupted, *history[at:]], Spent())
    assert after.retries == before.retries
    assert after.disruptions == before.disruptions + 1


@given(st.lists(disruptions, max_size=20), budgets)
def test_disruptions_have_their_own_count_and_cap(causes: list[Cause], most: int) -> None:
    policy = policy_of(disruptions={"maxRetries": most}, maxRetries=2, **PLAIN)
    history = chain(*causes, Cause.PREEMPTED)
    answer = decide(policy, history, NOON, uid=UID)
    assert isinstance(answer, RetryAt) == (len(causes) < most)
    after = chain(*causes, OOM)
    assert retry_after(policy, after).number == 1
    assert retry_after(policy, after).of == 2


@given(histories(), st.integers(0, 10**7), st.booleans())
def test_progress_renews_the_budget(history: History, remaining: int, is_manual: bool) -> None:
    policy = policy_of(maxRetries=1, disruptions={"maxRetries": 1})
    enough = max(1, -(-remaining // 100))
    last = replace(history[-1], remaining=remaining, is_manual=is_manual, resets=False)
    progress = [*history[:-1], replace(last, finished=enough)]
    assert retry_after(policy, progress).number == 1
    idle = [*history[:-1], replace(last, finished=enough - 1)]
    answer = decide(policy, idle, NOON, uid=UID)
    assert isinstance(answer, GiveUp) == bool(count_by_hand(policy, idle, _budget_of(last)))


def _budget_of(attempt: PastAttempt) -> Treatment:
    assert attempt.cause is not None
    return attempt.cause.treatment


@given(policies(resetOnProgress=False), histories())
def test_progress_renews_nothing_if_disabled(policy: RetryPolicy, history: History) -> None:
    idle = [replace(attempt, finished=0) for attempt in history]
    assert count_spent(policy, history, Spent()) == count_spent(policy, idle, Spent())


@given(policies(), histories())
def test_exhaustion_is_reported_exactly_when_a_budget_was_used_up(
    policy: RetryPolicy, history: History
) -> None:
    cause = history[-1].cause
    assert cause is not None
    is_disruption = cause.treatment is Treatment.DISRUPTION
    budget = policy.disruptions.max_retries if is_disruption else policy.max_retries
    may_retry = cause in policy.eligible_causes and budget > 0 and policy.max_attempts > 1
    used = count_by_hand(policy, history, cause.treatment)
    is_used_up = used >= budget or len(history) >= policy.max_attempts
    answer = decide(policy, history, NOON, uid=UID)
    assert isinstance(answer, RetryAt) == (may_retry and not is_used_up)
    if isinstance(answer, GiveUp):
        assert answer.is_exhausted == (may_retry and is_used_up)


@given(policies(), histories(), final_causes)
def test_final_causes_are_never_retried(
    policy: RetryPolicy, history: History, cause: Cause
) -> None:
    answer = given_up(policy, [*history[:-1], replace(history[-1], cause=cause)])
    assert not answer.is_exhausted
    assert answer.why == f"attempt {history[-1].number} ended with {cause}, which is never retried"


# --- The law in numbers


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [60, 120, 240, 480, 960, 1920, 3600, 3600]),
        ({"backoff": "fixed"}, [60, 60, 60]),
        ({"backoff": "fixed", "delay": "2h"}, [3600, 3600]),
        ({"multiplier": 1}, [60, 60, 60]),
        ({"multiplier": 1.5, "delay": 10}, [10, 15, 22.5, 33.75]),
        ({"maxDelay": 100}, [60, 100, 100]),
        ({"maxDelay": 0}, [0, 0]),
        ({"maxDelay": None, "delay": "20h"}, [72000, 86400, 86400]),
        ({"maxDelay": "48h", "delay": "20h"}, [72000, 86400, 86400]),
        ({"delay": 0}, [0, 0, 0]),
    ],
)
def test_the_wait_grows_as_the_policy_says(
    fields: dict[str, object], expected: list[float]
) -> None:
    policy = policy_of(**fields)
    assert [back_off(policy, at) for at in range(1, len(expected) + 1)] == expected


@pytest.mark.parametrize(("multiplier", "delay", "expected"), [(2, 60, 3600), (1e300, 0, 0)])
def test_a_huge_count_neither_overflows_nor_takes_long(
    multiplier: float, delay: int, expected: float
) -> None:
    policy = policy_of(multiplier=multiplier, delay=delay)
    assert back_off(policy, 10**15) == expected
    assert back_off(RetryPolicy(), 10**15) == 3600


# Number of the retry, and wait before jitter. The expected waits were computed by hand, with the
# SHA-1 of `UID/n` from sha1sum, reduced by bc: 0971…3c7f mod 15000 = 12735, dbbc…978d mod 30000 =
# 10909, 25b0…b8b9 mod 60000 = 3577.
JITTERED = [(1, 60), (2, 120), (3, 240)]
EXPECTED_DELAYS = [72.735, 130.909, 243.577]


def test_deterministic_jitter_is_the_published_one() -> None:
    policy = RetryPolicy()
    waits = [add_jitter(policy, base, uid=UID, number=n, drawn=0.9) for n, base in JITTERED]
    assert waits == EXPECTED_DELAYS


def test_deterministic_jitter_is_the_same_in_every_process() -> None:
    program = (
        "from strandline_api.spec.policy import RetryPolicy;"
        "from strandline_api.law.retry import add_jitter;"
        f"print([add_jitter(RetryPolicy(), b, uid={UID!r}, number=n, drawn=0) for n, b in"
        f" {JITTERED}])"
    )
    for seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        ran = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        assert ran.stdout.strip() == str(EXPECTED_DELAYS)


@pytest.mark.parametrize(
    ("jitter", "ratio", "base", "drawn", "expected"),
    [
        ("none", 1, 60, 0.5, 60),
        ("random", 0.25, 60, 0.0, 60),
        ("random", 0.25, 60, 0.5, 67.5),
        ("random", 0, 60, 0.5, 60),
        ("random", 1, 0, 0.5, 0),
        ("deterministic", 0, 60, 0.5, 60),
        ("deterministic", 0.25, 0, 0.5, 0),
        ("deterministic", 0.0001, 1, 0.5, 1),  # less than half a millisecond, rounded to zero
    ],
)
def test_jitter_has_the_documented_values(
    jitter: str, ratio: float, base: float, drawn: float, expected: float
) -> None:
    policy = policy_of(jitter=jitter, jitterRatio=ratio)
    assert add_jitter(policy, base, uid=UID, number=1, drawn=drawn) == expected


def test_uids_are_spread_over_the_whole_jitter() -> None:
    policy = RetryPolicy()
    waits = [add_jitter(policy, 60, uid=f"p{at}", number=1, drawn=0) for at in range(1000)]
    assert min(waits) < 60.2
    assert max(waits) > 74.8
    assert len(set(waits)) > 900


@pytest.mark.parametrize("drawn", [-0.1, 1.0, float("nan")])
def test_a_draw_out_of_bounds_is_refused(drawn: float) -> None:
    with pytest.raises(ValueError, match="'drawn' must be at least 0 and less than 1"):
        decide(RetryPolicy(), chain(OOM), NOON, uid=UID, drawn=drawn)


def test_an_empty_history_is_refused() -> None:
    with pytest.raises(ValueError, match="no attempt has ended yet"):
        decide(RetryPolicy(), [], NOON, uid=UID)


@pytest.mark.parametrize(
    ("finished", "remaining", "expected"),
    [
        (0, None, False),
        (0, 0, False),
        (1, None, True),
        (1, 0, True),
        (1, 100, True),
        (1, 101, False),
        (2, 101, True),
        (99_999, 10_000_000, False),
        (100_000, 10_000_000, True),
    ],
)
def test_progress_is_a_hundredth_of_the_remaining_sources_and_at_least_one(
    finished: int, remaining: int | None, expected: bool
) -> None:
    attempt = PastAttempt(1, OOM, NOON, finished=finished, remaining=remaining)
    assert attempt.made_progress == expected


def test_the_budget_is_used_up_exactly() -> None:
    policy = policy_of(maxRetries=3, **PLAIN)
    numbers = [retry_after(policy, chain(*[OOM] * ends)).number for ends in (1, 2, 3)]
    assert numbers == [1, 2, 3]
    answer = given_up(policy, chain(OOM, OOM, OOM, OOM))
    assert answer.is_exhausted
    assert answer.why == (
        "attempt 4 ended with OOMKilled, and no retries are left: maxRetries is 3"
    )


def test_a_manual_attempt_does_not_count() -> None:
    policy = policy_of(maxRetries=3, **PLAIN)
    used_up = chain(OOM, OOM, OOM, OOM)
    by_hand = PastAttempt(5, Cause.KILLED, NOON + 300, is_manual=True)
    assert given_up(policy, [*used_up, by_hand]).is_exhausted
    assert retry_after(policy, [*used_up[:2], by_hand]).number == 2
    assert retry_after(policy, [*used_up, replace(by_hand, finished=1)]).number == 1
    assert retry_after(policy, [*used_up, replace(by_hand, resets=True)]).number == 1


def test_an_attempt_after_a_completed_one_is_no_retry() -> None:
    assert retry_after(policy_of(), chain(OOM, None, OOM)).number == 2
    answer = given_up(policy_of(), chain(OOM, None))
    assert answer == GiveUp("attempt 2 completed", is_exhausted=False)


@pytest.mark.parametrize(
    ("fields", "history", "is_exhausted", "why"),
    [
        (
            {"maxRetries": 0},
            chain(OOM),
            False,
            "attempt 1 ended with OOMKilled, and retries are off: maxRetries is 0",
        ),
        (
            {"disruptions": {"maxRetries": 0}},
            chain(Cause.EVICTED),
            False,
            "attempt 1 ended with Evicted, and retries are off: disruptions.maxRetries is 0",
        ),
        (
            {"maxAttempts": 1},
            chain(OOM),
            False,
            "attempt 1 ended with OOMKilled, and retries are off: maxAttempts is 1",
        ),
        (
            {"maxAttempts": 2},
            chain(OOM, OOM, finished=1),
            True,
            "attempt 2 ended with OOMKilled, and no attempts are left: maxAttempts is 2",
        ),
        (
            {"disruptions": {"maxRetries": 1}},
            chain(Cause.EVICTED, Cause.NODE_LOST),
            True,
            "attempt 2 ended with NodeLost, and no retries are left: disruptions.maxRetries is 1",
        ),
        (
            {"eligibleCauses": ["Killed"]},
            chain(OOM),
            False,
            "attempt 1 ended with OOMKilled, which is missing from eligibleCauses",
        ),
    ],
)
def test_giving_up_has_a_reason(
    fields: dict[str, object], history: History, is_exhausted: bool, why: str
) -> None:
    assert given_up(policy_of(**fields), history) == GiveUp(why, is_exhausted=is_exhausted)


# --- Words


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (58, "00:58"),
        (57.2, "00:58"),
        (0.1, "00:01"),
        (0, "00:00"),
        (-5, "00:00"),
        (60, "01:00"),
        (3599, "59:59"),
        (3723, "1:02:03"),
        (108000, "30:00:00"),
    ],
)
def test_a_wait_is_described(left: float, expected: str) -> None:
    retry = retry_after(policy_of(**PLAIN), chain(OOM))
    said = describe_wait(retry, left=left)
    assert said == f"retry 1 of 3 in {expected} after OOMKilled"


def test_a_due_time_is_described() -> None:
    retry = retry_after(policy_of(**PLAIN), chain(OOM, OOM))
    assert describe_due(retry, "10:31:05") == "retry 2 of 3 at 10:31:05 after OOMKilled"


def test_disruptions_are_described_by_their_own_count() -> None:
    retry = retry_after(policy_of(**PLAIN), chain(OOM, Cause.PREEMPTED, Cause.EVICTED))
    assert describe_wait(retry, left=60) == "disruption 2 of 100, retry in 01:00 after Evicted"
    assert retry.why == (
        "attempt 3 ended with Evicted; retry after a disruption 2 of 100 follows 01:00 later"
    )


def test_a_retry_has_a_reason() -> None:
    retry = retry_after(policy_of(**PLAIN), chain(OOM))
    assert retry.why == "attempt 1 ended with OOMKilled; retry 1 of 3 follows 01:00 later"
    assert (retry.time, retry.delay) == (NOON + 120, 60)
