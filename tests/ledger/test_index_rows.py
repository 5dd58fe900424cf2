"""Rows of the finished index behave like a dictionary, for all sizes of stamps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.ledger.store.index import IndexEntry, IndexRows, key_row, pack_entry

# Few different bytes, so that tails repeat within entries and across the borders of entries.
BYTES = st.sampled_from([b"\x00", b"\x01", b"\xff"])
HEAD = b"\xab\xcd"
KEY = HEAD + b"\x50"
DIGESTS = st.tuples(
    st.sampled_from([b"\x50", b"\x5f"]), st.lists(BYTES, min_size=13, max_size=13)
).map(lambda parts: HEAD + parts[0] + b"".join(parts[1]))
STAMPS = st.sampled_from([3, 5])
Steps = list[tuple[bytes, IndexEntry | None]]
Scene = tuple[IndexRows, Steps, IndexEntry]


def entries(stamp: int) -> st.SearchStrategy[IndexEntry]:
    def draw(size: int) -> st.SearchStrategy[bytes]:
        return st.lists(BYTES, min_size=size, max_size=size).map(b"".join)

    return st.builds(IndexEntry, draw(8), draw(stamp))


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Draw an index, changes of one row, and another entry."""
    stamp = draw(STAMPS)
    step = st.tuples(DIGESTS, st.none() | entries(stamp))
    return IndexRows(stamp), draw(st.lists(step, max_size=40)), draw(entries(stamp))


def put(rows: IndexRows, row: bytes, digest: bytes, entry: IndexEntry) -> bytes:
    return rows.remove(row, digest) + pack_entry(digest, entry)


def play(rows: IndexRows, steps: Steps) -> bytes:
    row = b""
    for digest, entry in steps:
        row = rows.remove(row, digest) if entry is None else put(rows, row, digest, entry)
    return row


@given(scenes(), st.lists(DIGESTS))
def test_a_row_holds_what_a_dictionary_would(scene: Scene, asked: list[bytes]) -> None:
    rows, steps, _ = scene
    model: dict[bytes, IndexEntry] = {}
    for digest, entry in steps:
        model.pop(digest, None)
        if entry is not None:
            model[digest] = entry
    row = play(rows, steps)
    assert len(row) == rows.width * len(model)
    assert list(model.items()) == list(rows.list_entries([(KEY, row)]))
    for digest in [*asked, *(digest for digest, _ in steps)]:
        assert model.get(digest) == rows.find(row, digest)


@given(scenes(), DIGESTS)
def test_finished_before_matches_the_entry(scene: Scene, asked: bytes) -> None:
    rows, steps, now = scene
    row = play(rows, steps)
    for digest in [asked, *(digest for digest, _ in steps)]:
        known = rows.find(row, digest)
        for version, since in (now, known or now):
            expected = known is not None and version == known.version and known.stamp < since
            assert expected == rows.is_finished_before(row, digest, version, since)


@given(STAMPS)
def test_an_entry_that_also_matches_across_a_border_is_found(stamp: int) -> None:
    rows = IndexRows(stamp)
    same, fill = b"\x50", b"\x50" * 13
    first, second = HEAD + same + b"\x00" + fill[1:], HEAD + same + fill
    row = put(rows, b"", first, IndexEntry(same * 8, same * stamp))
    row = put(rows, row, second, IndexEntry(same * 8, b"\x07" * stamp))
    assert 0 < row.find(second[2:] + same * 8) < rows.width
    assert rows.is_finished_before(row, second, same * 8, b"\x08" * stamp)
    assert not rows.is_finished_before(row, second, same * 8, b"\x07" * stamp)


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_digests_share_a_row_when_their_first_20_bits_agree(one: bytes, other: bytes) -> None:
    agree = one.hex()[:5] == other.hex()[:5]
    assert agree == (key_row(one) == key_row(other))


@given(STAMPS)
def test_a_match_across_two_entries_is_ignored(stamp: int) -> None:
    """A digest is not in a row if its tail matches only across the border of two entries."""
    rows = IndexRows(stamp)
    first, second = HEAD + bytes(14), HEAD + bytes([0, *[1] * 13])
    row = put(rows, b"", first, IndexEntry(b"v" * 8, b"\x07" * stamp))
    row = put(rows, row, second, IndexEntry(b"w" * 8, b"\x07" * stamp))
    astride = HEAD + row[rows.width - 3 : rows.width + 11]
    assert 0 < row.find(astride[2:])
    assert rows.find(row, astride) is None
    assert row == rows.remove(row, astride)
