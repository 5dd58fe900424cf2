"""One attempt after another, as the retry law says, until a run has ended.

Pure but for what comes in: an attempt is a function to be called, so are the clock and the wait
between two. How a driver is started, and how its end was seen, is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from strandline.run.history.records import Trigger
from strandline_api.law.retry import GiveUp, PastAttempt, RetryAt, decide
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.outcome.evidence import name_cause
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import RetryPolicy


class Ended(NamedTuple):
    """An attempt that has ended.

    Attributes:
        outcome: what it came to.
        time: when, in seconds since the epoch.
        ledger: id of the ledger; empty where it never got that far.
        is_stopped: whoever supervises was told to stop.
        is_told: the driver has told people of this end itself.
    """

    outcome: DriverOutcome
    time: float
    ledger: str
    is_stopped: bool
    is_told: bool = True


class Audience(Protocol):
    """Who is told what happens between attempts."""

    def retry(self, decision: RetryAt) -> None:
        """An attempt follows."""

    def give_up(self, ended: Ended, decision: GiveUp) -> None:
        """None follows."""

    def stopped(self) -> None:
        """The wait for an attempt was cut short."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the loop needs from outside.

    Attributes:
        attempt: makes one.
        wait: waits until a time, showing what for; False where it was told to stop.
        time: seconds since the epoch.
        draw: a random number from [0, 1).
        ends_at: when the run must be over, in seconds since the epoch; None: it has no deadline.
    """

    attempt: Callable[[Trigger], Ended]
    wait: Callable[[RetryAt], bool]
    time: Callable[[], float]
    draw: Callable[[], float]
    ends_at: float | None = None


def supervise(policy: RetryPolicy, around: Surroundings, audience: Audience) -> int:
    """Make attempts until one completes, none may follow, or it is told to stop.

    Returns:
        The exit code: the last attempt's, or 75 where the wait for the next one was cut short.
    """
    history: list[PastAttempt] = []
    trigger, ledger = Trigger.RUN, ""
    while True:
        ended = around.attempt(trigger)
        outcome = ended.outcome
        if ended.is_stopped or not outcome.exit_code:
            return outcome.exit_code
        history.append(recall(ended, resets=not history))
        ledger = ended.ledger or ledger
        decision = _yield_to_others(outcome) or decide(
            policy, history, around.time(), uid=ledger, drawn=around.draw()
        )
        if isinstance(decision, RetryAt) and decision.time >= (around.ends_at or math.inf):
            decision = GiveUp(f"{decision.why}, which is after the run's deadline")
        if isinstance(decision, GiveUp):
            audience.give_up(ended, decision)
            return outcome.exit_code
        audience.retry(decision)
        if not around.wait(decision):
            audience.stopped()
            return int(ExitCode.INTERRUPTED)
        trigger = Trigger.RETRY


def _yield_to_others(outcome: DriverOutcome) -> GiveUp | None:
    """Stop where another driver has the ledger, which on one machine somebody has started by hand.

    A cluster asks again later: nobody there saw the other one start, and it may be on its way out.
    """
    if outcome.exit_code != ExitCode.LEDGER_IN_USE:
        return None
    return GiveUp("another driver has the ledger, and ends by itself or is stopped")


def recall(ended: Ended, *, resets: bool = False) -> PastAttempt:
    """What the retry law needs of an attempt."""
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
