"""Conversations about rows: functions of the user, whose requests are logged individually."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fake_model import MODEL, FakeModel
from strandline.plan.errors import BudgetSpentError
from strandline.stages import AskModel
from test_ask_model import URL, Asked, texts

SCHEMA = {
    "type": "object",
    "properties": {"question": {"type": "string"}, "score": {"type": "integer"}},
    "required": ["question"],
}


async def summarize_twice(row: dict[str, Any], ask: Any) -> str:
    """Make two requests, of which the second includes the first answer."""
    first = await ask(f"first {row['text']}")
    messages = [
        {"role": "user", "content": f"first {row['text']}"},
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": f"second {row['text']}"},
    ]
    second = await ask(messages, temperature=0.5)
    return f"{first.text} / {second.text}"


async def make_question(row: dict[str, Any], ask: Any) -> dict[str, Any] | None:
    """Return a JSON object, or None for an empty text."""
    if not row["text"]:
        return None
    answer = await ask(row["text"])
    return {"question": answer.text, "score": row.get("score", 3)}


async def swallow(row: dict[str, Any], ask: Any) -> str:
    """Continue after any error."""
    try:
        return str((await ask(row["text"])).text)
    except Exception:  # noqa: BLE001 - as users write it
        return "nothing"


async def break_down(row: dict[str, Any], ask: Any) -> str:
    """Fail on some rows."""
    await ask(row["text"])
    return str(row["missing"])


def converse(model: FakeModel, name: str, folder: Path | None = None, **more: Any) -> Asked:
    return Asked(model, folder, prompt=None, rollout=f"{__name__}:{name}", **more)


def test_a_conversation_may_make_any_number_of_requests() -> None:
    model = FakeModel()
    rows, marks = converse(model, "summarize_twice", parameters={"seed": 7}).run(texts("a", "b"))
    assert not marks
    assert [row["answer"] for row in rows] == [
        f"echo: first {text} / echo: second {text}" for text in "ab"
    ]
    assert [row["answer_prompt_tokens"] for row in rows] == [14, 14]
    assert model.asked == {"first a": 1, "first b": 1, "second a": 1, "second b": 1}
    assert {body.get("temperature") for body in model.bodies} == {None, 0.5}
    assert {body["seed"] for body in model.bodies} == {7}


def test_each_request_of_a_conversation_is_logged(tmp_path: Path) -> None:
    model = FakeModel(choose=lambda prompt, _: "refused" if prompt == "second b" else None)
    rows, marks = converse(model, "summarize_twice", tmp_path).run(texts("a", "b"))
    assert [row["text"] for row in rows] == ["a"]
    assert [mark.row for mark in marks] == [1]
    assert "refuses to answer" in marks[0].msg
    model.choose = lambda prompt, _: None
    again = converse(model, "summarize_twice", tmp_path)
    rows, marks = again.run(texts("a", "b"))
    assert [row["text"] for row in rows] == ["a", "b"]
    assert model.asked == {"first a": 1, "first b": 1, "second a": 1, "second b": 2}
    assert again.stage.counters["requests answered by the log"] == 3


def test_equal_requests_of_rows_are_sent_once(tmp_path: Path) -> None:
    model = FakeModel()
    rows, _ = converse(model, "summarize_twice", tmp_path).run(texts("a", "a", "a"))
    assert len(rows) == 3
    assert set(model.asked.values()) == {1}


def test_results_of_a_conversation_are_validated_by_the_schema() -> None:
    asked = converse(FakeModel(), "make_question", output={"schema": SCHEMA})
    rows, marks = asked.run([{"text": "a", "score": 1}, {"text": "", "score": 1}])
    assert not marks
    (row,) = rows
    assert row["answer_question"] == "echo: a"
    assert row["answer_score"] == 1
    assert json.loads(row["answer"]) == {"question": "echo: a", "score": 1}
    assert asked.stage.counters["dropped: by the conversation"] == 1
    rows, (mark,) = asked.run([{"text": "b", "score": "high"}])
    assert not rows
    assert "an invalid value: $.score: 'high' is not of type 'integer'" in mark.msg
    assert json.loads(mark.detail) == {"question": "echo: b", "score": "high"}


def test_a_row_whose_function_raises_fails_alone() -> None:
    asked = converse(FakeModel(), "break_down")
    rows, marks = asked.run([{"text": "a", "missing": "x"}])
    assert (len(rows), marks) == (1, [])
    rows, marks = asked.run(texts("a"))
    assert not rows
    assert "the conversation raised KeyError: 'missing'" in marks[0].msg
    assert marks[0].detail == "echo: a"
    assert asked.stage.counters["failed: raised"] == 1


def test_a_function_that_catches_everything_does_not_hide_a_spent_budget(tmp_path: Path) -> None:
    asked = converse(FakeModel(), "swallow", tmp_path, budget={"requests": 3})
    with pytest.raises(BudgetSpentError):
        asked.run(texts(*"abcdef"))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "set either `prompt` or `rollout`"),
        ({"prompt": "a", "rollout": "m:f"}, "set either `prompt` or `rollout`"),
        ({"rollout": "nothing_there:f"}, "'nothing_there' can't be imported"),
        ({"rollout": f"{__name__}:texts"}, "has no `async def texts"),
        ({"rollout": f"{__name__}:swallow", "system": "a"}, "`system` requires `prompt`"),
        ({"rollout": "swallow"}, "is `module:function`"),
    ],
)
def test_invalid_conversations_are_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        AskModel.Params.model_validate({"url": URL, "model": MODEL, **values})


def test_changed_code_of_the_function_changes_the_pipeline() -> None:
    def digest(name: str) -> str:
        return converse(FakeModel(), name).stage.digest_inputs()["rollout"]

    assert digest("swallow") == digest("swallow") != digest("break_down")
