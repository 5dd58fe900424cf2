"""Several servers: requests are shared by weight, and never wait for a server that is down."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fake_model import KEY, MODEL, FakeModel, serve
from fake_time import FakeTime
from strandline.plan.errors import StageStoppedError
from strandline.plan.task import Lineage, Task
from strandline.stages import AskModel
from strandline_packs.models.asking.answers import Reply, UnansweredRequest
from strandline_packs.models.asking.traffic.server_group import GroupMember, ServerGroup

GOOD = Reply(200, {}, b"{}")


class Switch:
    """A server that gives a fixed reply, and counts requests."""

    def __init__(self, reply: Reply | UnansweredRequest = GOOD) -> None:
        self.reply, self.asked = reply, 0

    async def post(self, path: str, body: bytes) -> Reply | UnansweredRequest:
        self.asked += 1
        return self.reply

    async def close(self) -> None:
        pass


class Group:
    """A group of switches, with time that passes at once."""

    def __init__(self, *weights: int, fallbacks: int = 0) -> None:
        self.time, self.lines = FakeTime(), list[str]()
        self.switches = [Switch() for _ in range(len(weights) + fallbacks)]
        members = [
            GroupMember(f"http://{at}", switch, weight, at >= len(weights))
            for at, (switch, weight) in enumerate(
                zip(self.switches, (*weights, *[1] * fallbacks), strict=True)
            )
        ]
        self.group = ServerGroup(members, "ask", self.time.clock.now, self.lines.append)

    def post(self, times: int = 1) -> list[int]:
        """Post requests, and return how many each server got."""
        before = [each.asked for each in self.switches]

        async def post_all() -> None:
            for _ in range(times):
                await self.group.post("chat/completions", b"")

        asyncio.run(post_all())
        return [each.asked - old for each, old in zip(self.switches, before, strict=True)]

    def wait(self, seconds: float) -> None:
        asyncio.run(self.time.sleep(seconds))


@given(st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_law_requests_are_shared_exactly_by_weight(weights: list[int]) -> None:
    assert Group(*weights).post(3 * sum(weights)) == [3 * weight for weight in weights]


def test_a_heavy_server_gets_no_burst() -> None:
    group = Group(5, 1, 1)
    seen = [tuple(group.post()) for _ in range(7)]
    assert Counter(seen)[1, 0, 0] == 5
    assert (1, 0, 0) in seen[4:]


FAILURES = [
    UnansweredRequest("the connection was refused", was_sent=False),
    *(Reply(status, {}, b"") for status in (401, 403, 404, 429, 500, 502, 503, 529)),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda each: str(each)[:30])
def test_a_server_that_fails_is_passed_over_and_tried_again(failure: Any) -> None:
    group = Group(1, 1)
    group.switches[0].reply = failure
    assert group.post(10) == [1, 10]  # the first request went on to the second server
    assert len(group.lines) == 1
    assert "http://0 does not answer" in group.lines[0]
    group.wait(1.5)
    group.switches[0].reply = GOOD
    assert group.post(10) == [5, 5]
    assert group.lines[1:] == ["ask: the server http://0 responds again"]


def test_a_fallback_gets_requests_only_while_the_others_fail() -> None:
    group = Group(1, 1, fallbacks=1)
    assert group.post(10)[2] == 0
    for switch in group.switches[:2]:
        switch.reply = Reply(503, {"retry-after": "30"}, b"")
    assert group.post(10)[2] == 10
    group.wait(20)  # the pause that the servers asked for is not over
    assert group.post(10) == [0, 0, 10]
    group.wait(20)
    for switch in group.switches[:2]:
        switch.reply = GOOD
    assert group.post(10) == [5, 5, 0]


def test_if_all_fail_the_last_reply_is_returned_and_each_was_asked_once() -> None:
    group = Group(1, 1, fallbacks=1)
    for switch in group.switches:
        switch.reply = Reply(500, {}, b"")
    assert group.post() == [1, 1, 1]
    assert sum(group.post()) == 1  # all are passed over, so one is tried and the caller waits


def test_a_rejected_request_is_not_sent_to_further_servers() -> None:
    group = Group(1, 1)
    for switch in group.switches:
        switch.reply = Reply(400, {}, b"")
    assert sum(group.post()) == 1


def test_a_request_that_timed_out_is_not_repeated_at_once() -> None:
    group = Group(1, 1)
    group.switches[0].reply = UnansweredRequest("no answer within 600 s", is_late=True)
    assert group.post() == [1, 0]
    assert group.post(3) == [0, 3]


def make_stage(folder: Path, servers: list[dict[str, Any]], **values: Any) -> AskModel:
    given = {"servers": servers, "model": MODEL, "prompt": "{{ text }}", **values}
    stage = AskModel(AskModel.Params.model_validate(given))
    stage.volume_folder = folder
    stage.setup()
    return stage


def run(stage: AskModel, count: int) -> list[str]:
    table = pa.table({"text": [f"prompt {at}" for at in range(count)]})
    task = stage.process(Task(table, lineage=Lineage(b"s" * 16, b"t" * 16, "a")))
    assert isinstance(task, Task)
    return [str(each) for each in task.table["answer"].to_pylist()]


def test_a_stage_shares_rows_among_servers_with_their_keys_and_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRST_KEY", KEY)
    monkeypatch.setenv("TEAM", "sk-of-the-team")
    first, second = FakeModel(key=KEY), FakeModel()
    with serve(first) as one, serve(second) as two:
        servers: list[dict[str, Any]] = [
            {"url": one, "weight": 3, "key": {"env": "FIRST_KEY"}},
            {"url": two},
        ]
        stage = make_stage(tmp_path, servers, headers={"x-team": {"env": "TEAM"}, "x-job": "7"})
        assert len(run(stage, 40)) == 40
        assert (len(first.answered), len(second.answered)) == (30, 10)
        assert stage._hide("a sk-of-the-team b " + KEY) == "a *** b ***"
        assert first.headers[-1]["x-team"] == "sk-of-the-team"
        assert second.headers[-1]["x-job"] == "7"
        assert "authorization" not in second.headers[-1]


def test_a_stage_continues_if_one_of_its_servers_is_down(tmp_path: Path) -> None:
    model = FakeModel()
    with serve(model) as url:
        stage = make_stage(tmp_path, [{"url": "http://127.0.0.1:9/v1"}, {"url": url}])
        assert len(run(stage, 20)) == 20
    assert model.asked.total() == 20


def test_a_stage_ends_the_attempt_if_all_servers_refuse_the_key(tmp_path: Path) -> None:
    model = FakeModel(key="another")
    with serve(model) as one, serve(model) as two:
        stage = make_stage(tmp_path, [{"url": one}, {"url": two}])
        with pytest.raises(StageStoppedError, match="rejects the key"):
            run(stage, 4)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"url": "http://b/v1"}, "or `servers`"),
        ({"servers": [{"url": "http://a", "fallback": True}]}, "at least one without `fallback`"),
        ({"servers": [{"url": "ftp://a"}]}, "must begin with http"),
        ({"servers": [{"url": "http://a", "weight": 0}]}, "greater than or equal to 1"),
        ({"headers": {"a b": "c"}}, "not the name of a header"),
        ({"headers": {"Authorization": "Bearer a"}}, "set by `key`"),
        ({"headers": {"x-a": "b\nc"}}, "printable ASCII"),
    ],
)
def test_impossible_servers_and_headers_are_named_during_planning(
    values: dict[str, Any], words: str
) -> None:
    given = {"servers": [{"url": "http://a/v1"}], "model": MODEL, "prompt": "a", **values}
    with pytest.raises(ValidationError, match=words):
        AskModel.Params.model_validate(given)
