"""Arrow's reader of JSON Lines against Python's: same rows, types, counts, and errors."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from strandline.data.files.opening import UnreadableFileError
from strandline.plan.task import Task
from strandline_packs.tables.contents import json_rows, json_tables
from strandline_packs.tables.contents.json_tables import JsonTables
from strandline_packs.tables.read_jsonl import ReadJsonl

# JSON values, grouped by what one column may contain.
WHOLE = [b"0", b"-0", b"7", b"-12", b"9007199254740992", b"9007199254740993"]
LARGE = [b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"1" * 30]
BROKEN = [b"1.0", b"-0.0", b"0.1", b"1E5", b"1e22", b"1e-400", b"1e400", b"123456789.125"]
NUMBERS = [b"NaN", b"Infinity", b"-Infinity", b"Inf", b"nan", b"01", b"1.", b"+1", b".5"]
TEXTS = [b'"a"', b'""', '"é潮"'.encode(), b'"\\u00e9\\n\\u0000"', b'"\\ud83d\\ude00"', b'"}{"']
TIMES = [b'"2024-01-01"', b'"2024-01-01T10:00:00"', b'"2024-01-01 10:00:00.5"', b'"2024-01-01Z"']
HALVES = [b'"\\ud800"', b'"\\udc00"', b'"\\ude00\\ud83d"', b'"\xff"', b'"\xed\xa0\x80"', b'"\x01"']
OTHERS = [b"true", b"false"]
FEW = [
    WHOLE[:4], WHOLE, WHOLE + LARGE, BROKEN[:4], WHOLE[:4] + BROKEN[:4], WHOLE + LARGE + BROKEN,
    BROKEN + NUMBERS, TEXTS, TIMES, TEXTS + TIMES, TEXTS + HALVES, OTHERS,
]  # fmt: skip
ALL = [value for values in FEW for value in values]


def nest(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    items = st.lists(values, max_size=3)
    names = st.lists(st.sampled_from([b"x", b"y", b"z"]), max_size=3)
    fields = st.tuples(names, st.lists(values, min_size=3, max_size=3))
    return st.one_of(
        items.map(lambda found: b"[" + b", ".join(found) + b"]"),
        fields.map(lambda found: join_fields(list(zip(*found, strict=False)))),
    )


def join_fields(fields: Sequence[tuple[bytes, bytes]]) -> bytes:
    return b"{" + b", ".join(b'"%s": %s' % field for field in fields) + b"}"


def draw_column(values: list[bytes]) -> st.SearchStrategy[st.SearchStrategy[bytes]]:
    plain = st.sampled_from([*values, b"null"])
    lists = st.lists(plain, max_size=3).map(lambda found: b"[" + b",".join(found) + b"]")
    objects = st.lists(
        st.tuples(st.sampled_from([b"x", b"y"]), plain), max_size=2, unique_by=lambda f: f[0]
    )
    return st.sampled_from([plain, plain, lists, objects.map(join_fields)])


@st.composite
def draw_lines(draw: st.DrawFn) -> bytes:
    names = draw(st.lists(st.sampled_from([b"a", b"b", b"c", b"key", b"\xc3\xa9"]), unique=True))
    columns = {name: draw(draw_column(draw(st.sampled_from(FEW)))) for name in names}
    wild = st.one_of(
        st.sampled_from(ALL), nest(st.sampled_from(ALL)), nest(nest(st.sampled_from(ALL)))
    )
    is_odd = draw(st.booleans())
    lines = []
    for _ in range(draw(st.integers(1, 9))):
        chosen = names if draw(st.integers(0, 2)) else draw(st.permutations(names))[:2]
        fields = [(name, draw(columns[name])) for name in chosen]
        if is_odd and not draw(st.integers(0, 5)):
            fields.append((draw(st.sampled_from([b"a", b"d"])), draw(wild)))
        line = join_fields(fields)
        if is_odd and not draw(st.integers(0, 5)):
            line = draw(st.sampled_from(ODD_LINES)).replace(b"%", line)
        lines.append(line)
    ending = draw(st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\n\n"]))
    return ending.join(lines) + draw(st.sampled_from([ending, b""]))


# Replacements for lines, or text around lines.
ODD_LINES = [
    b"", b" ", b"\x0c", b" %", b"% ", b"%\r", b"\r%", b"\xef\xbb\xbf%", b"%%", b"% %", b"%,",
    b"[%]", b"null", b"1", b'"a"', b"oops", b'{"a": ', b"1}", b'{"a": {}\n{}', b"%\0", b"%\xff",
    b"{%}", b"%}", b'{"a": 1, "a": 2}', b'{"a": {"x": 1, "x": 2}}', b'{"\xff": 1}',
    b'{"\\ud800": 1}', b'{"a": "%s"}' % (b"x" * 300), b"{'a': 1}", b'{"a": 1 /* one */}',
    b'{"": 1}', b'{"a.b": 1}',
]  # fmt: skip


class Result(NamedTuple):
    """A reader's result: types and rows of all tasks, dropped rows, and the final error."""

    tasks: list[tuple[pa.Schema, str]]
    counters: dict[str, int]
    error: str


def read(path: Path, *, start: int = 0, stop: int | None = None, **params: Any) -> Result:
    stage = ReadJsonl(**params)
    listed = pa.table({"key": ["k"], "path": [str(path)], "start": [start], "stop": [stop]})
    found = Result([], stage.counters, "")
    try:
        # Compare as text, because NaN equals nothing and -0.0 equals 0.0.
        for task in stage.process(Task(listed)):
            text = repr(task.table.to_pylist())
            found.tasks.append((task.table.schema, text))
    except UnreadableFileError as error:
        return found._replace(error=str(error))
    return found


def read_by_python(path: Path, **params: Any) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JsonTables, "parse", lambda *_: None)
        return read(path, **params)


bounds = st.fixed_dictionaries(
    {
        "bad_lines": st.sampled_from(["drop", "fail"]),
        "max_rows": st.sampled_from([1, 2, 3, 100]),
        "max_task_bytes": st.sampled_from([40, 100, 1 << 20]),
        "max_line_bytes": st.sampled_from([60, 1 << 20]),
    },
    optional={
        "schema": st.sampled_from(
            [{"a": "text"}, {"a": "float", "b": "text"}, {"a": ["int"], "b": {"x": "time"}}]
        ),
        "start": st.integers(0, 80),
        "stop": st.integers(40, 200),
    },
)
NONE: dict[str, Any] = {}


@given(content=draw_lines(), params=bounds, part=st.sampled_from([0, 30, 1 << 20]))
@example(content=b'{"a": "2024-01-01"}\n{"b": 1, "a": "x"}\n', params={"max_rows": 1}, part=1)
@example(
    content=b'{"a": "2024-01-01", "b": 1}\n{"b": 2, "a": null}\n', params={"max_rows": 1}, part=1
)
@example(content=b'{"a": "2024-01-01"}\n{"a": 1}\n{"a": 2}\n', params={"max_rows": 1}, part=1)
@example(content=b'{"a": {"x": "2024-01-01"}}\n', params=NONE, part=1)
@example(content=b'{"a": 9007199254740993}\n{"a": 0.5}\n', params={"bad_lines": "drop"}, part=1)
@example(content=b'{"a": -0}\n{"a": 0.5}\n', params=NONE, part=1)
@example(content=b'{"a": 3}\n{"a": 1}{"a": 2}\n', params={"bad_lines": "drop"}, part=1)
@example(content=b'{"c": 1}\n{"a":\n{"b": 1}}\n{"a": {}}{}\n', params={"bad_lines": "drop"}, part=1)
@example(content=b'{"c": 1}\n{"a": {}\n, "b": {}}\n{}{}\n', params={"bad_lines": "drop"}, part=1)
@example(content=b'{"a": "b"}\n{"a": "\xff"}\n', params={"bad_lines": "drop"}, part=1)
@example(content=b'{"key": "a"}\n{"b": 1}\n', params=NONE, part=1)
@example(content=b'{"a": 1}\noops\n', params={"max_rows": 1}, part=1)
@settings(max_examples=scale_examples(300))
def test_law_both_readers_give_the_same(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, params: dict[str, Any], part: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_tables, "_PART_BYTES", part)
        found = read(path, **params)
    assert found == read_by_python(path, **params)


ROWS = [{"id": str(n), "score": n / 3, "meta": {"lines": n, "tags": ["a", "é"]}} for n in range(50)]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_plain_lines_are_read_only_by_arrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes("".join(json.dumps(row) + ending for row in ROWS).encode())
    expected = read_by_python(path, max_rows=20)
    monkeypatch.setattr(json_rows, "_convert", None)  # all of Python's rows pass through it
    assert read(path, max_rows=20) == expected
    assert len(expected.tasks) == 3


@pytest.mark.parametrize(("line", "error"), [("oops", "#L31: not a JSON object"), ("{}", "ended")])
def test_lines_before_a_damaged_part_are_evaluated_first(
    tmp_path: Path, line: str, error: str
) -> None:
    path = tmp_path / "a.jsonl.gz"
    lines = [json.dumps(row) for row in ROWS]
    lines[30] = line
    noise = random.Random(1).randbytes(4 << 20).hex()
    packed = gzip.compress("\n".join([*lines, json.dumps({"n": noise})]).encode(), mtime=0)
    path.write_bytes(packed[:-1000])
    found = read(path, max_rows=20)
    assert found == read_by_python(path, max_rows=20)
    assert error in found.error
    assert len(found.tasks) == (1 if line == "oops" else 2)


def test_dates_are_text_and_cost_one_second_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[JsonTables.__module__]
    read_block, looks = module._read_block, []

    def note(block: bytes, kinds: Any) -> pa.Table:
        looks.append(dict(kinds))
        return read_block(block, kinds)

    monkeypatch.setattr(module, "_read_block", note)
    tables = JsonTables()
    lines: list[bytes | None] = [b'{"n": 1, "day": "2024-01-01"}', b'{"n": 2, "day": "2024-01-02"}']
    for _ in range(3):
        table = tables.parse(lines)
        assert table is not None
        assert table.to_pydict() == {"n": [1, 2], "day": ["2024-01-01", "2024-01-02"]}
    text = {"day": pa.string()}
    assert looks == [{}, text, text, text]


def test_arrow_is_tried_less_often_after_failures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(JsonTables, "_read", lambda *_: asked.append(True))
    tables = JsonTables()
    for _ in range(100):
        tables.parse([b"oops"])
    assert len(asked) == 7


@pytest.mark.parametrize("piece", ["[", '{"a": '])
def test_a_deeply_nested_line_does_not_crash_the_process(tmp_path: Path, piece: str) -> None:
    path = tmp_path / "a.jsonl"
    # Arrow's reader would overflow the stack.
    end = {"[": "]", '{"a": ': "}"}[piece]
    path.write_text('{"m": 1}\n{"n": ' + piece * 200_000 + "2" + end * 200_000 + "}\n")
    script = (
        "import sys, pyarrow as pa\n"
        "from strandline.plan.task import Task\n"
        "from strandline_packs.tables.read_jsonl import ReadJsonl\n"
        "stage = ReadJsonl(bad_lines='drop')\n"
        "listed = pa.table({'key': ['k'], 'path': [sys.argv[1]]})\n"
        "print([task.table.num_rows for task in stage.process(Task(listed))], stage.counters)\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "[1] {'dropped: not a JSON object': 1}\n", done.stderr
