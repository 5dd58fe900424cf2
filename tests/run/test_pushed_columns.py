"""Column types and names of each table format: written unchanged, or rejected by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import Catalog, load_catalog

from strandline.data.shipments.contents import Contents
from strandline.data.shipments.shipment import PushResult, Shipment, ShippedFile, TargetRefusedError
from strandline.data.tables.formats import iceberg
from strandline.data.tables.formats.changes import TablePush
from strandline.data.tables.formats.registry import push_to_table
from strandline.storage.outputs.disk.shards import digest_bytes

pytestmark = [
    pytest.mark.first(reason="writes each type into each kind of table"),
    pytest.mark.filterwarnings("ignore::polars.exceptions.PerformanceWarning"),
]

NOON = datetime(2026, 1, 2, 12, 30, 15, 123456, UTC)
PLAIN = NOON.replace(tzinfo=None)
BIG = Decimal("1234567890123456789012345678.1234567890")
# A column type, an example value, and the table formats that accept the type.
ALL = frozenset({"delta", "iceberg", "lance"})
TYPES: list[tuple[pa.DataType, Any, Collection[str]]] = [
    (pa.bool_(), True, ALL),
    (pa.int8(), -128, ALL),
    (pa.int16(), -(2**15), ALL),
    (pa.int32(), 2**31 - 1, ALL),
    (pa.int64(), 2**63 - 1, ALL),
    (pa.uint8(), 255, {"iceberg", "lance"}),
    (pa.uint16(), 2**16 - 1, {"iceberg", "lance"}),
    (pa.uint32(), 2**32 - 1, {"lance"}),
    (pa.uint64(), 2**64 - 1, {"lance"}),
    (pa.float16(), 1.5, {"lance"}),
    (pa.float32(), 1.5, ALL),
    (pa.float64(), 0.1, ALL),
    (pa.decimal128(38, 10), BIG, ALL),
    (pa.decimal32(5, 2), Decimal("1.25"), set()),
    (pa.decimal256(60, 10), BIG, {"lance"}),
    (pa.date32(), PLAIN.date(), ALL),
    (pa.timestamp("ms"), PLAIN.replace(microsecond=0), ALL),
    (pa.timestamp("us"), PLAIN, ALL),
    (pa.timestamp("us", "UTC"), NOON, ALL),
    (pa.timestamp("us", "Europe/Berlin"), NOON, {"lance"}),
    (pa.timestamp("ns"), PLAIN, {"lance"}),
    (pa.timestamp("ns", "UTC"), NOON, {"lance"}),
    (pa.time32("ms"), time(12, 30), {"lance"}),
    (pa.time64("us"), PLAIN.time(), {"iceberg", "lance"}),
    (pa.time64("ns"), PLAIN.time(), {"lance"}),
    (pa.duration("us"), PLAIN - PLAIN.replace(hour=1), {"lance"}),
    (pa.string(), "é", ALL),
    (pa.large_string(), "é", ALL),
    (pa.string_view(), "é", ALL),
    (pa.binary(), b"\xff", ALL),
    (pa.binary(3), b"abc", ALL),
    (pa.dictionary(pa.int32(), pa.string()), "a", ALL),
    (pa.list_(pa.int64()), [1, None], ALL),
    (pa.list_(pa.uint64()), [2**64 - 1], {"lance"}),
    (pa.struct([("a", pa.timestamp("ns"))]), {"a": PLAIN}, {"lance"}),
    (pa.struct([("a", pa.int64())]), {"a": 1}, ALL),
    (pa.map_(pa.string(), pa.int64()), [("a", 1)], ALL),
    (pa.map_(pa.string(), pa.float16()), [("a", 1.5)], {"lance"}),
]


class Target:
    """A table that does not exist yet, and the rows that readers see in it."""

    def __init__(self, kind: str, folder: Path, catalog: Catalog) -> None:
        self.kind, self._folder, self._catalog = kind, folder, catalog
        self._path = str(folder / "table")

    def push(self, table: pa.Table) -> PushResult:
        outputs = self._folder / "outputs"
        outputs.mkdir()
        pq.write_table(table, outputs / "a.parquet")
        content = (outputs / "a.parquet").read_bytes()
        file = ShippedFile("a.parquet", len(content), digest_bytes(content), table.num_rows)
        shipment = Shipment("default/a", "first", "f", "l", 1, (file,), b"")
        contents = Contents(str(outputs))
        name = "trial/n.t" if self.kind == "iceberg" else self._path
        push = TablePush(shipment, contents, name, lambda: 0.0, lambda: None)
        return push_to_table(self.kind, push)

    def read_all(self) -> list[pa.Table]:
        """Return the rows as each library reads them. The first library wrote the table."""
        if self.kind == "delta":
            own = pa.table(DeltaTable(self._path).to_pyarrow_table())
            return [own, pl.read_delta(self._path).to_arrow()]
        if self.kind == "iceberg":
            opened = self._catalog.load_table("n.t")
            return [opened.scan().to_arrow(), pl.scan_iceberg(opened).collect().to_arrow()]
        return [lance.dataset(self._path).to_table()]

    def is_there(self) -> bool:
        if self.kind == "iceberg":
            return self._catalog.table_exists("n.t")
        return os.path.lexists(self._path)


@pytest.fixture(params=["delta", "iceberg", "lance"])
def target(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Target:
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/w"}

    def open_catalog(_: str = "") -> Catalog:
        return load_catalog("trial", **settings)

    monkeypatch.setattr(iceberg, "load_catalog", open_catalog)
    return Target(request.param, tmp_path, open_catalog())


@pytest.mark.parametrize(("kind", "value", "takers"), TYPES, ids=[str(kind) for kind, *_ in TYPES])
def test_every_type_is_preserved_or_refused(
    target: Target, kind: pa.DataType, value: Any, takers: Collection[str]
) -> None:
    table = pa.table({"n": [1, 2], "c": pa.array([value, None], kind)})
    if target.kind not in takers:
        with pytest.raises(
            TargetRefusedError, match=r"the column 'c.*, which .* does not support; change"
        ):
            target.push(table)
        assert not target.is_there()
        return
    assert target.push(table).is_new
    for rows in target.read_all():
        assert [_normalise(row) for row in rows["c"].to_pylist()] == [_normalise(value), None]


def _normalise(value: Any) -> Any:
    """Convert maps, which libraries return as lists of pairs or of objects with key and value."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [tuple(pair.values()) for pair in value]
    return value


@pytest.mark.parametrize(
    ("names", "refusing", "words"),
    [
        (["a", "A"], {"delta", "iceberg"}, "the columns 'a' and 'A' are the same column"),
        (["a.b"], {"lance"}, "has '.' in its name"),
        (["a b"], set(), ""),
        ([""], {"delta", "iceberg", "lance"}, "has no name"),
        (['a"b'], {"lance"}, "in its name"),
        (["_rowid"], {"lance"}, "reserves"),
        (["select"], set(), ""),
    ],
)
def test_every_name_is_preserved_or_refused(
    target: Target, names: list[str], refusing: set[str], words: str
) -> None:
    columns = [pa.array([at]) for at in range(len(names) + 1)]
    table = pa.table(columns, names=["n", *names])
    if target.kind in refusing:
        with pytest.raises(TargetRefusedError, match=words):
            target.push(table)
        assert not target.is_there()
        return
    target.push(table)
    assert [rows.to_pylist() for rows in target.read_all()] == [table.to_pylist()] * len(
        target.read_all()
    )


@pytest.mark.parametrize(
    ("build", "refusing", "words"),
    [
        (
            lambda: {"a": [{"b": 1, "B": 2}]},
            {"delta", "iceberg"},
            "'a.b' and 'a.B' are the same column",
        ),
        (lambda: {"a": [{"b": 1}], "a.b": [2]}, {"iceberg", "lance"}, "'a.b'"),
        (lambda: {"a": [{"_rowid": 1}]}, {"lance"}, "'a._rowid' has a name"),
    ],
)
def test_fields_of_columns_are_checked_like_columns(
    target: Target, build: Callable[[], dict[str, Any]], refusing: set[str], words: str
) -> None:
    table = pa.table(build())
    if target.kind not in refusing:
        target.push(table)
        assert target.read_all()[0].to_pylist() == table.to_pylist()
        return
    with pytest.raises(TargetRefusedError, match=words):
        target.push(table)
    assert not target.is_there()
