"""Sinks that write several tasks to one file: their rows one after the other, and none besides."""

from __future__ import annotations

import io
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import ForwardFile, Rows, StageRun
from strandline.plan.stage import SharingSink
from strandline.plan.task import Task
from test_sinks import ROWS, SINKS, read, table_of


def write(use: str, values: dict[str, Any], tables: list[pa.Table]) -> bytes:
    file = ForwardFile()
    StageRun(use, **values).stage.write_shared([Task(table) for table in tables], file)
    return bytes(file.content)


def copy(use: str, values: dict[str, Any], content: bytes, ranges: list[range]) -> bytes:
    file = ForwardFile()
    StageRun(use, **values).stage.copy_rows(io.BytesIO(content), ranges, file)
    return bytes(file.content)


@pytest.mark.parametrize(("use", "values"), SINKS)
@given(parts=st.lists(ROWS, min_size=1, max_size=4))
def test_law_rows_follow_each_other_as_their_tasks_do(
    use: str, values: dict[str, Any], parts: list[Rows]
) -> None:
    content = write(use, values, [table_of(rows) for rows in parts])
    assert read(use, values, content) == [row for rows in parts for row in rows]


@pytest.mark.parametrize(("use", "values"), SINKS)
@given(parts=st.lists(ROWS, min_size=1, max_size=4), data=st.data())
def test_law_a_copy_of_some_has_the_rows_of_these_and_can_be_copied_again(
    use: str, values: dict[str, Any], parts: list[Rows], data: st.DataObject
) -> None:
    ends = accumulate(map(len, parts), initial=0)
    all_ranges = [range(begin, end) for begin, end in pairwise(ends)]
    chosen = data.draw(st.lists(st.sampled_from(range(len(parts))), min_size=1, unique=True))
    kept = sorted(chosen)
    content = write(use, values, [table_of(rows) for rows in parts])
    copied = copy(use, values, content, [all_ranges[at] for at in kept])
    rows = [row for at in kept for row in parts[at]]
    assert read(use, values, copied) == rows
    assert copied == copy(use, values, copied, [range(len(rows))])


def test_a_copy_has_the_schema_of_its_file() -> None:
    schema = pa.schema([pa.field("n", pa.list_(pa.int16()), metadata={"a": "b"})], {"c": "d"})
    table = pa.table({"n": pa.array([[1], None, [2, 3]], pa.list_(pa.int16()))}, schema)
    content = write("parquet", {}, [table, table])
    whole = pq.read_table(io.BytesIO(content))
    copied = pq.read_table(io.BytesIO(copy("parquet", {}, content, [range(1, 4)])))
    assert copied.equals(whole.slice(1, 3), check_metadata=True)


@pytest.mark.parametrize(("use", "values"), SINKS)
@given(parts=st.lists(ROWS, min_size=2, max_size=4), cut=st.integers(0, 12))
def test_law_bytes_do_not_depend_on_chunks(
    use: str, values: dict[str, Any], parts: list[Rows], cut: int
) -> None:
    whole = [table_of(rows) for rows in parts]
    pieces = [pa.concat_tables([each.slice(0, cut), each.slice(cut)]) for each in whole]
    assert write(use, values, whole) == write(use, values, pieces)


@pytest.mark.parametrize("use", ["parquet", "jsonl"])
def test_files_are_shared_where_somebody_asks_for_it(use: str) -> None:
    own, shared = StageRun(use).stage, StageRun(use, targetBytes=1 << 20).stage
    assert isinstance(own, SharingSink)
    assert (own.target_bytes, shared.target_bytes) == (None, 1 << 20)
