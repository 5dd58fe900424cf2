"""Sinks that write several tasks to one file: exactly their rows, in task order."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_files import KINDS, make_sink, make_table, read_texts
from stage_runs import ForwardFile, Rows, StageRun
from strandline.plan.stages.ends import SharingSink
from strandline.plan.task import Task
from test_sinks import ROWS, SINKS, read, table_of


def write(use: str, values: dict[str, Any], tables: list[pa.Table]) -> bytes:
    file = ForwardFile()
    StageRun(use, **values).stage.write_shared([Task(table) for table in tables], file)
    return bytes(file.content)


def copy(use: str, values: dict[str, Any], content: bytes, ranges: list[range]) -> bytes:
    file = ForwardFile()
    stage = StageRun(use, **values).stage
    stage.copy_rows({stage.suffix: io.BytesIO(content)}, ranges, stage.suffix, file)
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
def test_law_a_partial_copy_has_the_chosen_rows_and_can_be_copied_again(
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


TEXTS = st.lists(st.lists(st.text("ab ", max_size=8), max_size=4), min_size=1, max_size=4)


def name_texts(parts: list[list[str]]) -> list[list[str]]:
    """Return distinct texts, as names of samples are distinct."""
    return [
        [f"{part} {row} {text}" for row, text in enumerate(texts)]
        for part, texts in enumerate(parts)
    ]


def write_to(write: Callable[[BinaryIO], None]) -> bytes:
    """Return the bytes written to a file that does not support seeking."""
    file = ForwardFile()
    write(cast("BinaryIO", file))
    return bytes(file.content)


def write_files(sink: SharingSink, parts: list[list[str]]) -> dict[str, bytes]:
    """Write a shared file and its companions."""
    tasks = [Task(make_table(texts)) for texts in parts]
    whole = Task(make_table([text for texts in parts for text in texts]))
    beside = sink.list_companions().items()
    return {
        sink.suffix: write_to(partial(sink.write_shared, tasks)),
        **{suffix: write_to(partial(write, whole)) for suffix, write in beside},
    }


def copy_files(sink: SharingSink, files: dict[str, bytes], ranges: list[range]) -> dict[str, bytes]:
    """Copy some rows of the files."""

    def copy_file(suffix: str, file: BinaryIO) -> None:
        sink.copy_rows({each: io.BytesIO(files[each]) for each in files}, ranges, suffix, file)

    return {suffix: write_to(partial(copy_file, suffix)) for suffix in files}


@pytest.mark.parametrize("kind", KINDS)
@given(drawn=TEXTS, data=st.data())
def test_law_a_copy_and_its_companions_equal_those_of_fewer_tasks(
    kind: str, drawn: list[list[str]], data: st.DataObject
) -> None:
    parts, sink = name_texts(drawn), make_sink(kind)
    ends = accumulate(map(len, parts), initial=0)
    ranges = [range(begin, end) for begin, end in pairwise(ends)]
    kept = data.draw(st.lists(st.sampled_from(range(len(parts))), min_size=1, unique=True))
    files = write_files(sink, parts)
    assert read_texts(files) == [text for texts in parts for text in texts]
    copied = copy_files(sink, files, [ranges[at] for at in sorted(kept)])
    assert read_texts(copied) == [text for at in sorted(kept) for text in parts[at]]
    again = write_files(sink, [parts[at] for at in sorted(kept)])
    for suffix in copied.keys() - {".parquet"}:  # Parquet's schema names list items differently
        assert copied[suffix] == again[suffix]


def test_samples_of_one_name_are_not_in_one_shard() -> None:
    with pytest.raises(ValueError, match="'text' has 'a' in several tasks of a file"):
        write_files(make_sink("webdataset"), [["a", "b"], ["c", "a"]])


def test_a_file_that_is_shorter_than_its_index_is_not_copied() -> None:
    sink = make_sink("token-shards")
    files = write_files(sink, [["abc"], ["def"]])
    files[".bin"] = files[".bin"][:-1]
    with pytest.raises(ValueError, match="shorter than its index"):
        copy_files(sink, files, [range(1, 2)])


@pytest.mark.parametrize("use", [kind for kind in KINDS if kind != "datatrove"])
def test_files_are_shared_on_request(use: str) -> None:
    own, shared = StageRun(use).stage, StageRun(use, targetBytes=1 << 20).stage
    assert isinstance(own, SharingSink)
    assert (own.target_bytes, shared.target_bytes) == (None, 1 << 20)
