"""Values that no column can hold drop only their own line, whatever the other lines are."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError

SEVEN = [{"n": number, "t": f"t{number}", "d": {"x": [number]}} for number in range(7)]
ODD = {
    b'{"n": 9223372036854775808}': ("n", "whole number of 64 bits", "whole number beyond 63 bits"),
    b'{"n": ' + b"9" * 400 + b"}": ("n", "whole number of", "whole number beyond 63 bits"),
    b'{"n": ' + b"9" * 9000 + b"}": ("n", "whole number of", "whole number beyond 63 bits"),
    b'{"t": "\\ud800"}': ("t", "unpaired surrogate", "half a surrogate"),
    b'{"t\\udfff": 1}': ("t\\udfff", "unpaired surrogate", "half a surrogate"),
    b'{"d": {"x": ["\\ud83d"]}}': ("d.x[]", "unpaired surrogate", "half a surrogate"),
    b'{"n": "one"}': ("n", "text, where most rows have a number", None),
    b'{"n": true}': ("n", "a boolean, where", None),
    b'{"t": 1}': ("t", "a number, where most rows have text", None),
    b'{"d": {"x": ["a"]}}': ("d.x[]", "text, where most rows have a number", None),
    b'{"d": {"x": 1}}': ("d.x", "a number, where most rows have a list", None),
    b'{"d": []}': ("d", "a list, where most rows have an object", None),
    b'{"m": [1, "a"]}': ("m[]", "a number and text", "values of two types in a list"),
}
OTHER_TYPE = "value of another type than its column"


def lines(*rows: Any) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


def read(path: Path, content: bytes, **values: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
    path.write_bytes(content)
    run = StageRun("read-jsonl", **values)
    tables = run.tables([{"key": path.name, "path": str(path)}])
    return [row for table in tables for row in table.to_pylist()], run.counters


@pytest.mark.parametrize("position", [0, 3, 7])
@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_a_bad_value_fails_its_line_and_names_its_column(
    tmp_path: Path, odd: bytes, position: int
) -> None:
    path = tmp_path / "a.jsonl"
    whole = lines(*SEVEN)
    content = b"\n".join([*whole[:position], odd, *whole[position:]])
    column, details, reason = ODD[odd]
    with pytest.raises(UnreadableFileError) as caught:
        read(path, content)
    start = f"a.jsonl#L{position + 1}: the column "
    assert str(caught.value).startswith(start), caught.value
    assert column in str(caught.value).replace("\\\\", "\\")
    assert details in str(caught.value)
    rows, counters = read(path, content, badLines="drop")
    assert SEVEN == [{name: row[name] for name in ("n", "t", "d")} for row in rows]
    assert {f"dropped: {reason or OTHER_TYPE}": 1} == counters


def test_the_line_number_is_correct_although_the_row_has_a_key(tmp_path: Path) -> None:
    content = b'{"key": "mine", "n": 1}\n{"key": "other", "n": 1}\n{"key": "x", "n": "one"}'
    with pytest.raises(UnreadableFileError, match=r"^a\.jsonl#L3: the column 'n' has text"):
        read(tmp_path / "a.jsonl", content)


@pytest.mark.parametrize(
    ("values", "kept"),
    [([2**60, 2**61, 1.5], [2**60, 2**61]), ([2**60, 1.5, 2.5], [1.5, 2.5]), ([1, 1.5], [1, 1.5])],
)
def test_large_whole_numbers_and_fractions_lose_no_digits(
    tmp_path: Path, values: list[float], kept: list[float]
) -> None:
    content = b"\n".join(lines(*({"n": value} for value in values)))
    rows, counters = read(tmp_path / "a.jsonl", content, badLines="drop")
    assert kept == [row["n"] for row in rows]
    assert len(values) - len(kept) == sum(counters.values())


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**66), 2**66)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "\ud800"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)
LINES = (
    st.dictionaries(st.sampled_from(["n", "t"]), VALUES).map(json.dumps).map(str.encode)
    | st.sampled_from([b"", b"  ", b"[1]", b"3", b'{"n": ', b"\xff", b"\0\0"])
    | st.sampled_from(sorted(ODD))
)


@given(content=st.lists(LINES, max_size=9), most=st.integers(1, 9))
def test_every_line_is_kept_or_counted(
    tmp_path_factory: pytest.TempPathFactory, content: list[bytes], most: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    seen = sum(1 for line in content if line.strip())
    try:
        rows, counters = read(path, b"\n".join(content), badLines="drop", maxRows=most)
    except UnreadableFileError:  # nothing is left of the file, or the lines form one array
        assert seen
        return
    assert seen == len(rows) + sum(counters.values())
    assert bool(rows) == bool(seen)
    numbers = [int(row["key"].rpartition("L")[2]) for row in rows]
    assert numbers == sorted(set(numbers))
    for number, row in zip(numbers, rows, strict=True):
        there = json.loads(content[number - 1])
        assert there == {name: _drop_nulls(row[name], there[name]) for name in there}


def _drop_nulls(value: Any, like: Any) -> Any:
    """Return the value without the fields that only other values of its column have."""
    if isinstance(like, dict):
        return {name: _drop_nulls(value[name], like[name]) for name in like}
    if isinstance(like, list):
        return [_drop_nulls(item, other) for item, other in zip(value, like, strict=True)]
    return value


ARRAY = b'[\n{"n": 1},\n{"n": 2}\n]\n'
KINDS: list[tuple[str, bytes, str]] = [
    ("a.jsonl", gzip.compress(b'{"n": 1}\n' * 99), "gzip: .* name that ends in .gz"),
    ("a.jsonl", b"\xfd7zXZ\0\0\x04", "xz: decompress it"),
    ("a.jsonl", pa.compress(b'{"n": 1}\n' * 9, codec="zstd", asbytes=True), "zstd: .* in .zst"),
    ("a.jsonl", '{"n": 1}\n{"n": 2}\n'.encode("utf-16"), "UTF-16: convert it to UTF-8"),
    ("a.jsonl", '{"n": 1}\n{"n": 2}\n'.encode("utf-16-le"), "UTF-16: convert it to UTF-8"),
    ("a.jsonl", '{"n": 1}\n{"n": 2}\n'.encode("utf-16-be"), "UTF-16: convert it to UTF-8"),
    ("a.jsonl", b'[{"n": 1}, {"n": 2}]', "one JSON array: write its items as lines"),
    ("a.jsonl", ARRAY, "one JSON array"),
    ("a.jsonl", b"\xef\xbb\xbf" + ARRAY, "one JSON array"),
    ("a.jsonl.gz", gzip.compress(ARRAY), "one JSON array"),
    ("a.jsonl", b'{\n "n": 1\n}\n', "one JSON object over several lines"),
    ("a.jsonl", b'{"n": 1}\r{"n": 2}\r', "lines that end in CR alone"),
    ("a.jsonl", b"<!-- x --><html><title>404</title>", "HTML: fetch the file itself"),
    ("a.jsonl", b"<!doctype html>\n<form><input type='password'>", "a login page"),
    ("a.jsonl.gz", b"<!doctype html>\n<form><input type='password'>", "a login page"),
    ("a.jsonl.zst", b'{"n": 1}\n', "JSON Lines"),
    ("a.jsonl.gz", b"", "nothing: the file is empty"),
    ("a.jsonl", b"PAR1abc\n", "Parquet: list it with parquet-row-groups"),
    ("a.jsonl", b"n,t\n1,one\n", "text, 'n,t'"),
    ("a.jsonl", bytes(600), r"a hole \(zeros\)"),
    ("a.jsonl", b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
]


@pytest.mark.parametrize("bad", ["drop", "fail"])
@pytest.mark.parametrize(("name", "content", "message"), KINDS, ids=range(len(KINDS)))
def test_a_file_without_any_valid_line_fails(
    tmp_path: Path, name: str, content: bytes, message: str, bad: str
) -> None:
    with pytest.raises(UnreadableFileError, match=rf"(?s)^{name}.*{message}"):
        read(tmp_path / name, content, badLines=bad)


@pytest.mark.parametrize(
    ("name", "pack"), [("a.jsonl", bytes), ("a.jsonl.gz", gzip.compress), ("b.jsonl", bytes)]
)
def test_empty_files_of_a_format_have_no_rows(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    assert ([], {}) == read(tmp_path / name, pack(b"" if name[0] == "a" else b"\n \r\n"))


def test_an_empty_file_does_not_hide_an_invalid_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b'{"n": 1}\n')
    (tmp_path / "b").write_bytes(b"[1]\n[2]\n")
    rows = [{"key": name, "path": str(tmp_path / name)} for name in "ab"]
    with pytest.raises(UnreadableFileError, match="b: none of its 2 lines is a row"):
        StageRun("read-jsonl", badLines="drop").tables(rows)
