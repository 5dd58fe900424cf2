"""Lines of a stream by ranges: all exactly once, none above the bound in memory."""

from __future__ import annotations

import io
from itertools import accumulate, pairwise

import fsspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from strandline_packs.tables.contents import stream_lines
from strandline_packs.tables.contents.stream_lines import StreamLine, list_blocks, list_lines

MOST = 6
contents = st.lists(st.sampled_from([b"a", b"bb", b"\n", b"\r\n", b"ccccccc"]), max_size=20)


def split(content: bytes) -> list[bytes]:
    return io.BytesIO(content).readlines()


@given(pieces=contents, cuts=st.sets(st.integers(1, 60), max_size=5))
def test_law_adjacent_ranges_have_each_line_once(pieces: list[bytes], cuts: set[int]) -> None:
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
def test_law_an_overlong_line_is_reported_and_not_kept_in_memory(pieces: list[bytes]) -> None:
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


@given(
    pieces=contents,
    size=st.integers(1, 9),
    most=st.integers(1, 9),
    start=st.integers(0, 30),
    stop=st.none() | st.integers(1, 40),
)
@example(pieces=[b"ccccccc", b"\n", b"a"], size=3, most=2, start=0, stop=None)
@settings(max_examples=scale_examples(800))
def test_law_blocks_have_the_same_lines(
    pieces: list[bytes], size: int, most: int, start: int, stop: int | None
) -> None:
    content = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_lines, "_PIECE", size)
        blocks = list(list_blocks(io.BytesIO(content), most, start, stop))
    expected = list(list_lines(io.BytesIO(content), most, start, stop))
    ends = [line if line is None else line.removesuffix(b"\n") for _, _, line in expected]
    assert [line for block in blocks for line in block.lines] == ends
    assert [size for block in blocks for size in block.sizes] == [line.size for line in expected]
    places = [at for block in blocks for at in accumulate(block.sizes[:-1], initial=block.at)]
    assert places == [line.at for line in expected]
