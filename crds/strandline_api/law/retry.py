"""The retry law: decides whether and when another attempt follows an ended attempt.

A laptop and a cluster share the law, so it is a function of the policy, the history, and a given
time. This module must not depend on clocks, on how a cause was determined, or on how attempts
start.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from strandline_api.outcome.causes import Cause, Treatment
from strandline_api.spec.policy import RetryPolicy

_FIELDS = {
    Treatment.RETRIED: "maxRetries",
    Treatment.DISRUPTION: "disruptions.maxRetries",
}


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """The facts about an ended attempt that the law uses.

    Attributes:
        number: number of the attempt, for messages.
        cause: why the attempt ended badly, or None if it completed.
        ended: end time, in seconds since the epoch.
        finished: sources newly finished by the attempt, as counted by the ledger.
        remaining: unfinished sources at the start, or None if unknown.
        is_manual: whether a user started the attempt. Such an attempt uses no retry.
        resets: whether a user started the attempt with full budgets, as for a new run.
    """

    number: int
    cause: Cause | None
    ended: float
    finished: int = 0
    remaining: int | None = None
    is_manual: bool = False
    resets: bool = False

    @property
    def made_progress(self) -> bool:
        """Return True if at least 1% of the remaining sources, and at least one, were finished."""
        # Negating twice rounds the quotient up.
        return self.finished >= max(1, -(-(self.remaining or 0) // 100))


@dataclass(frozen=True, slots=True)
class Spent:
    """Counts of a run that are kept after the records of its attempts are deleted.

    Attributes:
        attempts: attempts so far, except those that only waited for capacity.
        retries: retries since the last progress, not counting retries after disruptions.
        disruptions: retries after disruptions since the last progress.
        cause: why the last attempt ended badly, or None if it completed or there was no attempt.
        waits: number of consecutive attempts, up to the last, that only waited for capacity.
    """

    attempts: int = 0
    retries: int = 0
    disruptions: int = 0
    cause: Cause | None = None
    waits: int = 0


@dataclass(frozen=True, slots=True)
class RetryAt:
    """The decision that another attempt follows.

    Attributes:
        time: start of the attempt, in seconds since the epoch; a past time means now.
        cause: why the last attempt ended.
        number: number of this retry in its budget since the last progress, from 1; for a wait, the
            number of consecutive waits.
        of: retries that the budget allows, or 0 for a wait, which needs no budget.
        budget: the budget that this retry uses; never `Treatment.NEVER`.
        delay: seconds from the end of the last attempt, including jitter.
        why: explanation in one sentence.
    """

    time: float
    cause: Cause
    number: int
    of: int
    budget: Treatment
    delay: float
    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The decision that no attempt follows.

    Attributes:
        why: explanation in one sentence.
        is_exhausted: True if a budget is used up; False if the cause or the policy excludes
            retries.
    """

    why: str
    is_exhausted: bool = False


def decide(
    policy: RetryPolicy,
    history: Sequence[PastAttempt],
    now: float,
    *,
    uid: str,
    drawn: float = 0.0,
    since: Spent | None = None,
) -> RetryAt | GiveUp:
    """Decide whether another attempt follows the last attempt of a history, and when.

    Args:
        policy: the policy, with the defaults of all layers merged in (`merge_policies`).
        history: attempts of one run, ordered by end time, at least one.
        now: current time, in seconds since the epoch. An end time after `now`, from another
            machine's clock, counts as `now`.
        uid: ID of the pipeline or the ledger, the input of deterministic jitter.
        drawn: random number from [0, 1) for random jitter. Draw it once, and store the decision.
        since: counts of the attempts before `history`, or None if there were no such attempts.

    Raises:
        ValueError: if the history is empty, or `drawn` is out of bounds.
    """
    if not history:
        raise ValueError("no attempt has ended yet")
    last, spent = history[-1], count_spent(policy, history, since or Spent())
    if last.cause is None:
        return GiveUp(f"attempt {last.number} completed")
    ending = f"attempt {last.number} ended with {last.cause}"
    if ban := _find_ban(policy, last.cause):
        return GiveUp(f"{ending}, {ban}")
    budget = last.cause.treatment
    if shortage := _find_shortage(policy, budget, spent):
        return GiveUp(f"{ending}, {shortage}", is_exhausted=True)
    is_wait = budget is Treatment.WAITED
    # The last wait is already counted, but a retry is not, because this function decides about it.
    number = spent.waits if is_wait else _used(spent, budget) + 1
    of = 0 if is_wait else _size_of(policy, budget)
    delay = add_jitter(policy, back_off(policy, number), uid=uid, number=number, drawn=drawn)
    kind = "retry after a disruption" if budget is Treatment.DISRUPTION else "retry"
    which = f"another {kind}" if is_wait else f"{kind} {number} of {of}"
    return RetryAt(
        # An end time in the future, from a wrong clock, must not delay the retry.
        time=min(last.ended, now) + delay,
        cause=last.cause,
        number=number,
        of=of,
        budget=budget,
        delay=delay,
        why=f"{ending}; {which} follows {_format_duration(delay)} later",
    )


def count_spent(policy: RetryPolicy, history: Sequence[PastAttempt], since: Spent) -> Spent:
    """Add the attempts of a history to the counts of earlier attempts.

    An attempt after a bad end is a retry, and the cause of that end determines which budget it
    uses. An attempt that made progress resets both retry counts. An attempt that only waited for
    capacity does not count, and the attempt after it is not a retry.
    """
    spent = since
    for attempt in history:
        spent = _spend(policy, spent, attempt)
    return spent


def back_off(policy: RetryPolicy, number: int) -> float:
    """Compute the wait before a retry without jitter: delay × multiplier^(number - 1), capped.

    Args:
        policy: delay, multiplier, and cap.
        number: number of the retry in its budget, from 1.

    Returns:
        Seconds, at most `maxDelay` and at most 24 hours. The wait of a later retry is never
        shorter.
    """
    delay, limit = policy.delay_seconds, policy.max_delay_seconds
    if delay and policy.backoff == "exponential":
        try:
            delay *= float(policy.multiplier) ** (number - 1)
        # The power overflows for a late retry. The limit applied long before.
        except OverflowError:
            return limit
    return min(delay, limit)


def add_jitter(policy: RetryPolicy, base: float, *, uid: str, number: int, drawn: float) -> float:
    """Extend a wait by jitter, so that many retries do not start simultaneously.

    The largest jitter is `jitterRatio` times the wait. Deterministic jitter is the SHA-1 digest of
    `uid/number`, read as a big-endian integer, modulo the largest jitter in whole milliseconds.
    Random jitter is `drawn` times the largest jitter.

    Raises:
        ValueError: if `drawn` is not in [0, 1).
    """
    if not 0 <= drawn < 1:
        raise ValueError(f"'drawn' must be at least 0 and less than 1, not {drawn}")
    match policy.jitter:
        case "none":
            return base
        case "random":
            return base + base * policy.jitter_ratio * drawn
        case "deterministic":
            most = round(base * 1000 * policy.jitter_ratio)
            # Without `usedforsecurity=False`, a Python in FIPS mode may reject SHA-1.
            digest = hashlib.sha1(f"{uid}/{number}".encode(), usedforsecurity=False).digest()
            return base + (int.from_bytes(digest, "big") % most / 1000 if most else 0.0)
    assert_never(policy.jitter)


def merge_policies(*layers: RetryPolicy) -> RetryPolicy:
    """Merge policies field by field. The first layer that sets a field wins.

    The fields of `disruptions` are merged in the same way. Fields that no layer sets have the
    product's defaults.
    """
    # Start with the last layer, so that earlier layers overwrite it. Skip defaults that a layer did
    # not set, because they would hide values of later layers.
    given = {
        name: getattr(layer, name) for layer in reversed(layers) for name in layer.model_fields_set
    }
    nested = [layer.disruptions for layer in layers if "disruptions" in layer.model_fields_set]
    if nested:
        given["disruptions"] = {
            name: getattr(layer, name)
            for layer in reversed(nested)
            for name in layer.model_fields_set
        }
    return RetryPolicy.model_validate(given, by_alias=False, by_name=True)


def describe_wait(retry: RetryAt, *, left: float) -> str:
    """Describe a wait: `retry 1 of 3 in 00:58 after OOMKilled`.

    Args:
        retry: the decision.
        left: seconds until the retry; negative counts as zero.
    """
    return f"{_describe_retry(retry)} in {_format_duration(left)} after {retry.cause}"


def describe_due(retry: RetryAt, clock_text: str) -> str:
    """Describe when the run continues: `retry 1 of 3 at 10:31:05 after OOMKilled`."""
    return f"{_describe_retry(retry)} at {clock_text} after {retry.cause}"


def _spend(policy: RetryPolicy, spent: Spent, attempt: PastAttempt) -> Spent:
    # Manual attempts, first attempts, and attempts after a completed attempt use no budget.
    budget = None if attempt.is_manual or spent.cause is None else spent.cause.treatment
    if attempt.resets or (policy.reset_on_progress and attempt.made_progress):
        spent = replace(spent, retries=0, disruptions=0, waits=0)
        budget = None
    is_wait = attempt.cause is not None and attempt.cause.treatment is Treatment.WAITED
    return Spent(
        attempts=spent.attempts + (not is_wait),
        retries=spent.retries + (budget is Treatment.RETRIED),
        disruptions=spent.disruptions + (budget is Treatment.DISRUPTION),
        cause=attempt.cause,
        waits=spent.waits + 1 if is_wait else 0,
    )


def _find_ban(policy: RetryPolicy, cause: Cause) -> str:
    """Explain why the policy never retries this cause. Return an empty string if it may."""
    if cause.treatment is Treatment.NEVER:
        return "which is never retried"
    if cause not in policy.eligible_causes:
        return "which is missing from eligibleCauses"
    # The attempt did not start, so limits on attempts and retries do not apply.
    if cause.treatment is Treatment.WAITED:
        return ""
    if not _size_of(policy, cause.treatment):
        return f"and retries are off: {_FIELDS[cause.treatment]} is 0"
    return "and retries are off: maxAttempts is 1" if policy.max_attempts == 1 else ""


def _find_shortage(policy: RetryPolicy, budget: Treatment, spent: Spent) -> str:
    """Describe the exhausted budget, or return an empty string if the budget is not exhausted."""
    if budget is Treatment.WAITED:
        return ""
    of = _size_of(policy, budget)
    if _used(spent, budget) >= of:
        return f"and no retries are left: {_FIELDS[budget]} is {of}"
    if spent.attempts >= policy.max_attempts:
        return f"and no attempts are left: maxAttempts is {policy.max_attempts}"
    return ""


def _size_of(policy: RetryPolicy, budget: Treatment) -> int:
    is_disruption = budget is Treatment.DISRUPTION
    return policy.disruptions.max_retries if is_disruption else policy.max_retries


def _used(spent: Spent, budget: Treatment) -> int:
    return spent.disruptions if budget is Treatment.DISRUPTION else spent.retries


def _describe_retry(retry: RetryAt) -> str:
    """Describe a retry by its number in its budget. Disruptions have a separate count.

    The attempt's number is not used, because it does not start over when a budget is reset.
    """
    if retry.budget is Treatment.DISRUPTION:
        return f"disruption {retry.number} of {retry.of}, retry"
    if retry.budget is Treatment.WAITED:
        return f"wait {retry.number} for the quota, retry"
    return f"retry {retry.number} of {retry.of}"


def _format_duration(seconds: float) -> str:
    """Format seconds, rounded up: `00:58`, or `1:02:03` from one hour."""
    minutes, rest = divmod(max(0, math.ceil(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
