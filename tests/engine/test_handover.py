"""Data that can be sent between processes, and data that cannot."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray import cloudpickle

from payload_kinds import Endless, Unpicklable, Unreadable, make_locked
from strandline.engine.call.handover import pack_answers, read_input
from strandline.engine.call.stage.receipts import ReceiptDraft
from strandline.engine.call.wire import pack_tasks
from strandline.engine.core.odd_sources import explain_odd, identify
from strandline.plan.stages.ends import Source
from strandline.plan.task import Lineage, Task
from strandline.plan.token import digest_key, digest_version

BAD = [
    (Unpicklable(), "SystemExit: 3"),
    (make_locked(), "TypeError: cannot pickle"),
    (Endless(), "PicklingError: Could not pickle object as excessively deep"),
    ({"deep": [Unpicklable()]}, "SystemExit: 3"),
]


def make_receipt(*data: Any) -> ReceiptDraft:
    """Return a draft with these payloads as emitted tasks, each from a source of its own."""
    writing = ReceiptDraft("stage")
    for number, one in enumerate(data):
        token = bytes([number]) * 16
        writing.emit(Task(one, {"n": number}), Lineage(token, token, f"k{number}"))
    return writing


@pytest.mark.parametrize(("payload", "said"), BAD)
@pytest.mark.parametrize("is_local", [False, True])
def test_law_unpicklable_data_fails_only_its_source(
    payload: Any, said: str, is_local: bool
) -> None:
    writing = make_receipt("good", payload, b"fine")
    pack = partial(pack_tasks, dumps=cloudpickle.dumps, is_local=is_local)

    kept, packed, receipt = pack_answers(lambda _: "stage", writing.data, writing.close(), pack)

    assert [task.data for task in kept] == ["good", b"fine"]
    assert [task.data for task in read_input(packed)[0]] == ["good", b"fine"]
    assert [(emitted.position, emitted.source[0]) for emitted in receipt.emitted] == [
        (0, 0),
        (1, 2),
    ]
    (failure,) = receipt.failures
    assert (failure.key, failure.stage) == ("k1", "stage")
    assert failure.message.startswith(f"its result can't be pickled: {said}")
    counts = receipt.counts
    assert (counts.tasks_out, counts.rows_out, counts.failed) == (2, 2, 1)


def test_a_valid_answer_is_pickled_once() -> None:
    writing = make_receipt(1, 2)
    receipt = writing.close()
    packed: list[Any] = []

    def pack(tasks: Any) -> list[Any]:
        packed.append(len(tasks))
        return pack_tasks(tasks)

    assert pack_answers(lambda _: "stage", writing.data, receipt, pack)[2] is receipt
    assert packed == [2]


@pytest.mark.parametrize("is_local", [False, True])
def test_unreadable_data_is_reported_with_its_lineage(is_local: bool) -> None:
    writing = make_receipt("good", Unreadable(), "fine")

    tasks, unreadable = read_input(pack_tasks(writing.data, is_local=is_local))

    assert [task.data for task in tasks] == ["good", "fine"]
    ((lineage, message),) = unreadable
    assert lineage.key == "k1"
    assert message.startswith("its input can't be unpickled: ValueError: no more (payload_k")


PAYLOADS = [
    "text",
    b"bytes",
    None,
    {"a": 1, "b": None},
    {"deep": {"er": [1]}},
    [0] * 40,
    (1, "two"),
    np.arange(100_000),
    np.array([{"object": 1}, None]),
    {"array": np.arange(100_000)},
    pa.table({"n": [1, 2]}),
    pa.table({"n": list(range(100_000))}),
]


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("is_local", [False, True])
def test_a_payload_is_read_unchanged(payload: Any, is_local: bool) -> None:
    writing = make_receipt(payload)

    packed = pack_tasks(writing.data, cloudpickle.dumps, is_local=is_local)
    if not is_local:
        packed = pickle.loads(pickle.dumps(packed, protocol=5))  # noqa: S301 - our own bytes
    ((task,), _) = read_input(packed)

    np.testing.assert_equal(task.data, payload)
    assert task.meta == {"n": 0}
    assert task.lineage == writing.data[0].lineage


def test_pickling_does_not_copy_large_parts_of_a_payload() -> None:
    array = np.arange(100_000)

    ((body, buffers, *_),) = pack_tasks(make_receipt({"array": array}).data, cloudpickle.dumps)

    assert len(body) < 1000
    assert np.shares_memory(np.frombuffer(buffers[0], array.dtype), array)


@pytest.mark.parametrize("payload", [{"a": 1}, [1], np.arange(3), {"array": np.arange(3)}])
def test_within_a_process_changes_do_not_reach_the_receiver(payload: Any) -> None:
    kept = copy.deepcopy(payload)

    packed = pack_tasks(make_receipt(payload).data, is_local=True)
    ((task,), _) = read_input(packed)
    if isinstance(payload, dict):
        payload["a"] = 7
    else:
        payload[0] = 7

    np.testing.assert_equal(task.data, kept)


@given(key=st.text(), version=st.text())
def test_a_valid_source_keeps_its_key_and_version(key: str, version: str) -> None:
    listed = identify(Source(key, version, None), 3)

    assert listed == (digest_key(key), digest_version(version), key, 3)
    assert explain_odd(Source(key, version, None)) is None


ODD: list[tuple[Any, Any, str, str]] = [
    ("a\udc80.txt", "1", "a\\udc80.txt", "the source's key contains an unpaired surrogate"),
    (7, "1", "7", "the source's key must be text, not int"),
    ("k", None, "k", "the source's version must be text, not NoneType"),
]


@pytest.mark.parametrize(("key", "version", "spelled", "why"), ODD)
def test_an_invalid_source_gets_a_name_for_its_failure(
    key: Any, version: Any, spelled: str, why: str
) -> None:
    source = Source(key, version, None)

    listed = identify(source, 1)

    assert listed.key == spelled
    assert listed.source == digest_key(spelled)
    assert str(explain_odd(source)).startswith(why)
