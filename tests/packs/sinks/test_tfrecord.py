"""The sink `tfrecord`: TensorFlow's bytes, and rows that an independent reader finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_files import read_records
from stage_runs import StageRun

# Bytes that `tf.io.TFRecordWriter` of TensorFlow 2.21 wrote for `ROW`.
OF_TENSORFLOW = bytes.fromhex(
    "5000000000000000940f9b820a4e0a0a0a046e6f6e6512020a000a110a05726174696f120812060a040000003f0a10"
    "0a047465787412080a060a04746964650a1b0a06746f6b656e7312111a0f0a0d01ffffffffffffffffff01ac02ebd7"
    "0d20"
)
ROW = pa.table(
    {
        "text": ["tide"],
        "tokens": [[1, -1, 300]],
        "ratio": [0.5],
        "none": pa.array([None], pa.string()),
    }
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
integers = st.integers(-(2**63), 2**63 - 1)
ROWS = st.fixed_dictionaries(
    {
        "text": texts,
        "raw": st.binary(max_size=300),
        "number": integers,
        "flag": st.booleans(),
        "ratio": st.floats(width=32, allow_nan=False),
        "tokens": st.lists(integers, max_size=200),
        "words": st.lists(texts, min_size=2, max_size=4),
    }
)
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("number", pa.int64()),
        ("flag", pa.bool_()),
        ("ratio", pa.float32()),
        ("tokens", pa.list_(pa.int64())),
        ("words", pa.large_list(pa.string())),
    ]
)


def test_a_record_has_the_bytes_of_tensorflow() -> None:
    assert StageRun("tfrecord").written(ROW) == OF_TENSORFLOW


def simplify(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in the reader's form: bytes for text, and arrays even for single numbers."""
    return {
        "text": row["text"].encode(),
        "raw": row["raw"],
        "number": [row["number"]],
        "flag": [int(row["flag"])],
        "ratio": [row["ratio"]],
        "tokens": row["tokens"],
        "words": [word.encode() for word in row["words"]],
    }


@given(st.lists(ROWS, min_size=1, max_size=5), st.integers(0, 5))
def test_law_records_are_the_rows_however_they_are_chunked(
    rows: list[dict[str, Any]], cut: int
) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    content = StageRun("tfrecord").written(pa.concat_tables([table.slice(0, cut), table[cut:]]))
    found = [
        {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in row.items()
        }
        for row in read_records(content)
    ]
    assert found == [simplify(row) for row in rows]


def test_values_without_a_type_are_json() -> None:
    table = pa.table({"facts": [{"a": 1}], "name": pa.array(["x"]).dictionary_encode()})
    (row,) = read_records(StageRun("tfrecord").written(table))
    assert row == {"facts": b'{"a": 1}', "name": b"x"}


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (pa.table({"n": [[1, None]]}), "the column 'n' has nulls in its lists"),
        (pa.table({"n": pa.array([2**63], pa.uint64())}), "9223372036854775808 not in range"),
    ],
)
def test_values_that_tfrecord_cannot_hold_are_reported(table: pa.Table, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        StageRun("tfrecord").written(table)
