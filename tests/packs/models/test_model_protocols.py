"""Protocols of model servers: their request bodies, and verdicts on responses."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from fake_time import FakeTime
from strandline.plan.errors import StageStoppedError
from strandline.plan.task import FailedRow, Lineage, Task
from strandline.stages import AskModel
from strandline_packs.models.asking.answers import (
    Endpoint,
    ModelAnswer,
    Reply,
    RowFault,
    ServerRefusal,
    Setback,
    Unfit,
    Usage,
)
from strandline_packs.models.asking.protocols.index import PROTOCOLS, find_protocol
from strandline_packs.models.asking.protocols.port import RowQuestion
from strandline_packs.models.asking.traffic.judging import find_usage, judge

PNG = b"\x89PNG rest"
CLAUDE = find_protocol(Endpoint.MESSAGES)


def answer(text: str, stop: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    """Return an answer in the format of Anthropic's documentation."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-1",
        "content": [{"type": "text", "text": text}],
        "stop_reason": stop,
        "usage": {"input_tokens": 5, "output_tokens": 2},
        **more,
    }


def refuse(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def reply(body: object, status: int = 200) -> Reply:
    return Reply(status, {}, json.dumps(body).encode())


def test_each_endpoint_has_one_protocol() -> None:
    endpoints = [endpoint for protocol in PROTOCOLS for endpoint in protocol.paths]
    assert sorted(endpoints) == sorted(Endpoint)


def test_a_body_has_the_form_of_its_protocol() -> None:
    question = RowQuestion("hello", "be brief", [PNG])
    body = CLAUDE.build_body(Endpoint.MESSAGES, "claude-1", {"temperature": 0}, question)
    source = {"media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    picture = {"type": "image", "source": {"type": "base64", **source}}
    text = {"type": "text", "text": "hello"}
    assert body == {
        "model": "claude-1",
        "max_tokens": 4096,
        "temperature": 0,
        "system": "be brief",
        "messages": [{"role": "user", "content": [picture, text]}],
    }
    chat = find_protocol(Endpoint.CHAT).build_body(Endpoint.CHAT, "gpt-1", {}, question)
    url = f"data:image/png;base64,{source['data']}"
    assert chat == {
        "model": "gpt-1",
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": url}}, text],
            },
        ],
    }


def test_a_users_limit_replaces_the_default() -> None:
    body = CLAUDE.build_body(Endpoint.MESSAGES, "m", {"max_tokens": 9}, RowQuestion("x"))
    assert body["max_tokens"] == 9
    assert "system" not in body
    probe = CLAUDE.shrink(body)
    assert (probe["max_tokens"], probe["messages"]) == (1, [{"role": "user", "content": "."}])
    assert CLAUDE.shrink(body, is_short=False)["max_tokens"] == 9


@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.MESSAGES])
def test_a_repair_request_has_a_fixed_text(endpoint: Endpoint) -> None:
    protocol = find_protocol(endpoint)
    body = protocol.build_body(endpoint, "m", {}, RowQuestion("score it"))
    *_, former, wanted = protocol.complain(body, "five", "no number")["messages"]
    assert former == {"role": "assistant", "content": "five"}
    says = "That is not what was asked for: no number. Answer again, with nothing else."
    assert wanted == {"role": "user", "content": says}
    assert len(body["messages"]) == 1


def test_headers_have_the_key_where_the_protocol_looks_for_it() -> None:
    assert CLAUDE.list_headers("k") == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert CLAUDE.list_headers(None) == {"anthropic-version": "2023-06-01"}
    chat = find_protocol(Endpoint.CHAT)
    assert (chat.list_headers("k"), chat.list_headers(None)) == ({"authorization": "Bearer k"}, {})


def test_a_good_answer_is_read_with_its_tokens() -> None:
    verdict = judge(reply(answer("hi")), Endpoint.MESSAGES)
    assert verdict == ModelAnswer("hi", None, "end_turn", 5, 2, "claude-1")
    cached = {"input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 2}
    found = judge(reply(answer("hi", usage=cached)), Endpoint.MESSAGES)
    assert isinstance(found, ModelAnswer)
    assert (found.prompt_tokens, found.completion_tokens) == (105, 2)


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (answer("hi", "max_tokens"), 200, RowFault),
        (answer("", "refusal"), 200, RowFault),
        (answer("hi", "tool_use"), 200, RowFault),
        (answer("hi", None), 200, Setback),
        ({**answer("hi"), "content": []}, 200, RowFault),
        ({"choices": []}, 200, Setback),
        ("nothing", 200, Setback),
        (refuse("overloaded_error", "Overloaded"), 529, Setback),
        (refuse("overloaded_error", "Overloaded"), 200, Setback),
        (refuse("rate_limit_error", "slow down"), 429, Setback),
        (refuse("api_error", "internal"), 500, Setback),
        (refuse("invalid_request_error", "max_tokens: too large"), 400, Unfit),
        (refuse("authentication_error", "invalid x-api-key"), 401, ServerRefusal),
        (refuse("permission_error", "no"), 403, ServerRefusal),
        (refuse("not_found_error", "model: claude-0"), 404, ServerRefusal),
    ],
)
def test_other_answers_get_their_verdict(body: object, status: int, kind: type) -> None:
    assert isinstance(judge(reply(body, status), Endpoint.MESSAGES), kind)


def test_tokens_that_are_not_reported_are_estimated() -> None:
    bare = {key: value for key, value in answer("hi").items() if key != "usage"}
    answered = reply(bare)
    verdict = judge(answered, Endpoint.MESSAGES)
    usage = find_usage(answered, verdict, b"x" * 40, 0, Endpoint.MESSAGES)
    assert (usage.prompt, usage.is_known) == (10, False)
    reported = reply(answer("hi", "max_tokens"))
    found = find_usage(reported, judge(reported, Endpoint.MESSAGES), b"", 0, Endpoint.MESSAGES)
    assert found == Usage(5, 2)


class Messages:
    """A local server with Anthropic's protocol; it repeats its last answer."""

    def __init__(self, *bodies: tuple[int, object]) -> None:
        self.bodies, self.asked = list(bodies), list[tuple[str, Mapping[str, Any]]]()

    async def post(self, path: str, body: bytes) -> Reply:
        self.asked.append((path, json.loads(body)))
        status, answer = self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]
        return reply(answer, status)


def make_stage(server: Messages, folder: Path | None = None, **values: Any) -> AskModel:
    given = {"url": "http://127.0.0.1:9/v1", "model": "claude-1", "prompt": "{{ text }}"}
    params = AskModel.Params.model_validate({**given, "endpoint": "messages", **values})
    stage = AskModel(params)
    stage.volume_folder = folder
    stage.setup()
    stage.open_asker(server, FakeTime().clock)
    return stage


def run(stage: AskModel, *texts: str) -> list[Any]:
    lineage = Lineage(b"s" * 16, b"t" * 16, "a")
    found = stage.process(Task(pa.table({"text": list(texts)}), lineage=lineage))
    stage._loop.close()
    return found if isinstance(found, list) else [found]


def test_a_row_is_answered_by_the_messages_api(tmp_path: Path) -> None:
    server = Messages((529, refuse("overloaded_error", "Overloaded")), (200, answer("good")))
    (task,) = run(make_stage(server, tmp_path, system="be brief"), "hello")
    assert {path for path, _ in server.asked} == {"messages"}
    assert len(server.asked) > 1
    assert server.asked[0][1]["system"] == "be brief"
    row = task.table.to_pylist()[0]
    assert (row["answer"], row["answer_finish_reason"]) == ("good", "end_turn")
    assert (row["answer_prompt_tokens"], row["answer_completion_tokens"]) == (5, 2)
    again = Messages()
    (kept,) = run(make_stage(again, tmp_path, system="be brief"), "hello")
    assert (kept.table.to_pylist()[0]["answer"], again.asked) == ("good", [])


def test_an_answer_that_violates_the_schema_is_sent_back() -> None:
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
    server = Messages((200, answer("five")), (200, answer('{"score": 5}')))
    (task,) = run(make_stage(server, output={"schema": schema, "repairs": 1}), "hello")
    assert task.table.to_pylist()[0]["answer_score"] == 5
    assert "response_format" not in server.asked[0][1]
    assert "Answer again" in server.asked[1][1]["messages"][-1]["content"]


def test_a_refused_row_fails_alone_and_a_refused_key_ends_the_attempt() -> None:
    (failed,) = run(make_stage(Messages((200, answer("", "refusal")))), "bad")
    assert isinstance(failed, FailedRow)
    barred = (401, refuse("authentication_error", "invalid x-api-key"))
    with pytest.raises(StageStoppedError, match="the server rejects the key"):
        run(make_stage(Messages(barred)), "x")


def test_a_conversation_needs_the_chat_endpoint() -> None:
    values = {"url": "http://h/v1", "model": "m", "rollout": "json:dumps", "endpoint": "messages"}
    with pytest.raises(ValidationError, match="`rollout` requires `endpoint: chat`"):
        AskModel.Params.model_validate(values)
