"""The loop of attempts, with fake attempts, clock, waits, and random numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from attempt_builders import killed_for, outcome_of
from strandline.run.supervise.supervision import EndedAttempt, Environment, recall, supervise
from strandline_api.law.retry import GiveUp, PastAttempt, RetryAt, decide
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.spec.policy import RetryPolicy
from strandline_api.status.enums import Trigger

LENGTH = 50.0  # seconds that an attempt takes
COMPLETE = outcome_of(0)


class Stage:
    """Attempts with prepared outcomes. Only attempts and waits advance the clock."""

    def __init__(
        self,
        *outcomes: DriverOutcome,
        ledgers: Sequence[str] = (),
        stopped_in: int | None = None,
        is_patient: Callable[[RetryAt], bool] = lambda _: True,
        ends_after: float | None = None,
        is_lasting: bool = False,
    ) -> None:
        self.now = 1000.0
        self.triggers: list[Trigger] = []
        self.told: list[RetryAt | GiveUp | str] = []
        self.starts: list[float] = []
        self._outcomes, self._ledgers = outcomes, ledgers
        self._stopped_in, self._is_patient = stopped_in, is_patient
        self._draws = itertools.cycle([0.25, 0.5, 0.75, 0.0, 0.125])
        self._is_lasting = is_lasting
        self._ends_at = None if ends_after is None else self.now + ends_after

    def run(self, **policy: Any) -> int:
        around = Environment(
            self.attempt, self.wait, lambda: self.now, lambda: next(self._draws), self._ends_at
        )
        return supervise(policy_of(**policy), around, self)

    def attempt(self, trigger: Trigger) -> EndedAttempt:
        number = len(self.triggers)
        self.triggers.append(trigger)
        self.starts.append(self.now)
        self.now += LENGTH
        ledger = self._ledgers[number] if self._ledgers else "ledger-id"
        is_stopped = self._stopped_in == number + 1
        return EndedAttempt(
            self._outcomes[number], self.now, ledger, is_stopped, is_lasting=self._is_lasting
        )

    def wait(self, retry: RetryAt) -> bool:
        if not self._is_patient(retry):
            return False
        self.now = max(self.now, retry.time)
        return True

    def retry(self, decision: RetryAt) -> None:
        self.told.append(decision)

    def give_up(self, ended: EndedAttempt, decision: GiveUp) -> None:
        assert ended.outcome is self._outcomes[len(self.triggers) - 1]
        self.told.append(decision)

    def stopped(self) -> None:
        self.told.append("stopped")

    @property
    def delays(self) -> list[float]:
        return [told.delay for told in self.told if isinstance(told, RetryAt)]


def policy_of(**fields: Any) -> RetryPolicy:
    return RetryPolicy.model_validate({"jitter": "none", **fields})


def killed(attempt: int, **counts: int) -> DriverOutcome:
    return killed_for(Cause.KILLED, attempt, **counts)


def test_an_immediate_success_takes_one_attempt() -> None:
    stage = Stage(COMPLETE)
    assert 0 == stage.run()
    assert ([Trigger.RUN], []) == (stage.triggers, stage.told)


def test_attempts_follow_the_retry_law_until_one_completes() -> None:
    stage = Stage(killed(1), killed(2), COMPLETE)
    assert 0 == stage.run()
    assert [Trigger.RUN, Trigger.RETRY, Trigger.RETRY] == stage.triggers
    assert [60.0, 120.0] == stage.delays
    assert [1000.0, 1000 + 50 + 60, 1110 + 50 + 120] == stage.starts


def test_the_retry_law_gets_the_whole_history() -> None:
    outcomes = [killed(1), killed_for(Cause.PREEMPTED, 2), killed(3), COMPLETE]
    stage = Stage(*outcomes)
    stage.run()
    history: list[PastAttempt] = []
    now = 1000.0
    for outcome, told in zip(outcomes, stage.told, strict=False):
        now += LENGTH
        history.append(recall(EndedAttempt(outcome, now, "", is_stopped=False), resets=not history))
        assert decide(policy_of(), history, now, uid="ledger-id") == told
        assert isinstance(told, RetryAt)
        now = told.time
    assert [1, 1, 2] == [told.number for told in stage.told if isinstance(told, RetryAt)]


def test_a_ledger_held_by_another_driver_is_not_awaited() -> None:
    """On one machine the user sees the other run. A cluster retries later instead."""
    stage = Stage(outcome_of(69), COMPLETE)
    assert 69 == stage.run()
    assert [Trigger.RUN] == stage.triggers
    (told,) = stage.told
    assert isinstance(told, GiveUp)
    assert told.why == "another driver holds the ledger; wait until it ends, or stop it"
    assert not told.is_exhausted


def test_a_ledger_that_was_taken_from_a_retry_is_not_taken_back() -> None:
    stage = Stage(killed(1), outcome_of(69), COMPLETE)
    assert 69 == stage.run()
    assert [Trigger.RUN, Trigger.RETRY] == stage.triggers


def test_failed_sources_are_not_retried_by_default() -> None:
    stage = Stage(outcome_of(3), COMPLETE)
    assert 3 == stage.run()
    assert [Trigger.RUN] == stage.triggers
    (told,) = stage.told
    assert isinstance(told, GiveUp)
    assert told.why == "fix the sources or the stage, then run `strandline retry`"


def test_failed_sources_are_retried_if_the_pipeline_enables_retries() -> None:
    stage = Stage(outcome_of(3), COMPLETE)
    assert 0 == stage.run(eligibleCauses=["SourcesFailed", "Killed"])
    stage = Stage(outcome_of(3, 1), outcome_of(3, 2))
    assert 3 == stage.run(eligibleCauses=["SourcesFailed"], maxRetries=1)
    assert 2 == len(stage.triggers)
    stage = Stage(outcome_of(3), COMPLETE)
    assert 3 == stage.run(eligibleCauses=["Killed"])


def test_sources_that_ran_out_of_memory_are_retried() -> None:
    seen = outcome_of(3).evidence + killed_for(Cause.OOM_KILLED, 1).evidence
    assert 0 == Stage(outcome_of(3, evidence=seen), COMPLETE).run()


def test_a_lasting_failure_is_not_retried() -> None:
    stage = Stage(outcome_of(1), COMPLETE, is_lasting=True)
    assert 1 == stage.run(eligibleCauses=["ApplicationError"])
    assert [Trigger.RUN] == stage.triggers
    assert 0 == Stage(outcome_of(1), COMPLETE).run()


def test_after_the_last_retry_its_exit_code_is_the_runs() -> None:
    stage = Stage(*(killed(number) for number in (1, 2, 3, 4)))
    assert 137 == stage.run(maxRetries=3)
    assert 4 == len(stage.triggers)
    assert [60.0, 120.0, 240.0] == stage.delays
    last = stage.told[-1]
    assert isinstance(last, GiveUp)
    assert last.is_exhausted
    assert last.why.startswith("attempt 4 ended with Killed, and no retries are left: maxRetries")


@pytest.mark.parametrize("code", [64, 65, 70, 73, 4])
def test_a_permanent_error_ends_the_run_with_its_code(code: int) -> None:
    stage = Stage(outcome_of(code))
    assert code == stage.run()
    assert isinstance(stage.told[0], GiveUp)


def test_progress_fills_the_budget_again() -> None:
    outcomes = [killed(number, finished=5, remaining=100) for number in range(1, 10)]
    stage = Stage(*outcomes, COMPLETE)
    assert 0 == stage.run(maxRetries=1)
    assert {60.0} == set(stage.delays)
    stage = Stage(*outcomes)
    assert 137 == stage.run(maxRetries=1, resetOnProgress=False)
    assert 2 == len(stage.triggers)


@pytest.mark.parametrize("code", [75, 0, 137, 3])
def test_no_attempt_follows_a_request_to_stop(code: int) -> None:
    stage = Stage(killed(1), outcome_of(code, 2), stopped_in=2)
    assert code == stage.run()
    assert [60.0] == stage.delays
    assert 2 == len(stage.triggers)


def test_an_interruption_without_a_request_is_a_disruption() -> None:
    stage = Stage(outcome_of(75, 1), COMPLETE)
    assert 0 == stage.run(maxRetries=0)
    assert 2 == len(stage.triggers)


def test_a_wait_that_is_cut_short_ends_the_run_as_interrupted() -> None:
    stage = Stage(killed(1), is_patient=lambda _: False)
    assert 75 == stage.run()
    assert 1 == len(stage.triggers)
    assert "stopped" == stage.told[-1]


@pytest.mark.parametrize(
    ("ends_after", "attempts"), [(110.0, 1), (110.001, 2), (50.0, 1), (1e6, 2)]
)
def test_no_attempt_begins_after_the_runs_deadline(ends_after: float, attempts: int) -> None:
    stage = Stage(killed(1), COMPLETE, ends_after=ends_after)
    assert (0 if attempts == 2 else 137) == stage.run()
    assert attempts == len(stage.triggers)
    if attempts == 1:
        (told,) = stage.told
        assert isinstance(told, GiveUp)
        assert told.why.endswith("later, which is after the run's deadline")


def test_random_jitter_is_drawn_once_per_retry() -> None:
    stage = Stage(killed(1), killed(2), COMPLETE)
    stage.run(jitter="random", jitterRatio=0.5, backoff="fixed")
    assert [60 * 1.125, 60 * 1.25] == stage.delays


def test_the_ledgers_id_spreads_the_jitter_even_if_an_attempt_never_read_it() -> None:
    def delays(*ledgers: str) -> list[float]:
        stage = Stage(killed(1), killed(0), COMPLETE, ledgers=ledgers)
        stage.run(jitter="deterministic")
        return stage.delays

    assert delays("one", "one", "") == delays("one", "", "")
    assert delays("one", "one", "") != delays("other", "other", "")


def test_a_complete_attempt_has_no_cause() -> None:
    assert recall(EndedAttempt(COMPLETE, 1.0, "", is_stopped=False)).cause is None
