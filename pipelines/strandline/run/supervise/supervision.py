"""Makes attempts one after another, according to the retry law, until a run ends.

The caller passes functions that make an attempt, return the time, and wait between two attempts;
the module is pure otherwise. It must not depend on how a driver starts, or on how its end was
observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from strandline_api.law.retry import GiveUp, PastAttempt, RetryAt, decide
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.outcome.evidence import name_cause
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import RetryPolicy
from strandline_api.status.enums import Trigger


class EndedAttempt(NamedTuple):
    """An attempt that has ended.

    Attributes:
        outcome: outcome of the attempt.
        time: time of the end, in seconds since the epoch.
        ledger: ID of the ledger, or empty if the attempt did not take the ledger.
        is_stopped: whether the supervisor received a stop request.
        is_reported: whether the driver has already reported this end to the user.
        is_lasting: whether another attempt would end the same way; see `StrandlineError`.
    """

    outcome: DriverOutcome
    time: float
    ledger: str
    is_stopped: bool
    is_reported: bool = True
    is_lasting: bool = False


class RunListener(Protocol):
    """Receives events between attempts."""

    def retry(self, decision: RetryAt) -> None:
        """Report that an attempt follows."""

    def give_up(self, ended: EndedAttempt, decision: GiveUp) -> None:
        """Report that no further attempt follows."""

    def stopped(self) -> None:
        """Report that a stop request ended the wait for an attempt."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The functions and values that `supervise` needs.

    Attributes:
        attempt: makes an attempt.
        wait: waits until a time and shows the reason. Returns False if a stop is requested.
        time: returns seconds since the epoch.
        draw: returns a random number from [0, 1).
        ends_at: deadline of the run, in seconds since the epoch, or None if there is no deadline.
    """

    attempt: Callable[[Trigger], EndedAttempt]
    wait: Callable[[RetryAt], bool]
    time: Callable[[], float]
    draw: Callable[[], float]
    ends_at: float | None = None


def supervise(
    policy: RetryPolicy, around: Environment, listener: RunListener, trigger: Trigger = Trigger.RUN
) -> int:
    """Make attempts until one completes, no further attempt is allowed, or a stop is requested.

    Args:
        trigger: trigger of the first attempt.

    Returns:
        The exit code of the last attempt, or 75 if a stop request ended the wait for the next
        attempt.
    """
    history: list[PastAttempt] = []
    ledger = ""
    while True:
        ended = around.attempt(trigger)
        outcome = ended.outcome
        if ended.is_stopped or not outcome.exit_code:
            return outcome.exit_code
        history.append(recall(ended, resets=not history))
        # If the attempt did not take the ledger, its ID is unknown, so keep the last known ID.
        ledger = ended.ledger or ledger
        decision = _find_end(policy, ended, history[-1].cause) or decide(
            policy, history, around.time(), uid=ledger, drawn=around.draw()
        )
        if isinstance(decision, RetryAt) and decision.time >= (around.ends_at or math.inf):
            decision = GiveUp(f"{decision.why}, which is after the run's deadline")
        if isinstance(decision, GiveUp):
            listener.give_up(ended, decision)
            return outcome.exit_code
        listener.retry(decision)
        if not around.wait(decision):
            listener.stopped()
            return int(ExitCode.INTERRUPTED)
        trigger = Trigger.RETRY


def _find_end(policy: RetryPolicy, ended: EndedAttempt, cause: Cause | None) -> GiveUp | None:
    """Return the reason to end the run although the retry law would permit an attempt, if any.

    Here, a user at the terminal can fix the problem. On a cluster, hours may pass until a user
    looks, so an operator retries later.
    """
    if ended.outcome.exit_code == ExitCode.LEDGER_IN_USE:  # the user has started the other run
        return GiveUp("another driver holds the ledger; wait until it ends, or stop it")
    if ended.is_lasting:  # the next attempt would end with the same message
        return GiveUp("another attempt would end the same way")
    if cause is Cause.SOURCES_FAILED and not _is_asked_for(policy, cause):
        return GiveUp("fix the sources or the stage, then run `strandline retry`")
    return None


def _is_asked_for(policy: RetryPolicy, cause: Cause) -> bool:
    """Return True if the pipeline explicitly lists a cause as eligible for retries."""
    return "eligible_causes" in policy.model_fields_set and cause in policy.eligible_causes


def recall(ended: EndedAttempt, *, resets: bool = False) -> PastAttempt:
    """Return the facts about an attempt that the retry law uses."""
    outcome = ended.outcome
    cause = name_cause(outcome.evidence).cause if outcome.exit_code else None
    return PastAttempt(
        number=outcome.attempt,
        cause=cause,
        ended=ended.time,
        finished=outcome.sources.finished,
        remaining=outcome.remaining,
        resets=resets,
    )
