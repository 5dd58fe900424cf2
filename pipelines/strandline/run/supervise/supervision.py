"""One attempt after another, as the retry law says, until a run has ended.

Pure but for what comes in: an attempt is a function to be called, so are the clock and the wait
between two. How a driver is started, and how its end was seen, is not known here.
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
        outcome: what it came to.
        time: when, in seconds since the epoch.
        ledger: id of the ledger; empty where it never got that far.
        is_stopped: the supervisor was told to stop.
        is_reported: the driver has told people of this end itself.
        is_lasting: another attempt would end the same way; see `StrandlineError`.
    """

    outcome: DriverOutcome
    time: float
    ledger: str
    is_stopped: bool
    is_reported: bool = True
    is_lasting: bool = False


class RunListener(Protocol):
    """Receives what happens between attempts."""

    def retry(self, decision: RetryAt) -> None:
        """Report that an attempt follows."""

    def give_up(self, ended: EndedAttempt, decision: GiveUp) -> None:
        """Report that none follows."""

    def stopped(self) -> None:
        """Report that the wait for an attempt was cut short."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What the loop needs from outside.

    Attributes:
        attempt: makes one.
        wait: waits until a time, showing what for; False where it was told to stop.
        time: seconds since the epoch.
        draw: a random number from [0, 1).
        ends_at: when the run must be over, in seconds since the epoch; None: it has no deadline.
    """

    attempt: Callable[[Trigger], EndedAttempt]
    wait: Callable[[RetryAt], bool]
    time: Callable[[], float]
    draw: Callable[[], float]
    ends_at: float | None = None


def supervise(
    policy: RetryPolicy, around: Environment, listener: RunListener, trigger: Trigger = Trigger.RUN
) -> int:
    """Make attempts until one completes, none may follow, or it is told to stop.

    Args:
        trigger: of the first.

    Returns:
        The exit code: the last attempt's, or 75 where the wait for the next one was cut short.
    """
    history: list[PastAttempt] = []
    ledger = ""
    while True:
        ended = around.attempt(trigger)
        outcome = ended.outcome
        if ended.is_stopped or not outcome.exit_code:
            return outcome.exit_code
        history.append(recall(ended, resets=not history))
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
    """Return why none follows though the law may allow it: by hand a person looks on.

    A cluster asks again later, since no person may look for hours.
    """
    if ended.outcome.exit_code == ExitCode.LEDGER_IN_USE:  # a person has started the other by hand
        return GiveUp("another driver has the ledger, and ends by itself or is stopped")
    if ended.is_lasting:  # the next attempt would end with the same sentence
        return GiveUp("another one would end the same way")
    if cause is Cause.SOURCES_FAILED and not _is_asked_for(policy, cause):
        return GiveUp("mend the sources or the stage, then `strandline retry` tries what failed")
    return None


def _is_asked_for(policy: RetryPolicy, cause: Cause) -> bool:
    """Return whether the pipeline itself names a cause as one to retry."""
    return "eligible_causes" in policy.model_fields_set and cause in policy.eligible_causes


def recall(ended: EndedAttempt, *, resets: bool = False) -> PastAttempt:
    """Return what the retry law needs of an attempt."""
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
