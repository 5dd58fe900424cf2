"""Only known good endings are accepted, so vendors' other endings never reach the log."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fake_model import FakeModel, Fault
from strandline.plan.task import FailedRow, Task
from strandline_packs.models.asking.answers import Endpoint, ModelAnswer, Reply, RowFault
from strandline_packs.models.asking.log.log_blocks import LogEntry, build_block, pack
from strandline_packs.models.asking.log.request_log import FileLog
from strandline_packs.models.asking.rows.requests import RequestBuilder
from strandline_packs.models.asking.traffic.judging import judge
from test_ask_model import SCORE, Asked, texts
from vendor_replies import (
    ANSWERS,
    FAILED_ENDINGS,
    FILTER_ENDINGS,
    GOOD_ENDINGS,
    LENGTH_ENDINGS,
    NO_ANSWERS,
    NO_VECTORS,
    choose,
    embed,
    give,
)

BAD_ENDINGS = [
    *(("cut short", finish) for finish in LENGTH_ENDINGS.values()),
    *(("refused", finish) for finish in FILTER_ENDINGS.values()),
    *(("malformed", finish) for finish in FAILED_ENDINGS.values()),
]


def ask_beside(fault: Fault, folder: Path, **values: Any) -> tuple[list[Any], list[str]]:
    """Send three requests, the middle one with a fault; return logged texts and messages."""
    model = FakeModel(choose=lambda prompt, _: fault if prompt == "bad" else None)
    rows, marks = Asked(model, None, requests=str(folder), **values).run(texts("a", "bad", "c"))
    assert [row["text"] for row in rows] == ["a", "c"]
    assert [mark.row for mark in marks] == [1]
    assert all(mark.msg.encode() and "codec" not in mark.msg for mark in marks)
    assert model.asked["a"] == model.asked["c"] == model.asked["bad"] == 1
    logged = [entry.answer for path in folder.rglob("*.requests") for entry in FileLog(path).read()]
    assert len(logged) == 2
    return logged, [mark.msg for mark in marks]


@pytest.mark.parametrize("finish", GOOD_ENDINGS.values())
def test_known_good_endings_are_accepted(finish: str) -> None:
    verdict = judge(choose("an answer", finish), Endpoint.CHAT)
    assert isinstance(verdict, ModelAnswer)
    assert (verdict.text, verdict.finish) == ("an answer", finish)


@pytest.mark.parametrize(("kind", "finish"), BAD_ENDINGS)
def test_other_endings_fail_the_row(kind: str, finish: str) -> None:
    verdict = judge(choose("and then", finish), Endpoint.CHAT)
    assert isinstance(verdict, RowFault)
    assert verdict.kind == kind
    assert verdict.answer == "and then"
    choice = {"text": "and then", "finish_reason": finish}
    assert judge(give({"choices": [choice]}), Endpoint.COMPLETIONS) == verdict


@pytest.mark.parametrize("finish", ["MAX_TOKENS", "SAFETY", "insufficient_system_resource"])
def test_no_bad_ending_is_in_the_log(finish: str, tmp_path: Path) -> None:
    _, (message,) = ask_beside(choose("and then", finish), tmp_path)
    assert repr(finish) in message


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_invalid_content_is_not_logged(name: str, tmp_path: Path) -> None:
    ask_beside(NO_ANSWERS[name], tmp_path)


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_a_bad_answer_is_kept_for_the_dead_letter(name: str) -> None:
    verdict = judge(NO_ANSWERS[name], Endpoint.CHAT)
    assert isinstance(verdict, RowFault)
    message = json.loads(NO_ANSWERS[name].body)["choices"][0]["message"]
    told = [str(value) for value in message.values() if isinstance(value, str) and value.strip()]
    assert verdict.answer in {*told, "No.", json.dumps(message, ensure_ascii=False), "\udc00"}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_text_of_an_answer_is_found(name: str) -> None:
    reply, text = ANSWERS[name]
    verdict = judge(reply, Endpoint.CHAT)
    assert isinstance(verdict, ModelAnswer)
    assert verdict.text == text


@pytest.mark.parametrize("name", NO_VECTORS)
def test_an_invalid_embedding_is_not_logged(name: str, tmp_path: Path) -> None:
    _, (message,) = ask_beside(NO_VECTORS[name], tmp_path, endpoint="embeddings", textsPerRequest=1)
    assert "the embedding " in message


def test_a_vector_of_whole_numbers_is_an_embedding() -> None:
    verdict = judge(embed([0, 1, -2.5]), Endpoint.EMBEDDINGS)
    assert isinstance(verdict, ModelAnswer)
    assert verdict.vector is not None
    assert verdict.vector.tolist() == [0.0, 1.0, -2.5]


def test_a_lone_surrogate_in_a_field_of_an_answer_is_a_fault(tmp_path: Path) -> None:
    answers = {"a": '{"score": 1}', "bad": '{"score": 1, "why": "\\ud83d"}', "c": '{"score": 2}'}
    model = FakeModel(answer=answers.__getitem__)
    asked = Asked(model, None, requests=str(tmp_path), output={"schema": SCORE})
    rows, (mark,) = asked.run(texts("a", "bad", "c"))
    assert [row["answer_score"] for row in rows] == [1, 2]
    assert "invalid Unicode" in mark.msg
    assert mark.detail == answers["bad"]


def test_server_messages_with_a_lone_surrogate_can_be_written(tmp_path: Path) -> None:
    for reply in (
        choose(None, refusal="No \ud83d"),
        choose("x", "odd \udfff"),
        Reply(400, {}, json.dumps({"error": {"message": "bad \ud83d"}}).encode()),
    ):
        ask_beside(reply, tmp_path)
        shutil.rmtree(tmp_path / "answers")


async def halve(row: dict[str, Any], ask: Any) -> Any:
    """Return half of a surrogate pair for some answers."""
    answer = await ask(row["text"])
    if row["text"] == "raised":
        raise ValueError("\ud83d")
    return {"a": answer.text + ("\ud83d" if row["text"] == "half" else "")}


def test_a_conversation_with_a_lone_surrogate_fails_its_row() -> None:
    asked = Asked(FakeModel(), prompt=None, rollout=f"{__name__}:halve")
    rows, marks = asked.run(texts("a", "half", "raised"))
    assert [row["text"] for row in rows] == ["a"]
    assert "invalid Unicode" in marks[0].msg
    assert marks[1].msg.encode()


async def repeat(row: dict[str, Any], ask: Any) -> str:
    """Send the row's text as the request."""
    return str((await ask(row["text"])).text)


@pytest.mark.parametrize("way", [{}, {"prompt": None, "rollout": f"{__name__}:repeat"}])
def test_a_row_with_invalid_text_fails(way: dict[str, Any]) -> None:
    data = pa.py_buffer(b"ab\xffcd")
    ends = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 1, 3, 5)))
    column = pa.StringArray.from_buffers(3, ends, data)
    asked = Asked(FakeModel(), **way)
    answer = asked.stage.process(Task(pa.table({"text": column})))
    assert isinstance(answer, list)
    (kept,) = (slot for slot in answer if isinstance(slot, Task))
    assert kept.table["answer"].to_pylist() == ["echo: a", "echo: cd"]
    marks = [(slot.row, slot.msg) for slot in answer if isinstance(slot, FailedRow)]
    assert marks == [(1, "column 'text' has invalid Unicode; repair or drop it before")]


def test_bad_answers_kept_by_an_earlier_version_are_requested_again(tmp_path: Path) -> None:
    """The log of an earlier version has bad answers marked as good."""
    bad = {
        "a": ModelAnswer("and then", None, "MAX_TOKENS", 1, 1, "m"),
        "b": ModelAnswer("half \ud83d", None, "stop", 1, 1, "m"),
        "c": ModelAnswer("fine", None, "stop", 1, 1, "m"),
    }
    model = FakeModel()
    asked = Asked(model, None, requests=str(tmp_path))
    builder = RequestBuilder(asked.stage.params, None)
    requests = builder.build(pa.table({"text": list(bad)})).requests
    entries = [
        pack(LogEntry(digest, 0.0, bad["abc"[each.rows[0]]])) for digest, each in requests.items()
    ]
    FileLog(tmp_path / "answers" / "old.requests").append(build_block(entries))
    rows, _ = asked.run(texts(*bad))
    assert [row["answer"] for row in rows] == ["echo: a", "echo: b", "fine"]
    again, _ = Asked(model, None, requests=str(tmp_path)).run(texts(*bad))
    assert again == rows
    assert model.asked == {"a": 1, "b": 1}
