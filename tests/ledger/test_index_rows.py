"""Rows of the finished index, against a dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.ledger.store.index import (
    WIDTH,
    IndexEntry,
    find_entry,
    is_finished_before,
    key_row,
    list_entries,
    pack_attempt,
    put_entry,
    remove_entry,
)

# Few different bytes: so tails repeat inside each other and across the borders of entries.
BYTES = st.sampled_from([b"\x00", b"\x01", b"\xff"])
MAX_ATTEMPT = (1 << 24) - 1  # it has three bytes
HEAD = b"\xab\xcd"
DIGESTS = st.tuples(
    st.sampled_from([b"\x50", b"\x5f"]), st.lists(BYTES, min_size=13, max_size=13)
).map(lambda parts: HEAD + parts[0] + b"".join(parts[1]))
ENTRIES = st.builds(
    IndexEntry, st.lists(BYTES, min_size=8, max_size=8).map(b"".join), st.integers(0, MAX_ATTEMPT)
)
STEPS = st.lists(st.tuples(DIGESTS, st.none() | ENTRIES), max_size=40)


@given(STEPS, st.lists(DIGESTS))
def test_a_row_holds_what_a_dictionary_would(
    steps: list[tuple[bytes, IndexEntry | None]], asked: list[bytes]
) -> None:
    row, model = b"", dict[bytes, IndexEntry]()
    for digest, entry in steps:
        if entry is None:
            row = remove_entry(row, digest)
            model.pop(digest, None)
        else:
            row = put_entry(row, digest, entry)
            model[digest] = entry
        assert len(row) == WIDTH * len(model)
    assert model == dict(list_entries(HEAD + b"\x50", row))
    for digest in [*asked, *(digest for digest, _ in steps)]:
        assert model.get(digest) == find_entry(row, digest)


@given(STEPS, DIGESTS, ENTRIES)
def test_finished_before_is_what_the_entry_says(
    steps: list[tuple[bytes, IndexEntry | None]], asked: bytes, now: IndexEntry
) -> None:
    row = b""
    for digest, entry in steps:
        row = remove_entry(row, digest) if entry is None else put_entry(row, digest, entry)
    for digest in [asked, *(digest for digest, _ in steps)]:
        known = find_entry(row, digest)
        for version, attempt in (now, known or now):
            expected = known is not None and version == known.version and attempt != known.attempt
            stamp = pack_attempt(attempt)
            assert expected == is_finished_before(row, digest, version, stamp)
            if known is not None and known.attempt == attempt:
                other = pack_attempt(attempt ^ 1)
                assert (version == known.version) == is_finished_before(row, digest, version, other)


def test_an_entry_that_also_stands_across_two_is_found() -> None:
    same, fill = b"\x50", b"\x50" * 13
    first, second = HEAD + same + b"\x00" + fill[1:], HEAD + same + fill
    number = int.from_bytes(same * 3, "big")
    row = put_entry(b"", first, IndexEntry(same * 8, number))
    row = put_entry(row, second, IndexEntry(same * 8, 7))
    assert 0 < row.find(second[2:] + same * 8) < WIDTH
    assert is_finished_before(row, second, same * 8, pack_attempt(8))
    assert not is_finished_before(row, second, same * 8, pack_attempt(7))


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_digests_share_a_row_when_their_first_20_bits_agree(one: bytes, other: bytes) -> None:
    agree = one.hex()[:5] == other.hex()[:5]
    assert agree == (key_row(one) == key_row(other))


def test_a_match_across_two_entries_is_none() -> None:
    """A digest whose tail is the end of one entry and the start of the next is not in the row."""
    first, second = HEAD + bytes(14), HEAD + bytes([0, *[1] * 13])
    row = put_entry(put_entry(b"", first, IndexEntry(b"v" * 8, 7)), second, IndexEntry(b"w" * 8, 7))
    astride = HEAD + row[WIDTH - 3 : WIDTH + 11]
    assert 0 < row.find(astride[2:])
    assert find_entry(row, astride) is None
    assert row == remove_entry(row, astride)
