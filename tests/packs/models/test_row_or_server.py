"""A single row or the whole server: the cost of refusals, in requests that the server counted."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_model import PROBE, FakeModel, Fault, list_prompts
from strandline.plan.errors import StageStoppedError
from strandline_packs.models.asking.answers import (
    Endpoint,
    ModelAnswer,
    Reply,
    RowFault,
    ServerRefusal,
    Setback,
    Unfit,
)
from strandline_packs.models.asking.traffic.judging import judge
from test_asking import PATIENCE, Asking
from vendor_replies import HIDDEN_ERRORS, give

# Replies that refuse one row only.
REFUSALS = ["busy", "busy for no time", "busy since long", "503", "forbidden", "gone", "too dear"]
REFUSALS += ["no route", "no quota", "moved"]


def refuse_some(fault: Fault, poison: set[str]) -> Callable[[str, int], Fault]:
    return lambda prompt, _: fault if prompt in poison else None


def check_outcomes(asking: Asking, prompts: list[str], poison: set[str]) -> None:
    """Check that each poisoned row fails alone, and that all others need one request."""
    for prompt, outcome in zip(prompts, asking.ask(prompts), strict=True):
        assert isinstance(outcome, RowFault if prompt in poison else ModelAnswer)
        if prompt not in poison:
            assert asking.model.asked[prompt] == 1


@pytest.mark.parametrize("most", [1, 8, 32])
@pytest.mark.parametrize("fault", REFUSALS)
def test_a_refused_row_fails_alone_after_its_tries(fault: str, most: int) -> None:
    prompts, poison = list(list_prompts(40)), {"prompt 20"}
    asking = Asking(FakeModel(choose=refuse_some(fault, poison)), most)
    check_outcomes(asking, prompts, poison)
    is_alone = most == 1 and fault.startswith(("busy", "503"))  # probes prove less than rows
    assert asking.model.asked["prompt 20"] == (6 if is_alone else 3)
    assert asking.model.asked[PROBE] <= 6
    assert asking.time.now < 60
    assert not asking.lines


@pytest.mark.parametrize("fault", ["busy", "503", "forbidden", "gone", "too dear", "no quota"])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
def test_many_refused_rows_do_not_block_the_others(fault: str, share: float) -> None:
    prompts = list(list_prompts(200))
    poison = set(random.Random(3).sample(prompts, int(share * len(prompts))))
    asking = Asking(FakeModel(choose=refuse_some(fault, poison)), 16)
    check_outcomes(asking, prompts, poison)
    assert asking.time.now < 10 * PATIENCE


@pytest.mark.parametrize("fault", ["busy", "503", "forbidden", "too dear"])
def test_the_only_row_of_a_task_can_be_blamed(fault: str) -> None:
    asking = Asking(FakeModel(choose=refuse_some(fault, {"a"})))
    (outcome,) = asking.ask(["a"])
    assert isinstance(outcome, RowFault)
    assert asking.model.asked["a"] <= 6
    assert asking.time.now < PATIENCE / 10


@pytest.mark.parametrize("fault", ["forbidden", "gone", "too dear", "no quota", "moved"])
def test_a_server_that_refuses_all_rows_ends_the_attempt_at_once(fault: str) -> None:
    model = FakeModel()
    model.choose = lambda *_: fault if len(model.answered) >= 20 else None
    asking = Asking(model, 4)
    with pytest.raises(StageStoppedError) as caught:
        asking.ask(list_prompts(100))
    assert caught.value.is_lasting
    assert len(asking.found) == 20
    assert model.asked.total() <= 20 + 4 + 1


class LimitedServer:
    """A model with a rate limit that pushes requests back when exceeded.

    Args:
        rate: requests per second.
        burst: unused requests that accumulate.
        window: seconds after which the allowance refills at once; None for a steady refill.
        probe: the share of a request that a probe counts as.
    """

    def __init__(self, rate: float, burst: float, window: float | None, probe: float) -> None:
        self.rate, self.burst, self.window, self.probe = rate, burst, window, probe
        self.left, self.seen = burst, 0.0
        self.now: Callable[[], float] = lambda: 0.0
        self.fault = "busy"

    def choose(self, prompt: str, _: int) -> str | None:
        now, cost = self.now(), self.probe if prompt == PROBE else 1.0
        if self.window is None:
            self.left = min(self.burst, self.left + self.rate * (now - self.seen))
        elif now // self.window > self.seen // self.window:
            self.left = self.rate * self.window
        self.seen = now
        if self.left < cost:
            return self.fault
        self.left -= cost
        return None


@settings(max_examples=15)
@given(
    st.sampled_from([0.5, 5.0]),
    st.sampled_from([1.0, 5.0]),
    st.sampled_from([None, 60.0]),
    st.sampled_from([1.0, 0.01]),
    st.sampled_from([8, 32]),
)
def test_a_rate_limit_is_no_rows_fault(
    rate: float, burst: float, window: float | None, probe: float, most: int
) -> None:
    server = LimitedServer(rate, burst, window, probe)
    asking = Asking(FakeModel(choose=server.choose), most, tries=5)
    server.now = lambda: asking.time.now
    assert all(isinstance(each, ModelAnswer) for each in asking.ask(list_prompts(60)))


@pytest.mark.parametrize("fault", ["busy", "busy for no time", "busy since long", "503"])
@pytest.mark.parametrize("most", [16, 100])
def test_an_overloaded_server_is_not_flooded(fault: str, most: int) -> None:
    times = list[float]()

    def choose(*_: object) -> str:
        times.append(asking.time.now)
        return fault

    asking = Asking(FakeModel(choose=choose), most)
    with pytest.raises(StageStoppedError, match="the server has not responded for"):
        asking.ask(list_prompts(100))
    assert len([time for time in times if time <= 4.0]) <= 30
    assert len(times) < 200


def test_retry_after_zero_is_ignored_while_other_rows_are_answered() -> None:
    prompts = list(list_prompts(100))
    choose = lambda _, time: "busy for no time" if time == 1 else None  # noqa: E731
    asking = Asking(FakeModel(choose=choose), 100)
    assert all(isinstance(each, ModelAnswer) for each in asking.ask(prompts))
    assert asking.time.now >= 0.5


@pytest.mark.parametrize("name", HIDDEN_ERRORS)
def test_errors_with_a_success_status_count_by_their_code(name: str) -> None:
    reply, kind, words = HIDDEN_ERRORS[name]
    for endpoint in (Endpoint.CHAT, Endpoint.COMPLETIONS):
        verdict = judge(reply, endpoint)
        expected = {"fault": RowFault, "barred": ServerRefusal, "unfit": Unfit}.get(kind, Setback)
        assert isinstance(verdict, expected)
        assert not isinstance(verdict, ModelAnswer)
        assert words in (verdict.message if isinstance(verdict, RowFault) else verdict.what)
        assert (kind == "busy") == (isinstance(verdict, Setback) and verdict.is_busy)


@pytest.mark.parametrize("name", HIDDEN_ERRORS)
def test_errors_with_a_success_status_fail_one_row_alone(name: str) -> None:
    reply, kind, words = HIDDEN_ERRORS[name]
    asking = Asking(FakeModel(choose=refuse_some(reply, {"prompt 5"})), 4)
    outcomes = asking.ask(list_prompts(30))
    faults = [each for each in outcomes if isinstance(each, RowFault)]
    assert [outcomes[5]] == faults
    assert words in faults[0].message
    assert asking.model.asked["prompt 5"] == (1 if kind in {"fault", "unfit"} else 3)


def test_a_wait_in_an_error_with_a_success_status_counts() -> None:
    verdict = judge(give({"error": {"code": 429}}, {"retry-after": "7"}), Endpoint.CHAT)
    assert isinstance(verdict, Setback)
    assert verdict.hold == 7.0


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(503, {}, b"no healthy upstream"), "503: no healthy upstream"),
        (Reply(503, {}, b"<html>no upstream</html>"), "503 Service Unavailable"),
        (Reply(500, {}, b'{"errors": [{"message": "shard 3 is down"}]}'), "500: shard 3 is down"),
        (Reply(400, {}, b'{"detail": [{"msg": "bad field"}]}'), "bad field"),
        (Reply(400, {}, b'{"message": {"detail": "bad field"}}'), "bad field"),
        (Reply(400, {}, b'{"error": "bad \\ud83d field"}'), "400: bad ? field"),
        (Reply(403, {}, b'[{"error": {"message": "API not enabled"}}]'), "403: API not enabled"),
    ],
)
def test_messages_of_a_server_are_reported(reply: Reply, words: str) -> None:
    verdict = judge(reply, Endpoint.CHAT)
    assert not isinstance(verdict, ModelAnswer | RowFault)
    assert words in verdict.what
    assert verdict.what.encode()
