"""Generates policies and histories for tests of the retry law, and counts retries slowly."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from strandline_api.law.retry import PastAttempt
from strandline_api.outcome.causes import RETRYABLE_CAUSES, Cause, Treatment
from strandline_api.spec.policy import RetryPolicy

NOON = 1_800_000_000.0
UID = "6f9619ff-8b86-d011-b42d-00c04fc964ff"

retried_causes = st.sampled_from([c for c in Cause if c.treatment is Treatment.RETRIED])
disruptions = st.sampled_from([c for c in Cause if c.treatment is Treatment.DISRUPTION])
waits = st.sampled_from([c for c in Cause if c.treatment is Treatment.WAITED])
final_causes = st.sampled_from([c for c in Cause if c.treatment is Treatment.NEVER])
uids = st.text(max_size=40)
draws = st.floats(0, 1, exclude_max=True)
delays = st.integers(0, 10**6) | st.sampled_from(["250ms", "60s", "1h30m", "2d", "3650d"])
budgets = st.integers(0, 5)


def policy_of(**fields: Any) -> RetryPolicy:
    """Create a policy from fields as a user writes them."""
    return RetryPolicy.model_validate(fields)


_causes = st.sampled_from([cause.value for cause in RETRYABLE_CAUSES])
_fields = {
    "maxRetries": budgets,
    "backoff": st.sampled_from(["fixed", "exponential"]),
    "delay": delays,
    "multiplier": st.floats(1, 1e6),
    "maxDelay": st.none() | delays,
    "jitter": st.sampled_from(["none", "deterministic", "random"]),
    "jitterRatio": st.floats(0, 1),
    "disruptions": st.fixed_dictionaries({}, optional={"maxRetries": budgets}),
    "resetOnProgress": st.booleans(),
    "maxAttempts": st.integers(1, 12),
    "eligibleCauses": st.lists(_causes, unique=True),
}


def policies(**fixed: Any) -> st.SearchStrategy[RetryPolicy]:
    """Draw a policy with random fields, except that `fixed` fields keep their values."""
    given = st.fixed_dictionaries({}, optional=_fields)
    return given.map(lambda fields: policy_of(**{**fields, **fixed}))


@st.composite
def histories(
    draw: st.DrawFn, causes: st.SearchStrategy[Cause] | None = None, is_plain: bool = False
) -> list[PastAttempt]:
    """Draw attempts with bad ends. A plain history has no progress and no manual starts."""
    drawn_causes = (retried_causes | disruptions) if causes is None else causes
    history: list[PastAttempt] = []
    ended = NOON
    for number in range(1, draw(st.integers(1, 12)) + 1):
        ended += draw(st.floats(0, 1e5))
        attempt = PastAttempt(
            number=number,
            cause=draw(drawn_causes),
            ended=ended,
            finished=0 if is_plain else draw(st.integers(0, 3) | st.integers(0, 300)),
            remaining=draw(st.none() | st.integers(0, 20_000)),
            is_manual=not is_plain and draw(st.integers(0, 5)) == 5,
            resets=not is_plain and draw(st.integers(0, 9)) == 9,
        )
        history.append(attempt)
    return history


def count_by_hand(policy: RetryPolicy, history: Sequence[PastAttempt], budget: Treatment) -> int:
    """Count the retries that are charged to this budget, walking back from the last attempt."""
    count = 0
    for at in range(len(history) - 1, 0, -1):
        attempt, before = history[at], history[at - 1]
        hundredth = (attempt.remaining or 0) / 100
        is_enough = attempt.finished >= 1 and attempt.finished >= hundredth
        if attempt.resets or (policy.reset_on_progress and is_enough):
            break
        if before.cause is not None and before.cause.treatment is budget:
            count += not attempt.is_manual
    return count
