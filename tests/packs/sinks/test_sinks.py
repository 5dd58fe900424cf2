"""Sinks write the given rows, and only the rows determine the bytes."""

import argparse
import datetime as dt
import gzip
import inspect
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stage_runs import Rows, StageRun
from strandline.plan.task import Task

ROW = st.fixed_dictionaries(
    {
        "text": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        "number": st.none() | st.integers(-(2**63), 2**63 - 1),
        "ratio": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "names": st.none() | st.lists(st.sampled_from(["a", "é", ""]), max_size=3),
        "kept": st.booleans(),
    }
)
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.int64()),
        ("ratio", pa.float64()),
        ("names", pa.list_(pa.string())),
        ("kept", pa.bool_()),
    ]
)
ROWS = st.lists(ROW, min_size=1, max_size=12)
SINKS = [
    ("parquet", {}),
    ("parquet", {"compression": "none", "rowGroupRows": 3}),
    ("jsonl", {}),
    ("jsonl", {"compression": "gzip"}),
    ("jsonl", {"compression": "zstd"}),
    ("jsonl", {"compression": "zstd", "compressionLevel": 19}),
]


def table_of(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def unzstd(content: bytes) -> bytes:
    unpacked: bytes = pa.CompressedInputStream(io.BytesIO(content), "zstd").read()
    return unpacked


def read(use: str, values: dict[str, Any], content: bytes) -> Rows:
    if use == "parquet":
        table: pa.Table = pq.read_table(io.BytesIO(content))
        return list(table.to_pylist())
    unpack: dict[str | None, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "zstd": unzstd}
    text = unpack.get(values.get("compression"), bytes)(content)
    rows: Rows = [json.loads(line) for line in text.splitlines()]
    return rows


@pytest.mark.parametrize(("use", "values"), SINKS)
@given(rows=ROWS)
def test_written_rows_are_read_back(use: str, values: dict[str, Any], rows: Rows) -> None:
    assert rows == read(use, values, StageRun(use, **values).written(table_of(rows)))


@pytest.mark.parametrize(("use", "values"), SINKS)
@given(rows=ROWS, cut=st.integers(0, 12))
def test_bytes_do_not_depend_on_chunks(
    use: str, values: dict[str, Any], rows: Rows, cut: int
) -> None:
    whole = table_of(rows)
    pieces = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])
    padded = table_of(rows + rows).slice(0, len(rows))
    written = {StageRun(use, **values).written(table) for table in (whole, pieces, padded)}
    assert 1 == len(written)


def test_pages_are_not_cut_where_chunks_end(run: type[StageRun]) -> None:
    whole = pa.table({"text": [f"{number:05}" * 100 for number in range(6000)]})
    pieces = pa.concat_tables([whole.slice(start, 700) for start in range(0, 6000, 700)])
    assert run("parquet").written(whole) == run("parquet").written(pieces)


def test_a_gzip_header_holds_neither_time_nor_name(run: type[StageRun]) -> None:
    content = run("jsonl", compression="gzip").written(pa.table({"n": [1]}))
    assert bytes(5) == content[3:8]


def test_row_groups_are_bounded(run: type[StageRun]) -> None:
    content = run("parquet", rowGroupRows=4).written(pa.table({"n": range(10)}))
    assert 3 == pq.read_metadata(io.BytesIO(content)).num_row_groups


def test_the_requested_compression_is_used(run: type[StageRun]) -> None:
    for name in ("zstd", "snappy", "gzip"):
        content = run("parquet", compression=name).written(pa.table({"n": [1]}))
        column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
        assert name.upper() == column.compression


@pytest.mark.parametrize(
    ("use", "compression"),
    [
        ("parquet", "zstd"),
        ("parquet", "gzip"),
        ("jsonl", "zstd"),
        ("jsonl", "gzip"),
        ("arrow", "zstd"),
    ],
)
def test_a_higher_level_makes_a_smaller_file(
    use: str, compression: str, run: type[StageRun]
) -> None:
    table = pa.table({"text": inspect.getsource(argparse).splitlines()})
    sizes = [
        len(run(use, compression=compression, compressionLevel=level).written(table))
        for level in (1, 9)
    ]
    assert sizes[1] < sizes[0]


def test_pages_have_level_3_by_default(run: type[StageRun]) -> None:
    table = pa.table({"text": [f"{number * number} {number % 17}" for number in range(20_000)]})
    default, *others = (
        run("parquet", **level).written(table)
        for level in ({}, {"compressionLevel": 3}, {"compressionLevel": 1})
    )
    assert default == others[0]
    assert default != others[1]


@pytest.mark.parametrize(
    ("use", "values", "problem"),
    [
        (
            "parquet",
            {"compression": "snappy", "compressionLevel": 3},
            "requires `compression: zstd`",
        ),
        (
            "jsonl",
            {"compressionLevel": 3},
            "requires `compression: zstd` or `gzip`, but it is 'none'",
        ),
        ("arrow", {"compression": "lz4", "compressionLevel": 1}, "but it is 'lz4'; change"),
        ("jsonl", {"compression": "gzip", "compressionLevel": 10}, "must be at most 9 with"),
        ("parquet", {"compressionLevel": 20}, "must be at most 19 with `compression: zstd`"),
        ("parquet-partitions", {"by": "a", "compressionLevel": 0}, "greater than or equal to 1"),
    ],
)
def test_a_level_that_the_compression_lacks_is_refused(
    use: str, values: dict[str, Any], problem: str, run: type[StageRun]
) -> None:
    with pytest.raises(ValidationError, match=re.escape(problem)):
        run(use, **values)


@pytest.mark.parametrize(("use", "values"), SINKS)
def test_the_file_is_left_open_for_its_owner(
    run: type[StageRun], use: str, values: dict[str, Any]
) -> None:
    file = io.BytesIO()
    run(use, **values).stage.write(Task(pa.table({"n": [1]})), file)
    assert not file.closed
    assert file.getvalue()


def test_suffixes(run: type[StageRun]) -> None:
    assert ".parquet" == run("parquet").stage.suffix
    assert ".jsonl" == run("jsonl").stage.suffix
    assert ".jsonl.gz" == run("jsonl", compression="gzip").stage.suffix
    assert ".jsonl.zst" == run("jsonl", compression="zstd").stage.suffix


def test_jsonl_writes_values_without_a_json_form(run: type[StageRun]) -> None:
    table = pa.table(
        {
            "bytes": [b"\x00\xff"],
            "time": [dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)],
            "ratio": [float("nan")],
            "deep": [[{"x": float("inf")}]],
            "text": ["é\n\u2028"],
        }
    )
    content = run("jsonl").written(table)
    assert 1 == content.count(b"\n")
    assert "é".encode() in content
    assert {
        "bytes": "AP8=",
        "time": "2024-01-02T03:04:05+00:00",
        "ratio": None,
        "deep": [{"x": None}],
        "text": "é\n\u2028",
    } == json.loads(content)


def test_other_payloads_than_tables_are_refused(run: type[StageRun]) -> None:
    for use in ("parquet", "jsonl"):
        with pytest.raises(TypeError, match="carries str, not a table"):
            run(use).stage.write(Task("payload"), io.BytesIO())


def test_every_sink_accepts_a_path(run: type[StageRun]) -> None:
    for use in ("parquet", "jsonl"):
        assert "s3://shelf" == run(use, path="s3://shelf").stage.params.path
        assert run(use).stage.params.path is None
        with pytest.raises(ValueError, match="at least 1 character"):
            run(use, path="")
