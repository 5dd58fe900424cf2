"""Lines of a stream, by ranges: each once, none larger than a bound in memory."""

from __future__ import annotations

import io
from itertools import pairwise

import fsspec
from hypothesis import given
from hypothesis import strategies as st

from strandline.stages.tables.contents.stream_lines import StreamLine, list_lines

MOST = 6
contents = st.lists(st.sampled_from([b"a", b"bb", b"\n", b"\r\n", b"ccccccc"]), max_size=20)


def split(content: bytes) -> list[bytes]:
    return io.BytesIO(content).readlines()


@given(pieces=contents, cuts=st.sets(st.integers(1, 60), max_size=5))
def test_law_ranges_side_by_side_have_each_line_once(pieces: list[bytes], cuts: set[int]) -> None:
    content = b"".join(pieces)
    borders = [0, *sorted(cuts), None]
    found = [
        line
        for start, stop in pairwise(borders)
        for line in list_lines(io.BytesIO(content), 100, start or 0, stop)
    ]
    assert [line.content for line in found] == split(content)
    assert [content[line.at : line.at + line.size] for line in found] == split(content)


@given(pieces=contents)
def test_law_a_line_beyond_the_bound_is_told_and_not_held(pieces: list[bytes]) -> None:
    content = b"".join(pieces)
    found = list(list_lines(io.BytesIO(content), MOST))
    lines = split(content)
    assert [line.size for line in found] == [len(line) for line in lines]
    assert [line.content for line in found] == [
        line if len(line) <= MOST else None for line in lines
    ]


def test_streams_of_stores_and_disks_have_the_same_lines() -> None:
    content = b"one\ntwo\nthree"
    expected = [StreamLine(4, 4, b"two\n"), StreamLine(8, 5, b"three")]
    with fsspec.open("memory://lines/a.txt", "wb") as file:
        file.write(content)
    with fsspec.open("memory://lines/a.txt", "rb") as stream:
        assert list(list_lines(stream, MOST, 1)) == expected
    with io.BufferedReader(io.BytesIO(content)) as stream:
        assert list(list_lines(stream, MOST, 4)) == expected
