"""Several texts in one request for embeddings: each row gets its own vector, whatever fails."""

from __future__ import annotations

import asyncio
import json
from array import array
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_model import MODEL, PROBE, Direct, FakeModel, Fault, draw_faults
from fake_time import FakeTime
from strandline.plan.task import FailedRow, Lineage, Task
from strandline.stages import AskModel
from strandline_packs.models.asking.answers import Endpoint, ModelAnswer, Reply, RowFault
from strandline_packs.models.asking.traffic.asker import ModelQuestion
from strandline_packs.models.asking.traffic.bundles import Bundler, divide_answer
from strandline_packs.models.asking.traffic.judging import judge


def make_stage(model: FakeModel, folder: Path | None = None, **values: Any) -> AskModel:
    given = {"url": "http://127.0.0.1:9/v1", "model": MODEL, "prompt": "{{ text }}"}
    params = {**given, "endpoint": "embeddings", "tries": 2, **values}
    stage = AskModel(AskModel.Params.model_validate(params))
    stage.volume_folder = folder
    stage.setup()
    stage.open_asker(Direct(model), FakeTime().clock)
    return stage


def run(stage: AskModel, texts: list[str]) -> tuple[pa.Table, list[FailedRow]]:
    task = Task(pa.table({"text": texts}), lineage=Lineage(b"s" * 16, b"t" * 16, "a"))
    answer = stage.process(task)
    slots = answer if isinstance(answer, list) else [answer]
    (table,) = [slot.table for slot in slots if isinstance(slot, Task)]
    return table, [slot for slot in slots if isinstance(slot, FailedRow)]


TEXTS = ["a" * length for length in range(1, 101)]


def test_each_row_gets_its_own_vector_from_few_requests(tmp_path: Path) -> None:
    model = FakeModel()
    table, failed = run(make_stage(model, tmp_path), TEXTS)
    assert failed == []
    assert [row[0] for row in table["answer"].to_pylist()] == list(map(len, TEXTS))
    assert [len(body["input"]) for body in model.bodies] == [32, 32, 32, 4]
    # The tokens that the server reported are divided, not multiplied.
    assert sum(table["answer_prompt_tokens"].to_pylist()) == 4 * 7
    again = FakeModel()
    kept, _ = run(make_stage(again, tmp_path, textsPerRequest=1), TEXTS)
    assert kept["answer"].to_pylist() == table["answer"].to_pylist()
    assert again.bodies == []  # the log has an answer for each text


@pytest.mark.parametrize("accepted", [1, 3, 8])
def test_a_server_that_accepts_fewer_texts_gets_fewer(accepted: int) -> None:
    class Small(FakeModel):
        def reply(self, path: str, body: bytes, key: str | None = None) -> Any:
            texts = json.loads(body)["input"]
            if isinstance(texts, list) and len(texts) > accepted:
                self.rejected = getattr(self, "rejected", 0) + 1
                return Reply(422, {}, b'{"error": {"message": "batch size too large"}}')
            return super().reply(path, body, key)

    model = Small()
    stage = make_stage(model)
    table, failed = run(stage, TEXTS)
    assert (table.num_rows, failed) == (100, [])
    rejected = model.rejected
    run(stage, [f"{text}!" for text in TEXTS])
    assert model.rejected - rejected <= 1  # the stage has learned the size


def test_a_text_that_the_server_rejects_fails_alone() -> None:
    def choose(prompt: str, _: int) -> Fault:
        return "too long" if len(prompt) == 77 else None

    table, failed = run(make_stage(FakeModel(choose=choose)), TEXTS)
    assert [row[0] for row in table["answer"].to_pylist()] == [*range(1, 77), *range(78, 101)]
    assert [mark.row for mark in failed] == [76]


@given(st.integers(0, 10_000), st.integers(1, 40))
def test_law_each_text_has_its_vector_or_a_failed_row(seed: int, most: int) -> None:
    faults = draw_faults(seed, 0.2)
    table, failed = run(make_stage(FakeModel(choose=faults), textsPerRequest=most), TEXTS)
    rows = [int(row[0]) for row in table["answer"].to_pylist()]
    assert sorted([*rows, *(mark.row + 1 for mark in failed)]) == list(range(1, 101))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([{"embedding": [1.0]}], "1 embeddings for 2 texts"),
        ([{"embedding": [1.0]}] * 3, "3 embeddings for 2 texts"),
        ([{"embedding": [1.0]}, {"embedding": [1.0, 2.0]}], "different lengths"),
        ([{"embedding": [1.0]}, {"embedding": [None]}], "at position 0"),
    ],
)
def test_an_answer_that_does_not_fit_its_texts_is_rejected(data: object, words: str) -> None:
    reply = Reply(200, {}, json.dumps({"data": data}).encode())
    verdict = judge(reply, Endpoint.EMBEDDINGS, expected=2)
    assert isinstance(verdict, RowFault)
    assert words in verdict.message


@pytest.mark.parametrize("indices", [[1, 0], [None, None], [0, 0], [{}, {}], [True, False]])
def test_parts_are_ordered_by_their_indices_if_these_are_complete(indices: list[Any]) -> None:
    data = [{"embedding": [float(at)], "index": index} for at, index in enumerate(indices)]
    reply = Reply(200, {}, json.dumps({"data": data}).encode())
    verdict = judge(reply, Endpoint.EMBEDDINGS, expected=2)
    assert isinstance(verdict, ModelAnswer)
    assert verdict.vector == array("d", [1.0, 0.0] if str(indices) == "[1, 0]" else [0.0, 1.0])


@given(st.lists(st.text(max_size=9), min_size=1), st.integers(0, 999), st.integers(1, 5))
def test_law_a_divided_answer_is_the_whole_answer(
    texts: list[str], tokens: int, width: int
) -> None:
    whole = array("d", range(width * len(texts)))
    parts = divide_answer(ModelAnswer("", whole, "stop", tokens, 0, "m"), texts)
    found = [part for part in parts if isinstance(part, ModelAnswer)]
    assert len(found) == len(texts)
    assert sum(part.prompt_tokens for part in found) == tokens
    assert [number for part in found for number in part.vector or ()] == list(whole)


def test_a_bundle_of_one_is_a_plain_request() -> None:
    asked = []

    async def ask(question: ModelQuestion) -> ModelAnswer:
        asked.append(question.body)
        return ModelAnswer("", array("d", [1.0]), "stop", 1, 0, "m")

    asyncio.run(Bundler(8).ask(ask, [ModelQuestion({"input": PROBE})]))
    assert asked == [{"input": PROBE}]


def test_vectors_of_a_declared_size_are_lists_of_that_size() -> None:
    table, failed = run(make_stage(FakeModel(), vectorSize=2), ["a", "bb"])
    assert table["answer"].type == pa.list_(pa.float32(), 2)
    assert failed == []
    stage = make_stage(FakeModel(), vectorSize=3)
    answer = stage.process(
        Task(pa.table({"text": ["a"]}), lineage=Lineage(b"s" * 16, b"t" * 16, "a"))
    )
    assert isinstance(answer, list)
    (mark,) = answer
    assert isinstance(mark, FailedRow)
    assert "has 2 values, and `vectorSize` is 3" in mark.msg
