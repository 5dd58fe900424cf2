"""Entries of sources are the same after packing and unpacking."""

from __future__ import annotations

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from strandline.ledger.records.entries import (
    Change,
    FailureRecord,
    ListedSource,
    Mark,
    QuarantinedSource,
    SourceRecord,
)
from strandline.ledger.records.packing import (
    create_packer,
    pack,
    pack_listed,
    pack_record,
    read_parts,
    unpack_failure,
    unpack_listed,
    unpack_mark,
    unpack_quarantined,
    unpack_record,
)
from strandline.plan.receipt import (
    Effort,
    Output,
    Piece,
    PieceLocation,
    RowChange,
    SharedPart,
)
from strandline.plan.token import derive_root

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBER = st.integers(0, 2**63)
VERSIONS = st.binary(min_size=8, max_size=8)
TOKENS = st.binary(min_size=16, max_size=16)
PARTS = st.none() | st.builds(SharedPart, TOKENS, NUMBER, NUMBER, NUMBER)
SUFFIXES = st.sampled_from([".parquet", ""])
OUTPUTS = st.builds(Output, TOKENS, SUFFIXES, NUMBER, TOKENS, NUMBER, PARTS)
PIECES = st.builds(Piece, TEXT, TOKENS, st.builds(PieceLocation, NUMBER, NUMBER, NUMBER, TOKENS))
SHARES = [(b"f" * 16, 3), (b"f" * 16, 4), (b"g" * 16, 1)]
EFFORTS = st.builds(Effort, TEXT, NUMBER, NUMBER, st.floats(0, 1e9), NUMBER, st.just(()))
REASONS = st.lists(st.tuples(TEXT, NUMBER), max_size=2).map(tuple)
CHANGES = st.builds(RowChange, TEXT, st.integers(-(2**62), 2**62), REASONS)


@given(
    TOKENS,
    VERSIONS,
    TEXT,
    st.lists(OUTPUTS),
    st.lists(PIECES),
    st.lists(EFFORTS),
    st.lists(CHANGES),
)
def test_records_are_unpacked_unchanged(
    source: bytes,
    version: bytes,
    key: str,
    outputs: list[Output],
    pieces: list[Piece],
    efforts: list[Effort],
    changes: list[RowChange],
) -> None:
    root = Output(derive_root(source, version), ".jsonl", 5, b"d" * 16, 2)
    record = SourceRecord(key, (root, *outputs), tuple(pieces), tuple(efforts), tuple(changes))
    assert record == unpack_record(source, version, pack_record(source, version, record))


def test_a_record_without_efforts_has_no_extra_bytes() -> None:
    packed = pack_record(b"s" * 16, b"v" * 8, SourceRecord("key", ()))
    assert msgpack.unpackb(packed) == ["key", []]


def test_a_record_of_unshared_files_has_no_parts() -> None:
    output = Output(b"t" * 16, ".jsonl", 5, b"d" * 16, 2)
    packed = pack_record(b"s" * 16, b"v" * 8, SourceRecord("key", (output,)))
    assert msgpack.unpackb(packed) == ["key", [[b"t" * 16, ".jsonl", 5, b"d" * 16, 2]]]


def test_rows_of_a_packed_record_are_counted_by_shared_file() -> None:
    own = Output(b"t" * 16, ".jsonl", 5, b"d" * 16, 2)
    parts = [own._replace(rows=rows, part=SharedPart(file, 0, 9, 9)) for file, rows in SHARES]
    packed = pack_record(b"s" * 16, b"v" * 8, SourceRecord("key", (own, *parts)))
    assert read_parts(packed) == {b"f" * 16: 7, b"g" * 16: 1}


def test_the_token_of_a_root_costs_nothing() -> None:
    source, version = b"s" * 16, b"v" * 8
    root = Output(derive_root(source, version), ".jsonl", 5, b"d" * 16, 2)
    packed = pack_record(source, version, SourceRecord("key", (root,)))
    assert root.token not in packed
    assert 16 == len(
        pack_record(source, version, SourceRecord("key", (root._replace(token=b"t" * 16),)))
    ) - len(packed)


@given(st.lists(st.builds(ListedSource, TOKENS, VERSIONS, TEXT, NUMBER)))
def test_listed_sources_are_unpacked_unchanged(batch: list[ListedSource]) -> None:
    arrived = unpack_listed(pack_listed(batch))
    assert batch == arrived
    assert all(type(listed) is ListedSource for listed in arrived)


@given(st.lists(st.tuples(TOKENS, VERSIONS, TEXT, st.lists(OUTPUTS)), max_size=5))
def test_law_an_entry_has_the_same_bytes_whatever_was_packed_before(
    finished: list[tuple[bytes, bytes, str, list[Output]]],
) -> None:
    packer = create_packer()
    for source, version, key, outputs in finished:
        record = SourceRecord(key, tuple(outputs))
        alone = pack_record(source, version, record)
        assert alone == pack_record(source, version, record, packer)


@given(st.builds(Mark, TEXT, VERSIONS, NUMBER, NUMBER, st.booleans(), NUMBER, NUMBER))
def test_marks(mark: Mark) -> None:
    assert mark == unpack_mark(pack(mark))


@given(st.builds(FailureRecord, TEXT, NUMBER, TEXT, TEXT, NUMBER, VERSIONS))
def test_failures_are_unpacked_unchanged(failure: FailureRecord) -> None:
    assert failure == unpack_failure(pack(failure))


@given(st.builds(QuarantinedSource, TEXT, VERSIONS, NUMBER, TEXT, TEXT, TEXT, NUMBER))
def test_quarantined_sources_are_unpacked_unchanged(parked: QuarantinedSource) -> None:
    assert parked == unpack_quarantined(pack(parked))


def test_entries_older_than_the_quarantine_can_be_read() -> None:
    mark = unpack_mark(msgpack.packb(("key", b"v" * 8, 3, 7, True, 2)))
    assert Mark("key", b"v" * 8, 3, 7, is_stale=True, failed_before=2, exposed=0) == mark
    failure = unpack_failure(msgpack.packb(("key", 3, "decode", "no such codec", 2)))
    assert FailureRecord("key", 3, "decode", "no such codec", 2, b"") == failure


def test_a_change_is_true_if_it_changes_something() -> None:
    assert not Change()
    assert Change(forget=[b"s" * 16])
    assert Change(quarantine=[(b"s" * 16, QuarantinedSource("key", b"", 1, "Killed", "", "", 3))])
    assert Change(meta={"listed": 0})
