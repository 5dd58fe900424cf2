"""Requests in batches: each row is answered or fails once, and no batch is paid for twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from batch_vendors import CANCELLED, EXPIRED, Anthropic, OpenAi, Vendor
from fake_model import MODEL, FakeModel, Fault
from fake_time import FakeTime
from strandline.plan.errors import (
    BudgetSpentError,
    StageInterruptedError,
    StageStoppedError,
)
from strandline.plan.task import FailedRow, Lineage, Task
from strandline.stages import AskModel
from strandline_api.outcome.causes import Cause
from strandline_packs.models.asking.answers import Reply, UnansweredRequest
from strandline_packs.models.asking.traffic.batches.openai import OpenAiBatches
from strandline_packs.models.asking.traffic.batches.records import BatchRecord, BatchRecords

VENDORS = [OpenAi, Anthropic]
TEXTS = [f"prompt {at}" for at in range(20)]
URL = "http://127.0.0.1:9/v1"


class BatchedStage:
    """A stage that asks a vendor in this process, with time that passes at once."""

    def __init__(self, vendor: Vendor, folder: Path | None, **values: Any) -> None:
        endpoint = "messages" if isinstance(vendor, Anthropic) else "chat"
        given = {"url": URL, "model": MODEL, "prompt": "{{ text }}", "endpoint": endpoint}
        self.params = AskModel.Params.model_validate({**given, "batch": {}, "tries": 2, **values})
        self.vendor, self.time, self.lines = vendor, FakeTime(), list[str]()
        self.is_stopping = False
        self.stage = AskModel(self.params)
        self.stage.volume_folder = folder
        self.stage.setup()
        self.stage.report = self.lines.append
        self.stage.is_stopping = lambda: self.is_stopping
        self.stage.open_asker(vendor, self.time.clock)
        assert self.params.batch is not None
        self.stage.open_batcher(vendor, self.time.clock, self.params.batch)

    def run(self, texts: list[str]) -> tuple[dict[str, Any], dict[int, FailedRow]]:
        """Return the answers by text, and the failed rows by index."""
        table = pa.table({"text": texts, "id": [f"row-{text}" for text in texts]})
        answer = self.stage.process(Task(table, lineage=Lineage(b"s" * 16, b"t" * 16, "a")))
        slots = answer if isinstance(answer, list) else [answer]
        tables = [slot.table for slot in slots if isinstance(slot, Task)]
        rows = [row for each in tables for row in each.to_pylist()]
        marks = {slot.row: slot for slot in slots if isinstance(slot, FailedRow)}
        return {row["text"]: row["answer"] for row in rows}, marks

    def list_records(self) -> list[BatchRecord]:
        folder = self.stage.volume_folder
        assert folder is not None
        return list(BatchRecords(folder / "requests" / "ask-model").list())


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_task_is_one_batch_and_each_row_is_answered(vendor: type[Vendor], tmp_path: Path) -> None:
    stage = BatchedStage(vendor(FakeModel()), tmp_path)
    answers, failed = stage.run(TEXTS)
    assert answers == {text: f"echo: {text}" for text in TEXTS}
    assert failed == {}
    assert len(stage.vendor.batches) == 1
    assert stage.list_records() == []
    assert stage.lines == [f"ask-model: the server {URL}: sent 20 requests as the batch batch_1"]
    counters = stage.stage.counters
    assert (counters["answers"], counters["prompt tokens"]) == (20, 140)
    # A batch is looked at once a minute.
    assert stage.time.clock.now() >= 2 * 60
    again = BatchedStage(vendor(FakeModel()), tmp_path)
    assert again.run(TEXTS)[0] == answers
    assert again.vendor.batches == {}


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_interrupted_attempt_leaves_a_batch_that_the_next_attempt_waits_for(
    vendor: type[Vendor], tmp_path: Path
) -> None:
    served = vendor(FakeModel(), polls=5)
    first = BatchedStage(served, tmp_path)
    calls = iter(range(10**6))

    def stop(method: str, path: str) -> None:
        first.is_stopping = next(calls) > 3

    served.disturb = stop
    with pytest.raises(StageInterruptedError):
        first.run(TEXTS)
    (record,) = first.list_records()
    assert (record.batch, len(record.digests)) == ("batch_1", 20)
    served.disturb = lambda _method, _path: None
    second = BatchedStage(served, tmp_path)
    answers, _ = second.run([*TEXTS, "one more"])
    assert len(answers) == 21
    assert [len(batch.items) for batch in served.batches.values()] == [20, 1]
    assert "waiting for the batch batch_1 of an earlier attempt" in second.lines[0]
    assert second.list_records() == []


def test_a_batch_whose_id_was_not_recorded_is_found_by_its_mark(tmp_path: Path) -> None:
    served = OpenAi(FakeModel())
    first = BatchedStage(served, tmp_path)
    records = first.stage._session.batcher._records  # type: ignore[union-attr]
    write = records.write

    def crash(record: BatchRecord) -> None:
        if record.batch:
            raise RuntimeError("a crash")
        write(record)

    records.write = crash  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="a crash"):
        first.run(TEXTS)
    assert [record.batch for record in first.list_records()] == [""]
    second = BatchedStage(served, tmp_path)
    assert len(second.run(TEXTS)[0]) == 20
    assert len(served.batches) == 1


def test_a_record_without_a_batch_is_sent_again(tmp_path: Path) -> None:
    served = OpenAi(FakeModel(), disturb=lambda _m, path: _refuse() if path == "batches" else None)
    with pytest.raises(StageStoppedError, match="rejects the key"):
        BatchedStage(served, tmp_path).run(TEXTS)
    served.disturb = lambda _method, _path: None
    again = BatchedStage(served, tmp_path)
    assert len(again.run(TEXTS)[0]) == 20
    assert (len(served.batches), again.list_records()) == (1, [])


def _refuse() -> Reply:
    return Reply(401, {}, b'{"error": {"message": "no", "code": "invalid_api_key"}}')


@pytest.mark.parametrize("vendor", VENDORS)
def test_expired_requests_are_sent_again_up_to_the_tries(
    vendor: type[Vendor], tmp_path: Path
) -> None:
    def settle(number: int, body: Any) -> str | None:
        text = body["messages"][-1]["content"]
        text = text if isinstance(text, str) else text[-1]["text"]
        is_slow = text == "prompt 3" or (number == 1 and text.endswith("7"))
        return EXPIRED if is_slow else None

    stage = BatchedStage(vendor(FakeModel(), settle=settle), tmp_path)
    answers, failed = stage.run(TEXTS)
    assert len(answers) == 19
    assert [len(batch.items) for batch in stage.vendor.batches.values()] == [20, 3]
    assert "failed on it in 2 batches (it expired)" in failed[3].msg


@pytest.mark.parametrize("vendor", VENDORS)
def test_rows_with_bad_answers_fail_alone(vendor: type[Vendor], tmp_path: Path) -> None:
    def choose(prompt: str, _time: int) -> Fault:
        return {"prompt 1": "too long", "prompt 2": "500"}.get(prompt)

    stage = BatchedStage(vendor(FakeModel(choose=choose)), tmp_path)
    answers, failed = stage.run(TEXTS)
    assert len(answers) == 18
    assert "the server rejects the request" in failed[1].msg
    assert "in 2 batches" in failed[2].msg
    assert len(stage.vendor.batches) == 2  # the transient error was tried again


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_cancelled_batch_ends_the_attempt_and_keeps_its_answers(
    vendor: type[Vendor], tmp_path: Path
) -> None:
    def settle(number: int, body: Any) -> str | None:
        return CANCELLED if number == 1 and "prompt 1" in json.dumps(body) else None

    served = vendor(FakeModel(), settle=settle)
    with pytest.raises(StageStoppedError, match="batch_1 was cancelled; run again"):
        BatchedStage(served, tmp_path).run(TEXTS)
    again = BatchedStage(served, tmp_path)
    assert len(again.run(TEXTS)[0]) == 20
    assert [len(batch.items) for batch in served.batches.values()] == [20, 11]


def test_a_failed_batch_ends_the_attempt_with_the_vendors_words(tmp_path: Path) -> None:
    class Strict(OpenAi):
        def receive(self, items: dict[str, dict[str, Any]], metadata: Any) -> str:
            name = super().receive(items, metadata)
            self.batches[name].errors.append("The model is not available for batches.")
            return name

    stage = BatchedStage(Strict(FakeModel()), tmp_path)
    with pytest.raises(StageStoppedError, match="not available for batches"):
        stage.run(TEXTS)
    assert stage.list_records() == []


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_model_that_the_vendor_lacks_ends_the_attempt(
    vendor: type[Vendor], tmp_path: Path
) -> None:
    stage = BatchedStage(vendor(FakeModel(model="another")), tmp_path)
    with pytest.raises(StageStoppedError, match="no such model"):
        stage.run(TEXTS)
    assert stage.list_records() == []


def test_a_vendor_that_is_down_is_awaited_and_then_ends_the_attempt(tmp_path: Path) -> None:
    down = iter([UnansweredRequest("refused")] * 3)
    served = OpenAi(FakeModel(), disturb=lambda _m, _p: next(down, None))
    assert len(BatchedStage(served, tmp_path).run(TEXTS)[0]) == 20
    served = OpenAi(FakeModel(), disturb=lambda _m, _p: Reply(503, {}, b""))
    with pytest.raises(StageStoppedError, match="has not responded for") as raised:
        BatchedStage(served, tmp_path).run(["another"])
    assert raised.value.cause is Cause.MODEL_UNAVAILABLE


def test_a_batch_that_the_vendor_has_lost_is_sent_again_up_to_the_tries(tmp_path: Path) -> None:
    class Forgetful(OpenAi):
        def _describe(self, name: str, is_ended: bool = False) -> dict[str, Any]:
            found = super()._describe(name, is_ended)
            return {"id": "another"} if is_ended else found

    stage = BatchedStage(Forgetful(FakeModel(), polls=0), tmp_path)
    answers, failed = stage.run(["a"])
    assert (answers, len(stage.vendor.batches)) == ({}, 2)
    assert "it expired" in failed[0].msg
    assert any("has no batch batch_1 any more" in line for line in stage.lines)


@pytest.mark.parametrize("vendor", VENDORS)
def test_results_that_the_vendor_has_deleted_are_asked_for_again(
    vendor: type[Vendor], tmp_path: Path
) -> None:
    served = vendor(FakeModel())

    def delete(_method: str, path: str) -> Reply | None:
        is_gone = len(served.batches) == 1 and path.endswith(("content", "results"))
        return Reply(404, {}, b'{\n  "error": {"message": "gone"}\n}') if is_gone else None

    served.disturb = delete
    answers, _ = BatchedStage(served, tmp_path).run(TEXTS)
    assert (len(answers), len(served.batches)) == (20, 2)


@pytest.mark.parametrize(
    ("name", "limit"), [("most_requests", 7), ("most_bytes", 7 * 80)], ids=["requests", "bytes"]
)
def test_a_large_task_is_several_batches_that_wait_together(
    name: str, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenAiBatches, name, limit)
    stage = BatchedStage(OpenAi(FakeModel()), tmp_path)
    answers, _ = stage.run(TEXTS)
    assert len(answers) == 20
    sizes = [len(batch.items) for batch in stage.vendor.batches.values()]
    assert max(sizes) <= 7
    assert sum(sizes) == 20
    first_poll = next(at for at, (_, path) in enumerate(stage.vendor.calls) if "batch_" in path)
    sent = [at for at, call in enumerate(stage.vendor.calls) if call == ("POST", "batches")]
    assert max(sent) < first_poll


def test_a_budget_limits_the_requests_of_all_batches(tmp_path: Path) -> None:
    stage = BatchedStage(OpenAi(FakeModel()), tmp_path, budget={"requests": 12})
    with pytest.raises(BudgetSpentError, match="its budget is spent"):
        stage.run(TEXTS)
    assert [len(batch.items) for batch in stage.vendor.batches.values()] == [12]
    more = BatchedStage(OpenAi(FakeModel()), tmp_path, budget={"requests": 20})
    assert len(more.run(TEXTS)[0]) == 20
    assert [len(batch.items) for batch in more.vendor.batches.values()] == [8]


def test_an_answer_that_violates_the_schema_fails_its_row(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    def answer(prompt: str) -> str:
        return '{"n": "no"}' if prompt == "prompt 4" else '{"n": 1}'

    stage = BatchedStage(OpenAi(FakeModel(answer=answer)), tmp_path, output={"schema": schema})
    answers, failed = stage.run(TEXTS)
    assert len(answers) == 19
    assert "the answer is invalid" in failed[4].msg


def test_embeddings_are_batched_too(tmp_path: Path) -> None:
    stage = BatchedStage(OpenAi(FakeModel()), tmp_path, endpoint="embeddings")
    answers, _ = stage.run(["a", "bb"])
    assert answers == {"a": [1.0, 0.5], "bb": [2.0, 0.5]}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"requestsPerMinute": 5}, "`requestsPerMinute`"),
        ({"rollout": "json:dumps", "prompt": None}, "`rollout`|async def"),
        ({"requests": "s3://bucket/log"}, "must be a folder, not a URL"),
        ({"output": {"schema": {"type": "object"}, "repairs": 1}}, "`output.repairs`"),
        ({"url": None, "servers": [{"url": URL}]}, "`servers`"),
    ],
)
def test_what_does_not_go_with_batches_is_named(values: dict[str, Any], words: str) -> None:
    given = {"url": URL, "model": MODEL, "prompt": "a", "batch": {}, **values}
    with pytest.raises(ValidationError, match=words):
        AskModel.Params.model_validate(given)


def test_batches_need_a_folder_for_their_records() -> None:
    with pytest.raises(ValueError, match="mount the volume"):
        BatchedStage(OpenAi(FakeModel()), None)


def test_another_worker_may_store_the_answers_of_a_batch_first(tmp_path: Path) -> None:
    records = BatchRecords(tmp_path)
    record = BatchRecord("m", URL, (b"d" * 16,), "batch_1")
    records.write(record)
    assert list(records.list()) == [record]
    records.remove(record)
    records.remove(record)
    assert list(records.list()) == []


def test_the_batcher_polls_no_more_often_than_told(tmp_path: Path) -> None:
    stage = BatchedStage(OpenAi(FakeModel(), polls=3), tmp_path, batch={"pollSeconds": 600})
    stage.run(TEXTS)
    assert sum("batches/batch_1" in path for _, path in stage.vendor.calls) == 4
    assert stage.time.clock.now() >= 3 * 600


def test_answers_are_durable_before_the_record_is_removed(tmp_path: Path) -> None:
    stage = BatchedStage(OpenAi(FakeModel()), tmp_path)
    batcher, book = stage.stage._session.batcher, stage.stage._session.book
    assert batcher is not None
    assert book is not None
    events = list[str]()
    remove, sync = batcher._records.remove, book.sync

    def note_removal(record: BatchRecord) -> None:
        events.append("removed")
        remove(record)

    def note_sync() -> None:
        sync()
        events.append("durable")

    batcher._records.remove = note_removal  # type: ignore[method-assign]
    book.sync = note_sync  # type: ignore[method-assign]
    stage.run(TEXTS)
    assert events[:2] == ["durable", "removed"]
