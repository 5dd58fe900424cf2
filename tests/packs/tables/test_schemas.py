"""One schema for all tables of a reader: accepted values, and how others are refused."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.schemas import (
    SchemaClashError,
    find_misfit,
    format_schema,
    pack_schema,
    parse_schema,
    simplify,
    unify,
    unpack_schema,
)
from strandline.stages import ReadJsonl
from strandline_api.documents.problems import SpecError

AT_TEN = datetime.fromisoformat("2024-05-01T10:00:00")
FITTING: list[tuple[str, object, object]] = [
    ("float", 1, 1.0),
    ("int", 1.0, 1),
    ("float", None, None),
    ("int32", 7, 7),
    ("[float]", [1, 2.5], [1.0, 2.5]),
    ("[text]", [], []),
    ("[text]", [None], [None]),
    ("{a: float, b: text}", {"a": 1}, {"a": 1.0, "b": None}),
    ("{a: float, b: text}", {}, {"a": None, "b": None}),
    ("[{a: [int]}]", [{"a": []}], [{"a": []}]),
    ("time", "2024-05-01T10:00:00", AT_TEN),
    ("time", "2024-05-01T10:00:00Z", AT_TEN),
    ("time", "2024-05-01T10:00:00+02:00", AT_TEN.replace(hour=8)),
]
REFUSED: list[tuple[str, object, str, str]] = [
    ("text", 5, "a", "int, but the schema has text"),
    ("int", "5", "a", "text, but the schema has int"),
    ("int", 1.5, "a", "1.5"),
    ("int8", 300, "a", "300"),
    ("float", True, "a", "bool, but the schema has float"),
    ("bool", 1, "a", "int, but the schema has bool"),
    ("float", 2**53 + 1, "a", str(2**53 + 1)),
    ("float", 2**70, "a", "a whole number of 71 bits"),
    ("[text]", "abc", "a", "text, but the schema has [text]"),
    ("[text]", [1], "a[]", "int, but the schema has text"),
    ("[text]", ["x", 1], "a[]", "text and a number"),
    ("{b: int}", {"c": 1}, "a.c", "is not in the schema"),
    ("{b: {c: int}}", {"b": {"c": "x"}}, "a.b.c", "text, but the schema has int"),
    ("time", "soon", "a", "'soon', but the schema requires time"),
]


def parse_type(spelled: str) -> Any:
    """Parse a type written in YAML, where names need no quotes."""
    return yaml.safe_load(spelled)


def read_lines(path: Path, *rows: Any, **values: Any) -> tuple[list[pa.Table], StageRun]:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run = StageRun("read-jsonl", **values)
    return run.tables([{"key": path.name, "path": str(path)}]), run


def list_rows(tables: list[pa.Table]) -> list[dict[str, Any]]:
    return [row for table in tables for row in table.to_pylist()]


@pytest.mark.parametrize(("kind", "value", "expected"), FITTING)
def test_a_value_that_fits_has_the_type_of_the_schema(
    tmp_path: Path, kind: str, value: object, expected: object
) -> None:
    schema = {"a": parse_type(kind)}
    tables, _ = read_lines(tmp_path / "x.jsonl", {"a": value}, schema=schema)
    assert list_rows(tables) == [{"key": "x.jsonl#L1", "a": expected}]
    assert {table.schema for table in tables} == {
        pa.schema([("key", pa.string()), *parse_schema(schema)])
    }


@pytest.mark.parametrize(("kind", "value", "column", "words"), REFUSED)
def test_a_value_that_does_not_fit_drops_its_line_and_is_named(
    tmp_path: Path, kind: str, value: object, column: str, words: str
) -> None:
    schema = {"a": parse_type(kind)}
    rows = {"a": None}, {"a": value}, {"a": None}
    with pytest.raises(UnreadableFileError) as caught:
        read_lines(tmp_path / "x.jsonl", *rows, schema=schema)
    assert str(caught.value).startswith(f"x.jsonl#L2: the column {column!r} has ")
    assert words in str(caught.value)
    tables, run = read_lines(tmp_path / "x.jsonl", *rows, schema=schema, badLines="drop")
    assert [row["key"] for row in list_rows(tables)] == ["x.jsonl#L1", "x.jsonl#L3"]
    assert sum(run.counters.values()) == 1


def test_the_schema_decides_and_not_the_majority_of_lines(tmp_path: Path) -> None:
    rows = [{"a": "text"}, {"a": "text"}, {"a": 1}]
    tables, run = read_lines(tmp_path / "x.jsonl", *rows, schema={"a": "int"}, badLines="drop")
    assert [row["a"] for row in list_rows(tables)] == [1]
    assert run.counters == {"dropped: value of another type than its column": 2}


def test_a_column_missing_from_the_schema_is_not_silently_dropped(tmp_path: Path) -> None:
    rows = [{"a": 1}, {"a": 2, "b": 3}]
    with pytest.raises(UnreadableFileError, match=r"#L2: the column 'b' .* not in the schema"):
        read_lines(tmp_path / "x.jsonl", *rows, schema={"a": "int"})
    tables, run = read_lines(tmp_path / "x.jsonl", *rows, schema={"a": "int"}, badLines="drop")
    assert len(list_rows(tables)) == 1
    assert run.counters == {"dropped: column that is not in the schema": 1}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"a": "txt"}, "a: unknown type 'txt'"),
        ({"a": []}, "a: unknown type []"),
        ({"a": {"b": 5}}, "a.b: unknown type 5"),
        ({"a": ["int", "int"]}, "a: unknown type"),
        ({}, "must not be empty"),
        ({"infer": 0}, "at least 1"),
        ({"infer": 2, "a": "text"}, "can't be combined"),
    ],
)
def test_an_invalid_schema_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        ReadJsonl(schema=schema)
    assert words in str(caught.value)


def write_csv(path: Path, columns: dict[str, list[Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def write_arrow(path: Path, columns: dict[str, list[Any]]) -> None:
    table = pa.table(columns)
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def write_tar(path: Path, columns: dict[str, list[Any]]) -> None:
    with tarfile.open(path, "w") as archive:
        for at, row in enumerate(zip(*columns.values(), strict=True)):
            for name, value in zip(columns, row, strict=True):
                member = tarfile.TarInfo(f"{at}.{name}")
                member.size = len(value)
                archive.addfile(member, io.BytesIO(value.encode()))


READERS = {
    "read-parquet": lambda path, columns: pq.write_table(pa.table(columns), path),
    "read-arrow": write_arrow,
    "read-csv": write_csv,
    "read-webdataset": write_tar,
}


def read_file(use: str, path: Path, **values: Any) -> list[pa.Table]:
    row = {"key": path.name, "path": str(path)}
    return StageRun(use, **values).tables([row | ({"row_group": 0} if "parquet" in use else {})])


@pytest.mark.parametrize("use", READERS)
def test_each_reader_returns_exactly_the_columns_of_its_schema(tmp_path: Path, use: str) -> None:
    path = tmp_path / "x.bin"
    kind = "bytes" if use == "read-webdataset" else "text"
    READERS[use](path, {"a": ["x", "y"]})
    (table,) = read_file(use, path, schema={"b": "float", "a": kind})
    assert table.schema.names == ["key", "b", "a"]
    assert table.column("b").type == pa.float64()
    assert table.column("b").null_count == 2
    with pytest.raises(UnreadableFileError, match=r"x\.bin.*: the column 'a' .*not in the schema"):
        read_file(use, path, schema={"b": "float"})


@pytest.mark.parametrize("use", ["read-parquet", "read-arrow"])
def test_a_type_of_a_file_is_widened_or_refused_with_the_row(tmp_path: Path, use: str) -> None:
    path = tmp_path / "x.bin"
    READERS[use](path, {"n": [1, 2**53 + 1]})
    (table,) = read_file(use, path, schema={"n": "int"})
    assert table.column("n").to_pylist() == [1, 2**53 + 1]
    with pytest.raises(
        UnreadableFileError, match=r"x\.bin#.*1: the column 'n' has '9007199254740993'"
    ):
        read_file(use, path, schema={"n": "float"})
    with pytest.raises(UnreadableFileError, match=r"x\.bin#.*0: the column 'n' has int, but"):
        read_file(use, path, schema={"n": "text"})


def test_chosen_columns_are_those_of_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), path)
    schema = {"a": "float", "b": "text", "c": "text"}
    (table,) = read_file("read-parquet", path, schema=schema, columns=["c", "a"])
    assert table.to_pylist() == [{"c": None, "a": 1.0}]


def test_csv_takes_its_types_from_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("n,s,t\n1,x,2024-05-01T10:00:00Z\n,,\n")
    schema = {"n": "int", "s": "text", "t": "time"}
    (table,) = read_file("read-csv", path, schema=schema)
    assert table.column("n").to_pylist() == [1, None]
    assert table.column("t").to_pylist() == [AT_TEN, None]
    path.write_text("n\nx\n")
    with pytest.raises(UnreadableFileError, match="'x' in the column 'n' is not a valid int"):
        read_file("read-csv", path, schema=schema)


KINDS = st.recursive(
    st.sampled_from(
        [pa.null(), pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.bool_(), pa.binary()]
    ),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.dictionaries(st.sampled_from("xyz"), inner, min_size=1).map(
            lambda fields: pa.struct(list(fields.items()))
        ),
    ),
    max_leaves=5,
)
SCHEMAS = st.dictionaries(st.sampled_from("abc"), KINDS, min_size=1).map(
    lambda fields: pa.schema(list(fields.items()))
)


@given(schemas=st.lists(SCHEMAS, min_size=1, max_size=4))
def test_law_a_unified_schema_accepts_its_parts_in_any_order(
    schemas: list[pa.Schema],
) -> None:
    def unify_all(parts: list[pa.Schema]) -> pa.Schema | None:
        whole = parts[0]
        try:
            for part in parts[1:]:
                whole = unify(whole, part)
        except SchemaClashError:
            return None
        return whole

    def sort(schema: pa.Schema | None) -> dict[str, str] | None:
        return schema and {field.name: format_sorted(field.type) for field in schema}

    whole = unify_all(schemas)
    assert sort(unify_all(schemas[::-1])) == sort(whole)
    if whole is None:
        return
    for schema in schemas:
        for field in schema:
            assert find_misfit(field.name, field.type, whole.field(field.name).type) is None
        assert unify(whole, schema) == whole
    assert unpack_schema(pack_schema(whole)) == whole


def format_sorted(kind: pa.DataType) -> str:
    """Format a type with the fields of structs sorted by name."""
    if pa.types.is_struct(kind):
        fields = sorted((field.name, format_sorted(field.type)) for field in kind)
        return f"{{{fields}}}"
    if pa.types.is_list(kind):
        return f"[{format_sorted(kind.value_type)}]"
    return str(kind)


def test_details_without_effect_on_values_are_not_in_a_schema() -> None:
    words = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema(
        [pa.field("a", words, nullable=False), ("b", pa.list_(pa.struct([("c", words)])))],
        metadata={"pandas": "{}"},
    )
    assert format_schema(simplify(schema)) == "{a: text, b: [{c: text}]}"
    assert simplify(schema).metadata is None
