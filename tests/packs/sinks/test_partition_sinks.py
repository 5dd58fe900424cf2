"""Sinks in which several sources share a file: their shared groups and the file's layout."""

from __future__ import annotations

import io
import mmap
import struct
import sys
import zipfile
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import ZipStore

from stage_runs import ForwardFile, StageRun
from strandline.data.tables.columns import MissingColumnError
from strandline.plan.stages.ends import Source
from strandline.plan.task import Task

ROWS = st.lists(st.tuples(st.sampled_from("abcé"), st.integers(0, 99)), min_size=1, max_size=20)


def shares(run: StageRun, key: str, meta: dict[str, Any] | None = None) -> list[str]:
    return list(run.stage.partition_indices(Source(key, "1", None, meta)))


def build(rows: Sequence[tuple[str, int]]) -> pa.Table:
    keys, numbers = zip(*rows, strict=True)
    return pa.table({"key": keys, "n": numbers})


def read_groups(content: bytes) -> list[list[tuple[str, int]]]:
    file = pq.ParquetFile(io.BytesIO(content))
    tables = (file.read_row_group(at) for at in range(file.num_row_groups))
    return [[(row["key"], row["n"]) for row in table.to_pylist()] for table in tables]


@pytest.mark.parametrize(
    ("by", "key", "names"),
    [
        (r"\d{4}-\d{2}", "days/2026-01-31.nc", ["2026-01"]),
        (r"^[^/]+", "days/2026-01-31.nc", ["days"]),
        (r"(?<=/)\d{4}", "days/2026-01-31.nc", ["2026"]),
        (r"\d{5}", "days/2026-01-31.nc", []),
    ],
)
def test_the_matching_text_of_a_key_is_the_partition(by: str, key: str, names: list[str]) -> None:
    assert shares(StageRun("parquet-partitions", by=by), key) == names


def test_an_invalid_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a regular expression: missing \\)"):
        StageRun("parquet-partitions", by="(")


@given(rows=ROWS)
def test_each_member_is_a_row_group_in_key_order_with_rows_in_order(
    rows: list[tuple[str, int]],
) -> None:
    content = StageRun("parquet-partitions", by=".").written(build(rows))
    assert read_groups(content) == [
        [row for row in rows if row[0] == key] for key in sorted({key for key, _ in rows})
    ]


@given(rows=ROWS, data=st.data())
def test_the_order_of_members_does_not_affect_the_bytes(
    rows: list[tuple[str, int]], data: st.DataObject
) -> None:
    """Members may come in any order and chunks; the rows of a member keep their order."""
    sink = StageRun("parquet-partitions", by=".")
    order = data.draw(st.permutations(sorted({key for key, _ in rows})))
    shuffled = [row for key in order for row in rows if row[0] == key]
    chunked = pa.concat_tables([build([row]) for row in shuffled])
    assert sink.written(chunked) == sink.written(build(rows))


def test_dropped_rows_form_row_groups_by_reason() -> None:
    """A filter with a reason column gives null for kept rows."""
    filtered = StageRun("gopher-quality", reasonColumn="why", minDocWords=3).table(
        [
            {"key": str(n), "text": "a b" if n % 2 else "the cat and that dog be with"}
            for n in range(4)
        ]
    )
    content = StageRun("parquet-partitions", by=".", member="why").written(filtered)
    groups = pq.ParquetFile(io.BytesIO(content))
    reasons = [
        groups.read_row_group(number)["why"].to_pylist() for number in range(groups.num_row_groups)
    ]
    assert [["gopher_short_doc"] * 2, [None] * 2] == reasons


@pytest.mark.more
@pytest.mark.slow
def test_a_large_member_is_still_one_row_group() -> None:
    rows = [("a", n) for n in range(2_000_000)]
    groups = read_groups(StageRun("parquet-partitions", by=".").written(build(rows)))
    assert list(map(len, groups)) == [2_000_000]


@pytest.mark.parametrize(
    "members",
    [
        pa.array(["b", "a", "b"]).dictionary_encode(),
        pa.chunked_array([pa.array([each]).dictionary_encode() for each in "bab"]),
        pa.array(["a", "b", "b"], pa.string_view()),
        pa.array(["b", "a", "b"], pa.large_string()),
    ],
    ids=["dictionary", "dictionaries", "view", "large"],
)
def test_members_may_be_any_kind_of_text(members: Any) -> None:
    table = pa.table({"key": members, "n": [0, 1, 2]})
    content = StageRun("parquet-partitions", by=".").written(table)
    groups = read_groups(content)
    assert [["a"], ["b", "b"]] == [[key for key, _ in rows] for rows in groups]
    assert all(rows == sorted(rows) for rows in groups)


def test_ordered_rows_are_not_copied() -> None:
    stage = StageRun("parquet-partitions", by=".").stage
    table = pa.concat_tables([build([("a", 1), ("a", 2)]), build([("b", 3)])])
    written = [rows["n"].chunk(0).buffers()[1].address for rows in stage._split(table)]
    assert written == [chunk.buffers()[1].address for chunk in table["n"].chunks]


def test_members_out_of_order_may_have_more_text_than_one_array_can_hold() -> None:
    stage = StageRun("parquet-partitions", by=".").stage
    size = 2**30 + 1  # of zeros that are never touched, so they use no memory
    offsets = pa.py_buffer(struct.pack("<2i", 0, size))
    text = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(mmap.mmap(-1, size)))
    table = pa.table(
        {"key": pa.chunked_array([["b"], ["a"]]), "text": pa.chunked_array([text, text])}
    )
    rows = [(part["key"].to_pylist(), part.nbytes > size) for part in stage._split(table)]
    assert rows == [(["a"], True), (["b"], True)]


@given(rows=ROWS, data=st.data())
def test_chunks_with_several_members_are_joined_as_one_table_would_be(
    rows: list[tuple[str, int]], data: st.DataObject
) -> None:
    sink = StageRun("parquet-partitions", by=".")
    cuts = sorted(data.draw(st.sets(st.integers(0, len(rows)))) | {0, len(rows)})
    chunked = pa.concat_tables([build(rows).slice(a, b - a) for a, b in pairwise(cuts)])
    assert sink.written(chunked) == sink.written(build(rows))


def test_a_table_without_rows_has_no_row_groups() -> None:
    content = StageRun("parquet-partitions", by=".").written(build([("a", 1)]).slice(1))
    assert read_groups(content) == []


def test_another_column_may_name_the_members() -> None:
    table = pa.table({"day": [2, 1, 2], "n": [0, 1, 2]})
    content = StageRun("parquet-partitions", by=".", member="day").written(table)
    file = pq.ParquetFile(io.BytesIO(content))
    assert [file.read_row_group(at)["n"].to_pylist() for at in (0, 1)] == [[1], [0, 2]]
    with pytest.raises(
        MissingColumnError, match="there is no column 'key'; the columns are: day, n"
    ):
        StageRun("parquet-partitions", by=".").written(table)


def make_fields(steps: Sequence[int], shape: tuple[int, int] = (3, 4)) -> xr.Dataset:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(len(steps), *shape))
    return xr.Dataset(
        {
            "heat": (("time", "y", "x"), values, {"units": "K"}),
            "mask": (("y", "x"), rng.normal(size=shape) > 0),
            "grid": ((), 7),
        },
        coords={"time": [float(step) for step in steps]},
        attrs={"title": "made up"},
    )


def write_zarr(dataset: Any, **values: Any) -> bytes:
    file = ForwardFile()
    StageRun("zarr", **{"chunk": 10} | values).stage.write(Task(dataset), file)
    return bytes(file.content)


def read_zarr(content: bytes, path: Any) -> xr.Dataset:
    path.write_bytes(content)
    store = ZipStore(path, mode="r")
    fields: xr.Dataset = xr.open_zarr(store, chunks=None, consolidated=False)
    return fields.load()


@pytest.mark.parametrize("steps", [range(10), range(3)])
def test_fields_read_back_with_one_chunk_along_the_dimension(steps: range, tmp_path: Any) -> None:
    fields = make_fields(steps)
    found = read_zarr(write_zarr(fields), tmp_path / "chunk.zarr.zip")
    xr.testing.assert_identical(found, fields)
    assert found["heat"].encoding["chunks"] == (10, 3, 4)
    assert found["mask"].encoding["chunks"] == (3, 4)


def test_the_same_fields_give_the_same_bytes_without_a_time() -> None:
    content = write_zarr(make_fields(range(10)))
    assert content == write_zarr(make_fields(range(10)))
    entries = zipfile.ZipFile(io.BytesIO(content)).infolist()
    assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)
    assert {entry.date_time[0] for entry in entries} == {1980}
    assert "heat/c/0/0/0" in {entry.filename for entry in entries}


@pytest.mark.parametrize(("place", "chunk"), [(0, 0), (9, 0), (10, 1), (44, 4)])
def test_the_place_of_a_source_selects_its_chunk(place: int, chunk: int) -> None:
    assert shares(StageRun("zarr", chunk=10), "x", {"time": place}) == [f"chunk {chunk}"]
    assert shares(StageRun("zarr", chunk=10, dimension="z"), "x", {"z": place}) == [
        f"chunk {chunk}"
    ]


@pytest.mark.parametrize("meta", [None, {}, {"time": "3"}, {"place": 3}])
def test_a_source_without_a_place_is_refused(meta: dict[str, Any] | None) -> None:
    with pytest.raises(TypeError, match="its meta has no whole number under 'time'"):
        shares(StageRun("zarr", chunk=10), "x", meta)


def test_other_data_than_a_dataset_is_refused() -> None:
    with pytest.raises(TypeError, match="this task carries Table, not an xarray dataset"):
        write_zarr(build([("a", 1)]))


def test_a_missing_library_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match=r"zarr.*; pip install 'strandline\[fields\]'$"):
        StageRun("zarr", chunk=10)


PARQUET: list[tuple[str, dict[str, Any]]] = [
    ("parquet", {}),
    ("parquet-partitions", {"by": "x"}),
]


def write_all(use: str, values: dict[str, Any], table: pa.Table) -> list[bytes]:
    """Return the files that a sink writes for a table, alone and, if possible, as a shared file."""
    stage = StageRun(use, **values)
    written = [stage.written(table)]
    if use == "parquet":
        shared = io.BytesIO()
        stage.stage.write_shared([Task(table)], shared)
        written.append(shared.getvalue())
    return written


@pytest.mark.parametrize(("use", "values"), PARQUET)
@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (pa.struct([]), "objects without any field"),
        (pa.list_(pa.struct([])), "objects without any field"),
        (pa.struct([("a", pa.struct([]))]), "objects without any field"),
        (pa.map_(pa.string(), pa.struct([])), "objects without any field"),
        (pa.month_day_nano_interval(), "month_day_nano_interval"),
    ],
)
def test_values_that_parquet_cannot_hold_are_reported_by_column(
    use: str, values: dict[str, Any], kind: pa.DataType, what: str
) -> None:
    table = pa.table({"key": ["a"], "odd": pa.nulls(1, kind)})
    with pytest.raises(TypeError, match=rf"column 'odd' holds {what}, which Parquet can't store"):
        write_all(use, values, table)


@pytest.mark.parametrize(("use", "values"), PARQUET)
def test_two_columns_or_fields_of_one_name_are_refused(use: str, values: dict[str, Any]) -> None:
    columns = [pa.array(["a"]), pa.array(["b"]), pa.array(["c"])]
    table = pa.Table.from_arrays(columns, ["key", "text", "text"])
    with pytest.raises(ValueError, match="two columns are called 'text'"):
        write_all(use, values, table)
    inner = pa.StructArray.from_arrays(columns[:2], names=["x", "x"])
    with pytest.raises(ValueError, match="two fields are called 'x'"):
        write_all(use, values, pa.table({"key": ["a"], "data": inner}))


@pytest.mark.parametrize(("use", "values"), PARQUET)
def test_far_times_and_nan_survive_parquet(use: str, values: dict[str, Any]) -> None:
    far = pa.array([2**50], pa.int64()).cast(pa.timestamp("s"))
    maps = pa.array([[("a", float("nan"))]], pa.map_(pa.string(), pa.float64()))
    table = pa.table({"key": ["a"], "far": far.cast(pa.timestamp("ms")), "maps": maps})
    for content in write_all(use, values, table):
        back = pq.read_table(io.BytesIO(content))
        assert back["far"].cast(pa.int64()).to_pylist() == [2**50 * 1000]
        assert str(back["maps"].to_pylist()) == "[[('a', nan)]]"
