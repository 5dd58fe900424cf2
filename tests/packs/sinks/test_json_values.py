"""Values without a JSON form are written alike by all sinks that write JSON."""

from __future__ import annotations

import datetime as dt
import io
import json
import subprocess
import sys
import tarfile
from math import isfinite
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline_packs.sinks.json_values import format_json, format_lines, list_rows

NAN, INF = float("nan"), float("inf")
SINKS = ["jsonl", "webdataset"]


def write(sink: str, value: pa.Array) -> Any:
    """Return the first value of a column after writing and reading."""
    table = pa.table({"clip": ["a"], "content": [b"x"], "v": value})
    if sink == "jsonl":
        return json.loads(StageRun(sink).written(table), parse_constant=_refuse)["v"]
    content = StageRun(sink).written(table)
    with tarfile.open(fileobj=io.BytesIO(content)) as shard:
        member = shard.extractfile(next(each for each in shard if each.name.endswith(".json")))
        assert member is not None
        return json.loads(member.read(), parse_constant=_refuse)["v"]


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


MAP = pa.map_(pa.string(), pa.float64())
NANOS = pa.timestamp("ns")
VALUES: list[tuple[pa.Array, Any]] = [
    (pa.array([NAN]), None),
    (pa.array([[NAN, -INF, 1.5]]), [None, None, 1.5]),
    (pa.array([[("a", NAN), ("b", 1.0)]], MAP), [["a", None], ["b", 1.0]]),
    (pa.array([{"m": [[("a", INF)]]}], pa.struct([("m", pa.list_(MAP))])), {"m": [[["a", None]]]}),
    (pa.array([10**7], pa.date32()), "+029349-01-26"),
    (pa.array([-(10**6)], pa.date32()), "-000768-02-04"),
    (pa.array([10**18], pa.timestamp("us")), "+033658-09-27T01:46:40"),
    (pa.array([10**18], pa.timestamp("us", "Europe/Berlin")), "+033658-09-27T01:46:40+00:00"),
    (pa.array([1_700_000_000], pa.timestamp("s", "Europe/Berlin")), "2023-11-14T23:13:20+01:00"),
    (pa.array([1], NANOS), "1970-01-01T00:00:00.000000001"),
    (pa.array([1000], NANOS), "1970-01-01T00:00:00.000001"),
    (pa.array([-1], NANOS), "1969-12-31T23:59:59.999999999"),
    (pa.array([[1, None]], pa.list_(NANOS)), ["1970-01-01T00:00:00.000000001", None]),
    (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.date32())), [["a", "1970-01-02"]]),
    (pa.array([{"a": 1, "b": 2}], pa.struct([("a", pa.date32()), ("b", pa.int8())])),
     {"a": "1970-01-02", "b": 2}),
    (pa.array([1], pa.int64()).cast(pa.timestamp("s")).dictionary_encode(), "1970-01-01T00:00:01"),
    (pa.array([86_400_000], pa.date64()), "1970-01-02"),
    (pa.array([1], pa.time64("ns")), "00:00:00.000000001"),
    (pa.array([1], pa.duration("ns")), "0:00:00.000000001"),
    (pa.array([10**15], pa.duration("s")), "11574074074 days, 1:46:40"),
    (pa.array([None], NANOS), None),
]  # fmt: skip


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize(("value", "expected"), VALUES, ids=range(len(VALUES)))
def test_every_sink_writes_values_without_a_json_form_alike(
    sink: str, value: pa.Array, expected: Any
) -> None:
    assert expected == write(sink, value)


TEXTS = st.text(st.sampled_from('\\"\n\r\t\b\f\x7f\u2028%é')) | st.text(
    st.characters(codec="utf-8") | st.sampled_from([chr(code) for code in range(36)])
)
COLUMNS = st.sampled_from(
    [
        (pa.string(), TEXTS),
        (pa.large_string(), TEXTS),
        (pa.dictionary(pa.int32(), pa.string()), TEXTS),
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.uint64(), st.integers(0, 2**64 - 1)),
        (pa.int8(), st.integers(-128, 127)),
        (pa.bool_(), st.booleans()),
        (pa.float64(), st.floats()),
        (pa.float32(), st.floats(width=32)),
        (pa.float16(), st.floats(width=16)),
        (pa.binary(), st.binary()),
        (pa.null(), st.none()),
        (pa.list_(pa.string()), st.lists(TEXTS)),
        (pa.struct([("a", pa.float64())]), st.fixed_dictionaries({"a": st.floats()})),
        (
            pa.struct([("a", pa.list_(pa.string())), ("é", pa.uint64())]),
            st.fixed_dictionaries({"a": st.lists(TEXTS), "é": st.integers(0, 2**64 - 1)}),
        ),
        (pa.map_(pa.string(), pa.bool_()), st.lists(st.tuples(TEXTS, st.booleans()))),
        (pa.list_(pa.date32()), st.lists(st.dates() | st.none())),
        (pa.list_(pa.binary(), 2), st.lists(st.binary(), min_size=2, max_size=2)),
        (pa.list_(pa.int64(), 2), st.lists(st.integers(-9, 9), min_size=2, max_size=2)),
        (pa.date32(), st.dates()),
        (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    ]
)


@given(st.data())
def test_law_a_line_is_the_row_as_json(data: st.DataObject) -> None:
    """Lines are formatted column by column, for slices as well as whole tables."""
    count = data.draw(st.integers(0, 5))
    columns = {}
    for name in data.draw(st.lists(TEXTS, max_size=4, unique=True)):
        kind, values = data.draw(COLUMNS)
        drawn = data.draw(st.lists(st.none() | values, min_size=count, max_size=count))
        columns[name] = pa.array(drawn, kind)
    table = pa.table(columns).slice(data.draw(st.integers(0, 2)))
    lines = [line for lines in format_lines(table) for line in lines]
    rows = [format_json(row, separators=(",", ":")) for row in list_rows(table)]
    assert lines == [f"{row}\n".encode() for row in rows]


@given(st.lists(st.tuples(st.floats(), st.integers(-9, 25)), min_size=9))
def test_law_fractions_are_written_as_python_does(drawn: list[tuple[float, int]]) -> None:
    """Python switches to exponents at other magnitudes than orjson."""
    values = [number for fraction, power in drawn for number in (fraction, 10.0**power)]
    (lines,) = format_lines(pa.table({"n": values, "nested": [[value] for value in values]}))
    texts = [repr(value) if isfinite(value) else "null" for value in values]
    assert lines == [f'{{"n":{text},"nested":[{text}]}}\n'.encode() for text in texts]


def test_lists_as_deep_as_arrow_takes_them_are_written() -> None:
    kind: Any = pa.int64()
    value: Any = 1
    for _ in range(300):
        kind, value = pa.list_(kind), [value]
    (lines,) = format_lines(pa.table({"deep": pa.array([value], kind)}))
    assert lines == [b'{"deep":' + b"[" * 300 + b"1" + b"]" * 300 + b"}\n"]


def test_long_rows_are_formatted_a_few_at_a_time() -> None:
    table = pa.table({"text": ["x" * (1 << 20)] * 9})
    assert max(len(lines) for lines in format_lines(table)) <= 4


def test_output_does_not_depend_on_pandas() -> None:
    script = """
import sys
class Absent:
    def find_spec(self, name, *others):
        if name == "pandas":
            raise ImportError(name)
if sys.argv[1] == "without":
    sys.meta_path.insert(0, Absent())
import pyarrow as pa
from strandline_packs.sinks.json_values import format_json, list_rows
kinds = {"a": pa.timestamp("ns"), "b": pa.duration("ns")}
table = pa.table({name: pa.array([1, 1000], kind) for name, kind in kinds.items()})
print([format_json(row) for row in list_rows(table)])
"""
    answers = {
        subprocess.run(
            [sys.executable, "-c", script, which], capture_output=True, check=True, text=True
        ).stdout
        for which in ("with", "without")
    }
    assert 1 == len(answers)
    assert "00.000000001" in answers.pop()


EARLIEST = dt.datetime.fromisoformat("0001-01-03")
LATEST = dt.datetime.fromisoformat("9999-12-29")
ZONES = st.sampled_from([None, "UTC", "Europe/Berlin", "+05:30", "America/New_York"])


@given(
    moment=st.datetimes(EARLIEST, LATEST),
    zone=ZONES,
    span=st.timedeltas(),
)
def test_times_that_python_has_are_written_as_python_does(
    moment: dt.datetime, zone: str | None, span: dt.timedelta
) -> None:
    column = pa.array([moment], pa.timestamp("us", zone))
    assert column[0].as_py().isoformat() == write("jsonl", column)
    assert moment.date().isoformat() == write("jsonl", pa.array([moment.date()]))
    assert moment.time().isoformat() == write("jsonl", pa.array([moment.time()]))
    small = max(min(span, dt.timedelta(10**8)), dt.timedelta(-(10**8)))
    assert str(small) == write("jsonl", pa.array([small]))


@pytest.mark.parametrize("sink", [*SINKS, "shuffle"])
@pytest.mark.parametrize("nested", [False, True])
def test_two_columns_of_one_name_are_refused(sink: str, *, nested: bool) -> None:
    parts = [pa.array([1]), pa.array([2])]
    twice = ["n", "n"]
    own = {"clip": pa.array(["a"]), "content": pa.array([b"x"]), "bucket": pa.array([b"12345678"])}
    more = (
        {"s": pa.StructArray.from_arrays(parts, twice)}
        if nested
        else dict(zip(["n", "m"], parts, strict=True))
    )
    names = [*own, *(more if nested else twice)]
    table = pa.Table.from_arrays([*own.values(), *more.values()], names)
    with pytest.raises(ValueError, match=r"two (columns|fields) are called 'n'"):
        StageRun(sink).written(table)


def test_two_samples_of_one_name_are_refused() -> None:
    table = pa.table({"clip": ["a", "b", "a"], "content": [b"1", b"2", b"3"]})
    with pytest.raises(ValueError, match="'clip' has 'a' twice"):
        StageRun("webdataset").written(table)
