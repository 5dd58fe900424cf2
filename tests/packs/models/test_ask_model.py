"""The stage `ask-model`: input and output rows with a fake server, over HTTP or directly."""

from __future__ import annotations

import gc
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError
from tokenizers import Tokenizer, models, pre_tokenizers

from fake_model import KEY, MODEL, Direct, FakeModel, serve
from fake_time import FakeTime
from strandline.plan.errors import StageStoppedError
from strandline.plan.stages.columns import Columns
from strandline.plan.task import FailedRow, Lineage, Task
from strandline.stages import AskModel
from strandline_api.outcome.causes import Cause
from strandline_packs.models.asking.log.request_log import FileLog

URL = "http://127.0.0.1:9/v1"
SCORE = {
    "type": "object",
    "properties": {
        "score": {"type": "integer", "minimum": 0, "maximum": 5},
        "why": {"type": ["string", "null"]},
        "tags": {"type": "array"},
    },
    "required": ["score"],
}


class Asked:
    """An initialized stage, and its output for rows."""

    def __init__(self, model: FakeModel, folder: Path | None = None, **values: Any) -> None:
        given = {"url": URL, "model": MODEL, "prompt": "{{ text }}", **values}
        self.stage = AskModel(AskModel.Params.model_validate(given))
        self.stage.volume_folder = folder
        self.stage.setup()
        if given["url"] == URL:
            self.stage.open_asker(Direct(model), FakeTime().clock)

    def run(
        self, rows: list[dict[str, Any]], source: str = "a.jsonl"
    ) -> tuple[list[dict[str, Any]], list[FailedRow]]:
        lineage = Lineage(source.encode().ljust(16, b"."), b"t" * 16, source)
        answer = self.stage.process(Task(pa.Table.from_pylist(rows), lineage=lineage))
        slots = answer if isinstance(answer, list) else [answer]
        tables = [slot.table for slot in slots if isinstance(slot, Task)]
        declared = self.stage.change_columns(Columns(tuple(rows[0])))
        assert all(set(declared.names) == set(table.column_names) for table in tables)
        marks = [slot for slot in slots if isinstance(slot, FailedRow)]
        return [row for table in tables for row in table.to_pylist()], marks


def texts(*values: object) -> list[dict[str, Any]]:
    return [{"text": value} for value in values]


@pytest.fixture
def served() -> Iterator[Callable[[FakeModel], str]]:
    """Serve models until the test ends."""
    opened = []

    def start(model: FakeModel) -> str:
        opened.append(serve(model))
        return opened[-1].__enter__()

    yield start
    for each in opened:
        each.__exit__(None, None, None)


def test_each_row_has_an_answer_in_its_place(served: Callable[[FakeModel], str]) -> None:
    model = FakeModel()
    asked = Asked(model, url=served(model), parameters={"temperature": 0, "seed": 7})
    rows, marks = asked.run(texts(*range(50)))
    assert not marks
    assert [f"echo: {number}" for number in range(50)] == [row["answer"] for row in rows]
    assert {"text": 3, "answer": "echo: 3"}.items() <= rows[3].items()
    counts = {row: rows[0][f"answer_{row}"] for row in ("prompt_tokens", "completion_tokens")}
    assert counts == {"prompt_tokens": 7, "completion_tokens": 3}
    assert rows[0]["answer_finish_reason"] == "stop"
    assert model.bodies[0]["seed"] == 7
    assert asked.stage.counters["requests"] == 50
    asked.stage._loop.close()


def test_a_deleted_stage_leaves_no_connection_and_no_thread(
    served: Callable[[FakeModel], str],
) -> None:
    model = FakeModel()
    asked = Asked(model, url=served(model))
    asked.run(texts("a"))
    thread = asked.stage._loop._thread
    del asked
    gc.collect()  # finalizers may run on any thread, so they do not wait for other threads
    thread.join(60)
    assert not thread.is_alive()


def test_requests_with_partial_answers_or_lost_connections_are_retried(
    served: Callable[[FakeModel], str],
) -> None:
    model = FakeModel(choose=lambda prompt, time: "half" if time == 1 and prompt == "1" else None)
    asked = Asked(model, url=served(model))
    rows, marks = asked.run(texts("0", "1", "2"))
    assert (3, []) == (len(rows), marks)
    assert model.asked["1"] == 2
    asked.stage._loop.close()


def test_an_unreachable_server_ends_the_attempt_after_the_patience() -> None:
    asked = Asked(FakeModel(), url="http://127.0.0.1:1/v1", patience=0.001)
    with pytest.raises(
        StageStoppedError, match=r"127\.0\.0\.1:1/v1: the server has not responded for"
    ) as e:
        asked.run(texts("a"))
    assert e.value.cause is Cause.MODEL_UNAVAILABLE
    asked.stage._loop.close()


def test_the_key_is_sent_to_the_server_but_never_printed(
    served: Callable[[FakeModel], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FakeModel(key=KEY)
    monkeypatch.setenv("ASKED", KEY)
    asked = Asked(model, url=served(model), key={"env": "ASKED"})
    rows, _ = asked.run(texts("a"))
    assert rows[0]["answer"] == "echo: a"
    model.key = "another"
    with pytest.raises(StageStoppedError, match="rejects the key") as caught:
        asked.run(texts("b"))
    assert caught.value.is_lasting
    assert KEY not in str(caught.value)
    assert "***" in str(caught.value)  # The server has echoed the key.
    assert caught.value.__cause__ is None
    copied = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - it is our own
    assert copied.is_lasting  # true in a copy from another process too
    asked.stage._loop.close()


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASKED", raising=False)
    with pytest.raises(ValueError, match="the environment variable ASKED has no key for"):
        Asked(FakeModel(), key={"env": "ASKED"})


def test_failed_rows_are_named_and_others_continue() -> None:
    faults = {"b": "cut short", "d": "refused", "e": "too long"}
    asked = Asked(FakeModel(choose=lambda prompt, _: faults.get(prompt)))
    rows, marks = asked.run(texts("a", "b", "c", "d", "e", None))
    assert ["a", "c", None] == [row["text"] for row in rows]
    assert [1, 3, 4] == [mark.row for mark in marks]
    for mark, words in zip(marks, ("cut short", "refuses to answer", "maximum"), strict=True):
        assert words in mark.msg
    counted = {name: n for name, n in asked.stage.counters.items() if name.startswith("failed")}
    assert counted == {"failed: cut short": 1, "failed: refused": 1, "failed: unfit": 1}


def test_equal_rows_are_one_request() -> None:
    model = FakeModel()
    rows, _ = Asked(model).run(texts("a", "b", "a"))
    assert ["echo: a", "echo: b", "echo: a"] == [row["answer"] for row in rows]
    assert model.asked == {"a": 1, "b": 1}


def test_logged_requests_are_not_repeated(tmp_path: Path) -> None:
    model = FakeModel(choose=lambda prompt, time: "cut short" if prompt == "b" else None)
    first, _ = Asked(model, tmp_path).run(texts("a", "b", "c"))
    (path,) = (tmp_path / "requests" / "ask-model").rglob("*.requests")
    assert len(list(FileLog(path).read())) == 2  # the truncated answer is not kept
    model.choose = lambda *_: None
    again = Asked(model, tmp_path)
    second, marks = again.run(texts("a", "b", "c"))
    assert not marks
    assert [first[0], first[1]] == [second[0], second[2]]
    assert model.asked == {"a": 1, "b": 2, "c": 1}
    assert again.stage.counters["requests answered by the log"] == 2
    Asked(model, tmp_path, parameters={"seed": 1}).run(texts("a"))
    assert model.asked["a"] == 2  # a different request


def test_answers_are_kept_if_the_server_ends_the_attempt(tmp_path: Path) -> None:
    model = FakeModel()
    model.choose = lambda *_: "gone" if len(model.answered) >= 5 else None
    with pytest.raises(StageStoppedError):
        Asked(model, tmp_path, concurrency=1).run(texts(*range(9)))
    (path,) = tmp_path.rglob("*.requests")
    assert len(list(FileLog(path).read())) == 5


def test_a_schema_is_sent_checked_and_becomes_columns() -> None:
    answers = {"a": '{"score": 4, "why": "x", "tags": [1]}', "b": '{"score": 9}', "c": "Sure! {"}
    model = FakeModel(answer=answers.__getitem__)
    asked = Asked(model, output={"schema": SCORE})
    rows, marks = asked.run(texts("a", "b", "c"))
    assert [(4, "x", answers["a"])] == [
        (row["answer_score"], row["answer_why"], row["answer"]) for row in rows
    ]
    assert [1, 2] == [mark.row for mark in marks]
    assert "$.score: 9 is greater than the maximum of 5" in marks[0].msg
    assert "it is not JSON" in marks[1].msg
    sent = model.bodies[0]["response_format"]
    assert SCORE == sent["json_schema"]["schema"]
    params = Asked(model, output={"schema": SCORE, "sendAs": "json_object"}).stage.params
    form = {"response_format": {"type": "json_object", "schema": SCORE}}
    assert form == params.find_response_format()
    unsent = Asked(model, output={"schema": SCORE, "sendAs": "unsent"}).stage.params
    assert not unsent.find_response_format()


def test_images_precede_the_prompt() -> None:
    model = FakeModel()
    asked = Asked(model, images=["picture"], system="Look.")
    rows, marks = asked.run(
        [{"text": "a", "picture": b"\x89PNG..."}, {"text": "b", "picture": b"what?"}]
    )
    assert ["a"] == [row["text"] for row in rows]
    assert [(1, "a picture is neither PNG, JPEG, GIF, BMP nor WebP")] == [
        (mark.row, mark.msg) for mark in marks
    ]
    system, user = model.bodies[0]["messages"]
    assert system == {"role": "system", "content": "Look."}
    assert ["image_url", "text"] == [part["type"] for part in user["content"]]
    assert user["content"][0]["image_url"]["url"].startswith("data:image/png;base64,iVBO")


@pytest.mark.parametrize("endpoint", ["completions", "embeddings"])
def test_other_endpoints_of_the_protocol_are_supported(endpoint: str) -> None:
    rows, _ = Asked(FakeModel(), endpoint=endpoint).run(texts("abc"))
    assert rows[0]["answer"] == ([3.0, 0.5] if endpoint == "embeddings" else "echo: abc")


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    """Write a tokenizer file that makes a token of each word."""
    words = {f"w{number}": number for number in range(20)}
    made = Tokenizer(models.WordLevel({**words, "?": 20}, unk_token="?"))  # noqa: S106 - no secret
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("way", ["truncate", "drop", "fail"])
def test_an_overlong_prompt_is_never_sent(tokenizer: str, way: str) -> None:
    model = FakeModel()
    limit: dict[str, Any] = {"tokenizer": tokenizer, "maxPromptTokens": 4, "system": "w9"}
    rows, marks = Asked(model, tooLong=way, **limit).run(texts("w1 w2 w3", "w1 w2  w3 w4 w5"))
    sent = {"w1 w2 w3", "w1 w2  w3"} if way == "truncate" else {"w1 w2 w3"}
    assert sent == set(model.asked)
    assert len(rows) == len(sent)
    expected = [(1, "the prompt has 6 tokens; the limit is 4")] if way == "fail" else []
    assert expected == [(mark.row, mark.msg) for mark in marks]


def test_a_task_without_remaining_rows_is_filtered(tokenizer: str) -> None:
    limit: dict[str, Any] = {"tokenizer": tokenizer, "maxPromptTokens": 1, "tooLong": "drop"}
    asked = Asked(FakeModel(), **limit)
    assert asked.stage.process(Task(pa.table({"text": ["w1 w2"]}))) is None
    assert asked.stage.counters["dropped: too long"] == 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"url": "ftp://a"}, "must begin with http"),
        ({"url": "http://me:secret@a/v1"}, "no name, password or query"),
        ({"url": "http://a/v1?key=s"}, "no name, password or query"),
        ({"key": {"env": "sk-123"}}, "not the key itself"),
        ({"key": "sk-123"}, "key"),
        ({"prompt": "{{ text"}, r"not a readable template: .*\(line 1\)"),
        ({"parameters": {"stream": True}}, "must not contain 'stream'"),
        ({"endpoint": "embeddings", "system": "x"}, "`system` requires `endpoint: chat`"),
        ({"output": {"schema": {"type": "array"}}}, "describe an object"),
        ({"output": {"schema": {"type": "thing"}}}, "not a JSON schema"),
        ({"output": {"schema": {"type": "object", "properties": {"prompt_tokens": {}}}}}, "adds"),
        ({"maxPromptTokens": 5}, "must be set together"),
    ],
)
def test_invalid_requests_are_named_during_planning(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        AskModel.Params.model_validate({"url": URL, "model": MODEL, "prompt": "a", **values})


def test_columns_of_a_prompt_are_known_before_a_run() -> None:
    values = {"prompt": "{% for w in words %}{{ w }} {{ title|upper }}{% endfor %}{{ range(3) }}"}
    params = AskModel.Params.model_validate(
        {"url": URL, "model": MODEL, "images": ["image.bytes"], **values}
    )
    assert ("title", "words", "image") == AskModel(params).list_needed_columns()


OWN_NAMES = ("range", "dict", "cycler", "joiner", "namespace", "lipsum", "self")


@pytest.mark.parametrize("name", OWN_NAMES)
@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("{{ NAME }}", "7"),
        ("{{ NAME }} of {{ range(3)|list }}{{ dict(a=1).a }}", "7 of [0, 1, 2]1"),
        ("{% for n in range(2) %}{{ NAME + n }}{% endfor %}", "78"),
        ("{% if NAME is defined %}{{ NAME|string|length }}{% endif %}", "1"),
        ("{% set NAME = 3 %}{{ NAME }}", "3"),
        ("{% for NAME in [1, 2] %}{{ NAME }}{% endfor %}", "12"),
        ("{% macro show(NAME) %}{{ NAME }}{% endmacro %}{{ show(5) }}", "5"),
    ],
)
def test_columns_may_have_names_of_jinja_globals(name: str, prompt: str, expected: str) -> None:
    model = FakeModel()
    asked = Asked(model, prompt=prompt.replace("NAME", name))
    rows, marks = asked.run([{"text": "a", name: 7}])
    assert not marks
    assert [f"echo: {expected}"] == [row["answer"] for row in rows]


def test_blocks_of_a_template_are_not_columns() -> None:
    prompt = "{% block head %}{{ text }}{% endblock %} {{ self.head() }}"
    rows, _ = Asked(FakeModel(), prompt=prompt).run(texts("a"))
    assert [row["answer"] for row in rows] == ["echo: a a"]


@pytest.mark.parametrize(
    "prompt",
    ["{{ text.__class__.__mro__ }}", "{{ text.missing }}", "{{ 1 / (text|length - 1) }}"],
)
def test_a_template_that_can_t_be_filled_fails_its_row(prompt: str) -> None:
    _, marks = Asked(FakeModel(), prompt=prompt).run(texts("a"))
    assert ["no prompt can be made from it"] == [mark.msg.partition(":")[0] for mark in marks]


def test_the_fingerprint_covers_only_parameters_that_decide_answers() -> None:
    names = {
        name for name in AskModel.Params.model_fields if name not in AskModel.not_fingerprinted
    }
    assert {"model", "prompt", "system", "parameters", "output", "endpoint", "images"} <= names
    assert not {"url", "key", "requests", "concurrency", "outage_limit"} & names
    assert json.dumps(SCORE)
