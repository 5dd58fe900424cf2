"""Requests to a faulty server: all are answered or fail once, and none runs forever."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_model import (
    LASTING,
    MODEL,
    PASSING,
    PROBE,
    Direct,
    FakeModel,
    draw_faults,
    list_prompts,
)
from fake_time import FakeTime
from strandline.plan.errors import StageInterruptedError, StageStoppedError
from strandline_api.outcome.causes import Cause
from strandline_packs.models.asking.answers import (
    Endpoint,
    ModelAnswer,
    Reply,
    RowFault,
    UnansweredRequest,
)
from strandline_packs.models.asking.protocols.openai import OpenAiProtocol
from strandline_packs.models.asking.spending.tally import RequestTally
from strandline_packs.models.asking.traffic.asker import Asker, ModelQuestion, Spending
from strandline_packs.models.asking.traffic.health import Terms
from strandline_packs.models.asking.traffic.pace import (
    FIRST_LIMIT,
    RequestPace,
    choose_wait,
    read_hold,
)

PATIENCE = 600.0


class Asking:
    """Requests to a fake model, with time that passes at once."""

    def __init__(self, model: FakeModel, most: int = 16, repairs: int = 0, tries: int = 3) -> None:
        self.model, self.time, self.lines = model, FakeTime(), list[str]()
        self.pace, self.most = RequestPace(most), most
        terms = Terms("ask: the server", tries, PATIENCE, repairs)
        self.poster = Direct(model)
        self.asker = Asker(
            self,
            Endpoint.CHAT,
            self.pace,
            terms,
            self.time.clock,
            self.lines.append,
            Spending(RequestTally()),
        )
        self.found: dict[int, list[ModelAnswer | RowFault]] = {}

    async def post(self, path: str, body: bytes) -> Reply | UnansweredRequest:
        return await self.poster.post(path, body)

    def ask(
        self,
        prompts: Sequence[str],
        check: Callable[[str], str | None] | None = None,
        is_stopping: Callable[[], bool] = bool,
        **more: Any,
    ) -> list[ModelAnswer | RowFault]:
        questions = [
            ModelQuestion(
                {"model": MODEL, "messages": [{"role": "user", "content": each}], **more}, check
            )
            for each in prompts
        ]

        def keep(position: int, outcome: ModelAnswer | RowFault) -> None:
            self.found.setdefault(position, []).append(outcome)

        works = [partial(self.asker.ask, question) for question in questions]
        asyncio.run(self.asker.work_all(works, self.most, keep, lambda: None, is_stopping))
        assert all(len(each) == 1 for each in self.found.values())
        return [self.found[at][0] for at in range(len(prompts))]


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from([1, 3, 40]))
def test_each_request_is_answered_or_fails_exactly_once(seed: int, share: float, most: int) -> None:
    faults = draw_faults(seed, share)
    asking, prompts = Asking(FakeModel(choose=faults), most), list_prompts(30)
    for prompt, outcome in zip(prompts, asking.ask(prompts), strict=True):
        is_bad = any(faults(prompt, time) in LASTING for time in range(1, 5))
        assert (
            isinstance(outcome, RowFault) if is_bad else isinstance(outcome, ModelAnswer | RowFault)
        )
        if isinstance(outcome, ModelAnswer):
            assert f"echo: {prompt}" == outcome.text
        elif not is_bad:  # only after all tries
            assert outcome.kind == "failed"
            assert asking.model.asked[prompt] >= 3
    # Answered requests are never repeated.
    assert max(Counter(p for p in asking.model.answered if p != PROBE).values(), default=1) == 1


@pytest.mark.parametrize("fault", PASSING)
def test_transient_faults_are_retried(fault: str) -> None:
    asking = Asking(FakeModel(choose=lambda prompt, time: fault if time < 3 else None))
    assert ["echo: a", "echo: b"] == [each.text for each in asking.ask(["a", "b"])]  # type: ignore[union-attr]
    assert (asking.model.asked["a"], asking.model.asked["b"]) == (3, 3)


KINDS = {"cut short": "cut short", "refused": "refused", "filtered": "refused", "too long": "unfit"}


@pytest.mark.parametrize(("fault", "kind"), KINDS.items())
def test_bad_answers_are_distinguished(fault: str, kind: str) -> None:
    asking = Asking(FakeModel(choose=lambda prompt, _: fault if prompt == "bad" else None))
    good, bad = asking.ask(["good", "bad"])
    assert isinstance(good, ModelAnswer)
    assert isinstance(bad, RowFault)
    assert kind == bad.kind
    assert asking.model.asked["bad"] == 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no quota", "the quota is used up (429: You exceeded your quota)"),
        ("gone", "the server has no such model or address (404: The model fake-1 does not exist)"),
        ("no route", "the server has no such model or address (404: default backend - 404)"),
        (
            "moved",
            "the server redirects to https://elsewhere.example.com (307); set `url` to that "
            "address",
        ),
        (
            "unknown parameter",
            "the server rejects such requests (400: Unrecognized argument: seeed)",
        ),
    ],
)
def test_a_fault_for_all_rows_ends_the_attempt_with_one_sentence(fault: str, words: str) -> None:
    asking = Asking(FakeModel(choose=lambda *_: fault), most=4)
    with pytest.raises(StageStoppedError) as caught:
        asking.ask(list_prompts(100))
    assert f"ask: the server: {words}" == str(caught.value)
    assert caught.value.is_lasting
    assert caught.value.cause is None  # The server is up.
    assert asking.model.asked.total() <= 5  # only the requests in flight
    assert not asking.found


def test_a_vanished_model_ends_the_attempt_and_keeps_answers() -> None:
    def choose(prompt: str, _: int) -> str | None:
        return "gone" if len(asking.model.answered) >= 50 else None

    asking = Asking(FakeModel(choose=choose), most=4)
    with pytest.raises(StageStoppedError) as caught:
        asking.ask(list_prompts(100))
    assert caught.value.is_lasting
    assert all(isinstance(each, ModelAnswer) for (each,) in asking.found.values())
    assert 46 <= len(asking.found) <= 50


def test_a_vanished_route_is_awaited() -> None:
    broken = range(50, 60)

    def choose(prompt: str, _: int) -> str | None:
        return "no route" if asking.model.asked.total() in broken else None

    asking = Asking(FakeModel(choose=choose), most=4)
    assert all(isinstance(each, ModelAnswer) for each in asking.ask(list_prompts(100)))


@pytest.mark.parametrize("fault", ["reset", "503", "busy", "500", "late"])
def test_an_unreachable_server_is_awaited_reported_once_and_fails_no_row(fault: str) -> None:
    asking = Asking(FakeModel(choose=lambda *_: fault))
    with pytest.raises(
        StageStoppedError, match=r"the server has not responded for \d+ s; last: "
    ) as e:
        asking.ask(list_prompts(10))
    assert not e.value.is_lasting
    assert e.value.cause is Cause.MODEL_UNAVAILABLE
    assert not asking.found
    assert PATIENCE < asking.time.now < PATIENCE + 120
    (line,) = asking.lines
    assert line.startswith("ask: the server: the server has not responded since ")
    assert line.endswith("retrying until 00:10 UTC")


def test_a_stop_keeps_answers_in_flight_and_sends_no_more_requests() -> None:
    faults = {"prompt 0": "reset", "prompt 1": "500"}
    asking = Asking(FakeModel(choose=lambda prompt, _: faults.get(prompt)), most=4)
    stopped = list[int]()

    class Slow(Direct):
        async def post(self, path: str, body: bytes) -> Reply | UnansweredRequest:
            reply = await super().post(path, body)
            if b'"prompt 3"' in body:
                stopped.append(asking.model.asked.total())
                await asyncio.sleep(0.02)  # the answer comes after the stop
            return reply

    asking.poster = Slow(asking.model)
    with pytest.raises(StageInterruptedError):
        asking.ask(list_prompts(100), is_stopping=lambda: bool(stopped))
    assert [asking.model.asked.total()] == stopped
    assert 3 in asking.found
    answered = {at for at, (found,) in asking.found.items() if isinstance(found, ModelAnswer)}
    assert {f"prompt {at}" for at in answered} == set(asking.model.answered) - {PROBE}


def test_a_recovered_server_answers_all_requests() -> None:
    asking = Asking(FakeModel(choose=lambda *_: "reset" if asking.time.now < 300 else None))
    assert all(isinstance(each, ModelAnswer) for each in asking.ask(list_prompts(20)))
    assert len(asking.lines) == 2
    assert asking.lines[1].endswith(
        "the server responds again since 00:05 UTC, after not responding since 00:00 UTC"
    )
    assert asking.time.now < 400


@pytest.mark.parametrize("others", [[], ["a", "b"]])
@pytest.mark.parametrize("fault", ["500", "reset", "late", "no JSON"])
def test_a_row_that_the_server_fails_on_fails_alone(others: list[str], fault: str) -> None:
    asking = Asking(FakeModel(choose=lambda prompt, _: fault if prompt == "poison" else None))
    *good, bad = asking.ask([*others, "poison"])
    assert all(isinstance(each, ModelAnswer) for each in good)
    assert isinstance(bad, RowFault)
    assert bad.kind == "failed"
    assert "3 times" in bad.message
    assert asking.time.now < 60


def test_retry_after_is_respected() -> None:
    times = list[float]()

    def choose(prompt: str, time: int) -> str | None:
        times.append(asking.time.now)
        return "busy for a while" if len(times) == 1 else None

    asking = Asking(FakeModel(choose=choose), most=1)
    asking.ask(list_prompts(5))
    assert times[0] == 0
    assert min(times[1:]) >= 7


def test_a_requested_wait_of_a_day_is_limited_by_the_patience() -> None:
    asking = Asking(FakeModel(choose=lambda *_: "busy for a day"))
    with pytest.raises(StageStoppedError):
        asking.ask(["a"])
    assert PATIENCE < asking.time.now < 3 * PATIENCE


def test_an_answer_that_violates_the_schema_is_repaired() -> None:
    def answer(prompt: str) -> str:
        return "4" if prompt.startswith("That is not") else "four"

    asking = Asking(FakeModel(answer=answer), repairs=1)
    check = {"four": "it is not a number"}.get
    (found,) = asking.ask(["2 + 2"], check)
    assert isinstance(found, ModelAnswer)
    assert found.text == "4"
    assert (14, 6) == (found.prompt_tokens, found.completion_tokens)  # tokens of both requests
    roles = [each["role"] for each in asking.model.bodies[1]["messages"]]
    assert ["user", "assistant", "user"] == roles
    assert "it is not a number" in asking.model.bodies[1]["messages"][2]["content"]


def test_an_answer_that_stays_invalid_is_a_fault() -> None:
    asking = Asking(FakeModel(answer=lambda _: "five"), repairs=2)
    (found,) = asking.ask(["a"], lambda _: "it is not a number")
    why = "the answer is invalid: it is not a number"
    assert RowFault("malformed", why, "five") == found
    assert "Answer again" in asking.model.bodies[1]["messages"][2]["content"]
    assert "ModelAnswer" not in asking.model.bodies[1]["messages"][2]["content"]
    assert asking.model.asked.total() == 3


def test_a_probe_is_the_same_request_with_less_work() -> None:
    body = {"model": MODEL, "seed": 1, "max_completion_tokens": 100, "messages": ["x"]}
    probe = {"role": "user", "content": PROBE}
    shrink = OpenAiProtocol().shrink
    assert {**body, "max_completion_tokens": 1, "messages": [probe]} == shrink(body)
    assert {"model": MODEL, "input": PROBE} == shrink({"model": MODEL, "input": "long"})
    assert json.dumps(body)  # The request itself is unchanged.
    assert body["messages"] == ["x"]


def test_concurrency_grows_with_answers_and_halves_on_push_back() -> None:
    pace = RequestPace(64)
    assert FIRST_LIMIT == pace.limit
    for _ in range(100):
        pace.note_answer(1.0, int(pace.limit))
    assert pace.limit == 64
    pace.note_push_back(begun=5.0, now=6.0, hold=None)
    pace.note_push_back(begun=5.5, now=6.1, hold=None)  # The request was under way at that time.
    assert pace.limit == 32
    pace.note_push_back(begun=7.0, now=8.0, hold=3.0)
    assert (16, 11.0) == (pace.limit, pace.held_until)
    for _ in range(16):
        pace.note_answer(1.0, int(pace.limit))
    assert 16 < pace.limit <= 17  # one more per round of answers
    before = pace.limit
    for _ in range(20):
        pace.note_answer(9.0, int(pace.limit))  # increasingly slow
    assert pace.limit < before + 0.2
    for begun in range(10, 30):
        pace.note_push_back(begun=float(begun), now=float(begun), hold=None)
    assert pace.limit == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "-7"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        (
            {
                "retry-after": "Thu, 26 Nov 2026 10:00:30 GMT",
                "date": "Thu, 26 Nov 2026 10:00:00 GMT",
            },
            30.0,
        ),
        ({"retry-after": "Thu, 26 Nov 2026 10:00:30 GMT"}, None),
    ],
)
def test_retry_after_headers_are_parsed(headers: dict[str, str], seconds: float | None) -> None:
    assert seconds == read_hold(headers)


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_waits_have_a_bound(tries: int, drawn: float) -> None:
    assert 0.5 <= choose_wait(tries, None, drawn) <= 60
