"""CSV and Arrow: rows survive a round trip, and every line is kept or counted."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import Rows, StageRun
from strandline import ExitCode, Pipeline
from strandline.data.files.opening import UnreadableFileError
from strandline.stages import ArrowSink, CsvSink, Files, KeepRows, ReadCsv
from strandline_api.documents.problems import SpecError

Write = Callable[..., list[pa.Table]]
WriteTable = Callable[[pa.Table], bytes]


@pytest.fixture
def read(tmp_path: Path) -> Write:
    """Return a function that reads a file with some content and returns the tables."""

    def read_file(use: str, content: bytes, name: str = "a.csv", **values: Any) -> list[pa.Table]:
        return read_content(tmp_path, StageRun(use, **values), content, name)

    return read_file


def read_content(folder: Path, stage: StageRun, content: bytes, name: str) -> list[pa.Table]:
    (folder / name).write_bytes(content)
    return stage.tables([{"key": name, "path": str(folder / name)}])


def list_rows(tables: list[pa.Table]) -> Rows:
    return [row for table in tables for row in table.to_pylist()]


def test_columns_are_text_by_default(read: Write) -> None:
    content = b'\xef\xbb\xbfname,score,good,when\r\nx,007,true,2026-01-31\r\n\r\n"a\nb",,,\r\n'
    assert list_rows(read("read-csv", content)) == [
        {"key": "a.csv#L2", "name": "x", "score": "007", "good": "true", "when": "2026-01-31"},
        {"key": "a.csv#L4", "name": "a\nb", "score": "", "good": "", "when": ""},
    ]
    (table,) = read("read-csv", content, types={"score": "float", "good": "bool", "when": "time"})
    kinds = [pa.string(), pa.string(), pa.float64(), pa.bool_(), pa.timestamp("us")]
    assert table.schema.types == kinds
    assert table["score"].to_pylist() == [7.0, None]


def test_custom_keys_and_column_names_are_used(read: Write) -> None:
    content = b"k1;a\nk2;b\n"
    (table,) = read("read-csv", content, header=["key", "text"], delimiter=";")
    assert table.to_pylist() == [{"key": "k1", "text": "a"}, {"key": "k2", "text": "b"}]


@pytest.mark.parametrize("count", [0, 1, 10_000, 10_001])
def test_tasks_are_of_bounded_size(read: Write, count: int) -> None:
    tables = read("read-csv", b"n\n" + b"1\n" * count)
    assert [table.num_rows for table in tables] == [
        size for size in (min(count, 10_000), max(0, count - 10_000)) if size
    ]


@pytest.mark.parametrize(
    ("content", "values", "message"),
    [
        (b"a,b\n1,2\n3\n", {}, "#L3: 1 values for 2 columns"),
        (b"a,b\n1,2,3\n", {}, "#L2: 3 values for 2 columns"),
        (b'a,n\nx,1\n"y\ny",1.5\n', {"types": {"n": "int"}}, "#L3: '1.5' in the column 'n'"),
        (b"n\n99999999999999999999\n", {"types": {"n": "int"}}, "column 'n' is not a valid int"),
        (b"t\nsoon\n", {"types": {"t": "time"}}, "'soon' in the column 't' is not a valid time"),
        (b"a,a\n1,2\n", {}, "two columns are called 'a'; rename them with `header`"),
        (b"a\n1\n", {"types": {"b": "int"}}, "no column 'b'; the columns are: a"),
        (b'a,b\n1,2\n"1,2\n3,4\n', {}, "#L3: a quote in this row is never closed"),
        (b'a,b\n"1"x,2\n', {}, "#L2: ',' expected after '\"'"),
        (b"a;b\n1;2\n3;4\n", {}, "one column with the delimiter ',', but 2 with ';': set "
                                 "`delimiter`"),
        (b"a;b\n1,5;2\n", {}, "but 2 with ';'"),
        (b'a\tb\n"x\ny"\t2\n', {}, "but 2 with '\\t'"),
        (b"a,b\n1,2\n", {"delimiter": ";"}, "one column with the delimiter ';', but 2 with ','"),
        (b"1|2\n3|4\n", {"header": ["a", "b"]}, "but 2 with '|'"),
        (b"a\n\xff\n", {}, "can't decode byte 0xff"),
        (b"<!doctype html><p>no</p>\n", {}, "not CSV; its first bytes are those of HTML"),
        (b'{"a": 1}\n', {}, "those of JSON Lines: read it with read-jsonl"),
        (b"\xff\xfea\0,\0b\0\n\0", {}, "those of UTF-16"),
    ],
)  # fmt: skip
def test_bad_input_fails_the_source_with_its_place(
    read: Write, content: bytes, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        read("read-csv", content, **values)
    assert message in str(caught.value)
    assert "a.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "values", "rows"),
    [
        (b"text\na;b\nc;d\n", {}, [["a;b"], ["c;d"]]),  # the header has no separator
        (b"a;b\nc;d;e\n", {}, [["c;d;e"]]),  # rows differ
        (b'"a;b"\n"c;d"\n', {}, [["c;d"]]),
        (b"a;b\nc;d\n", {"header": ["text"]}, [["a;b"], ["c;d"]]),
        (b"a,b\n'1,2',3\n", {"quote": "'"}, [["1,2", "3"]]),
        (b'a,b\n"1,2\n', {"quote": ""}, [['"1', "2"]]),
        (b'a,b\n"1\\"2",x\\,y\n', {"escape": "\\"}, [['1"2', "x,y"]]),
        (b"a,b\n" + b'"x""y",z\n' * 3000, {}, [['x"y', "z"]] * 3000),
    ],
)
def test_a_dialect_is_declared(
    read: Write, content: bytes, values: dict[str, Any], rows: list[list[str]]
) -> None:
    found = list_rows(read("read-csv", content, **values))
    assert [list(row.values())[1:] for row in found] == rows


def test_a_column_name_may_start_like_a_format(read: Write) -> None:
    assert list_rows(read("read-csv", b"ORCID\n1\n")) == [{"key": "a.csv#L2", "ORCID": "1"}]


def test_a_file_with_only_bad_rows_fails(read: Write) -> None:
    with pytest.raises(UnreadableFileError, match="none of its 2 rows is valid"):
        read("read-csv", b"a,b\n1\n2\n", badLines="drop")
    assert read("read-csv", b"") == read("read-csv", b"a,b\n") == []


def test_duplicate_names_are_refused_before_a_run() -> None:
    with pytest.raises(SpecError, match="two columns of `header` have the same name"):
        ReadCsv(header=("a", "a"))


cells = st.sampled_from(["1", "x", "", '"', "a,b", "a\nb", "2.5", " 3 ", "é"])


@given(rows=st.lists(st.lists(cells, min_size=1, max_size=4), min_size=1, max_size=8))
def test_law_every_row_is_kept_or_counted(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([["a", "b"], *rows])
    stage = StageRun("read-csv", types={"b": "int"}, badLines="drop")
    folder = tmp_path_factory.mktemp("csv")
    try:
        found = list_rows(read_content(folder, stage, text.getvalue().encode(), "a.csv"))
    except UnreadableFileError as error:
        assert f"none of its {len(rows):,} rows is valid" in str(error)  # noqa: PT017 - either
        found = []
    assert len(found) + sum(stage.counters.values()) == len(rows)
    good = [row for row in rows if (len(row) == 2 and row[1].strip().isdigit()) or
            (len(row) == 2 and not row[1].strip())]  # fmt: skip
    assert [(row["a"]) for row in found] == [row[0] for row in good]


LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")
tables = st.lists(
    st.tuples(st.text(LETTERS, min_size=1),
              st.none() | st.integers(-(2**63), 2**63 - 1)),
    min_size=1, max_size=8,
)  # fmt: skip


@given(rows=tables)
def test_law_written_rows_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int | None]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    keys = [f"k{at}" for at in range(len(rows))]
    table = pa.table({"key": keys, "text": [text for text, _ in rows],
                      "n": pa.array([n for _, n in rows], pa.int64())})  # fmt: skip
    written = StageRun("csv").written(table)
    back = read_content(folder, StageRun("read-csv", types={"n": "int"}), written, "a.csv")
    assert pa.concat_tables(back) == table
    for packing in ("none", "lz4", "zstd"):
        written = StageRun("arrow", compression=packing).written(table)
        back = read_content(folder, StageRun("read-arrow"), written, "a.arrow")
        assert pa.concat_tables(back) == table


def test_values_without_a_csv_notation_are_written_as_json() -> None:
    table = pa.table({
        "list": [[1, 2]], "map": [{"a": None}], "raw": [b"\xff"], "nan": [float("nan")],
        "none": [None], "yes": [True], "day": pa.array([10**7], pa.int32()).cast(pa.date32()),
        "quote": ['a "b"'],
    })  # fmt: skip
    assert StageRun("csv").written(table).decode().splitlines() == [
        "list,map,raw,nan,none,yes,day,quote",
        '"[1,2]","{""a"":null}",/w==,,,true,+029349-01-26,"a ""b"""',
    ]
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    for use in ("csv", "arrow"):
        with pytest.raises(ValueError, match="two columns are called 'a'"):
            StageRun(use).written(twice)


def write_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def test_a_stream_is_read_and_rows_get_keys(read: Write) -> None:
    content = write_stream(pa.table({"n": [1, 2, 3]}))
    assert list_rows(read("read-arrow", content, "a.arrows", maxRows=1)) == [
        {"key": f"a.arrows#{at}", "n": at + 1} for at in range(3)
    ]


@given(at=st.integers(0, 10_000))
def test_law_truncated_arrow_fails(tmp_path_factory: pytest.TempPathFactory, at: int) -> None:
    table = pa.table({"n": list(range(6))})
    for content in (write_stream(table), StageRun("arrow", batchRows=2).written(table)):
        cut = content[: at % len(content)]
        with pytest.raises(UnreadableFileError):
            read_content(tmp_path_factory.mktemp("cut"), StageRun("read-arrow"), cut, "a.arrow")


def test_a_run_from_csv_to_arrow_and_back(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / f"in/{number}.csv").write_text(f"score,language\n0.{number}5,en\n0.9,de\n")
    values: dict[str, Any] = {"engine": "inline"}
    pipeline = Pipeline(
        "rows",
        source=Files(paths=[f"{tmp_path}/in/*.csv"]),
        stages=[
            ReadCsv(types={"score": "float"}),
            KeepRows(where="score >= 0.1 and language == 'en'"),
        ],
        sink=ArrowSink(path=str(tmp_path / "out")),
    )
    assert pipeline.run(checkpoint_path=str(tmp_path / "one"), **values).code is ExitCode.COMPLETE
    outputs = sorted((tmp_path / "out").rglob("*.arrow"))
    assert sorted(pa.ipc.open_file(path).read_all()["score"][0].as_py() for path in outputs) == [
        0.15, 0.25,
    ]  # fmt: skip
    back = Pipeline(
        "back",
        source=Files(paths=[f"{tmp_path}/in/*.csv"]),
        stages=[ReadCsv()],
        sink=CsvSink(path=str(tmp_path / "csv")),
    )
    assert back.run(checkpoint_path=str(tmp_path / "two"), **values).code is ExitCode.COMPLETE
    assert len(list((tmp_path / "csv").rglob("*.csv"))) == 3


def write_file(table: pa.Table) -> bytes:
    return StageRun("arrow", batchRows=2).written(table)


@pytest.mark.parametrize("kinds", [*itertools.product([write_stream, write_file], repeat=3)])
def test_each_part_of_a_file_is_read(read: Write, kinds: Sequence[WriteTable]) -> None:
    """`cat` joins several files, each with its own end and schema."""
    tables = [
        pa.table({"n": [1, 2, 3]}),
        pa.table({"n": [4, 5, 6]}),
        pa.table({"n": ["ARROW1", "b"]}).append_column("m", [[7, None]]),
    ]
    content = b"".join(write(table) for write, table in zip(kinds, tables, strict=True))
    rows = list_rows(read("read-arrow", content, "a.arrow", maxRows=2))
    assert [row["n"] for row in rows] == [1, 2, 3, 4, 5, 6, "ARROW1", "b"]
    assert [row["key"] for row in rows] == [f"a.arrow#{at}" for at in range(8)]


@given(kinds=st.tuples(*[st.sampled_from([write_stream, write_file])] * 2), at=st.integers(1, 4000))
def test_law_a_file_truncated_within_a_part_fails(
    tmp_path_factory: pytest.TempPathFactory, kinds: tuple[WriteTable, ...], at: int
) -> None:
    parts = [write(pa.table({"n": list(range(6))})) for write in kinds]
    content = b"".join(parts)
    cut = content[: len(parts[0]) + at % len(parts[1])]
    stage, folder = StageRun("read-arrow"), tmp_path_factory.mktemp("cut")
    if len(cut) == len(parts[0]):
        assert len(list_rows(read_content(folder, stage, cut, "a.arrow"))) == 6
        return
    with pytest.raises(UnreadableFileError):
        read_content(folder, stage, cut, "a.arrow")


def test_other_bytes_after_an_arrow_stream_are_refused(read: Write) -> None:
    content = write_stream(pa.table({"n": [1]})) + b"no arrow" + write_stream(pa.table({"n": [2]}))
    with pytest.raises(UnreadableFileError, match="bytes are Arrow"):
        read("read-arrow", content, "a.arrow")
