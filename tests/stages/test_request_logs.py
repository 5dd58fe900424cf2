"""The log of requests: what was kept is there, whatever is torn or hurt beside it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.stages.models.asking.answers import ModelAnswer
from strandline.stages.models.asking.request_log import (
    SUFFIX,
    AnswerBook,
    FileLog,
    LogEntry,
    RequestLog,
    StoreLog,
    find_log,
    pack,
    prune_file,
    split_blocks,
    unpack,
)

entries = st.builds(
    LogEntry,
    st.binary(min_size=16, max_size=16),
    st.floats(0, 2e9),
    st.builds(
        ModelAnswer,
        st.text(max_size=50),
        st.none() | st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
        st.sampled_from(["stop", "eos"]),
        st.integers(0, 9),
        st.integers(0, 9),
        st.just("m"),
    ),
)
groups = st.lists(st.lists(entries, min_size=1, max_size=4), max_size=6)


def make(number: int, time: float = 0.0) -> LogEntry:
    answer = ModelAnswer(f"answer {number}", None, "stop", 1, 2, "m")
    return LogEntry(number.to_bytes(16, "big"), time, answer)


def read(data: bytes) -> list[LogEntry]:
    return [entry for block in split_blocks(data)[0] for entry in unpack(block)]


@given(groups)
def test_what_was_appended_is_read(blocks: list[list[LogEntry]]) -> None:
    data = b"".join(map(pack, blocks))
    assert [entry for block in blocks for entry in block] == read(data)
    assert len(data) == split_blocks(data)[1]


@given(groups, st.data())
def test_of_a_log_that_is_cut_all_whole_blocks_are_read(
    blocks: list[list[LogEntry]], data: st.DataObject
) -> None:
    packed = list(map(pack, blocks))
    whole = b"".join(packed)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, packed[: at + 1])) for at in range(len(packed))]
    left = [entry for end, block in zip(ends, blocks, strict=True) if end <= cut for entry in block]
    assert left == read(whole[:cut])
    assert max((end for end in ends if end <= cut), default=0) == split_blocks(whole[:cut])[1]


@given(groups.filter(bool), st.data())
def test_a_block_that_is_hurt_takes_no_other_along(
    blocks: list[list[LogEntry]], data: st.DataObject
) -> None:
    packed = list(map(pack, blocks))
    hurt = data.draw(st.integers(0, len(packed) - 1))
    at = data.draw(st.integers(0, len(packed[hurt]) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    damaged = bytearray(packed[hurt])
    damaged[at] ^= bit
    whole = b"".join([*packed[:hurt], bytes(damaged), *packed[hurt + 1 :]])
    others = [entry for at, block in enumerate(blocks) if at != hurt for entry in block]
    assert others == read(whole)


def test_a_torn_tail_is_cut_before_more_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "a" / "log"
    FileLog(path).append([make(1)])
    whole = path.read_bytes()
    torn = pack([make(number) for number in range(100, 200)])[:-3]  # longer than what follows
    path.write_bytes(whole + torn)
    FileLog(path).append([make(3)])
    assert whole + pack([make(3)]) == path.read_bytes()
    assert [make(1), make(3)] == list(FileLog(path).read())


def test_a_log_is_read_on_where_it_was_left(tmp_path: Path) -> None:
    mine, theirs = FileLog(tmp_path / "log"), FileLog(tmp_path / "log")
    assert not list(mine.read())
    mine.append([make(1)])
    theirs.append([make(2)])
    mine.append([make(3)])
    assert [make(1), make(2), make(3)] == list(mine.read())
    theirs.append([make(4)])
    assert [make(4)] == list(mine.read())
    assert not list(mine.read())


@pytest.mark.parametrize("writers", [4])
def test_writers_at_once_lose_nothing(tmp_path: Path, writers: int) -> None:
    def write(first: int) -> None:
        log = FileLog(tmp_path / "log")
        for number in range(first, first + 20):
            log.append([make(number)])

    threads = [threading.Thread(target=write, args=(at * 100,)) for at in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(entry.digest for entry in FileLog(tmp_path / "log").read())
    assert found == sorted(make(at * 100 + n).digest for at in range(writers) for n in range(20))


def test_pruning_takes_what_is_old_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = FileLog(path)
    log.append([make(1, 10.0), make(2, 20.0)])
    log.append([make(3, 30.0)])
    reader = FileLog(path)
    assert len(list(reader.read())) == 3
    assert prune_file(path, 20.0) == 1
    assert [make(2, 20.0), make(3, 30.0)] == list(FileLog(path).read())
    log.append([make(4, 40.0)])  # by who had it open
    assert make(4, 40.0) in list(FileLog(path).read())
    assert prune_file(path, 99.0) == 3
    assert not path.exists()
    log.append([make(5)])
    assert [make(5)] == list(FileLog(path).read())
    assert [make(5)] == list(reader.read())


def test_a_log_in_a_store_has_an_object_for_each_group() -> None:
    url = "memory://requests/of/a/source"
    first, second = StoreLog(url, "w1"), StoreLog(url, "w2")
    assert not list(first.read())
    first.append([make(1)])
    first.append([make(2)])
    second.append([make(3)])
    assert [make(1), make(2), make(3)] == list(second.read())
    assert not list(second.read())
    assert {make(number) for number in (1, 2, 3)} == set(StoreLog(url, "w3").read())


class Watched:
    """A log that says what it was handed."""

    def __init__(self, log: RequestLog) -> None:
        self.log, self.groups = log, list[int]()
        self.read = log.read

    def append(self, entries: list[LogEntry]) -> None:
        self.groups.append(len(entries))
        self.log.append(entries)


def test_answers_become_durable_in_groups(tmp_path: Path) -> None:
    now = [0.0]
    log = Watched(FileLog(tmp_path / "log"))
    book = AnswerBook(log, 3, 1.0, lambda: now[0], lambda: 5.0)  # type: ignore[arg-type]
    for number in range(7):
        book.put(*make(number)[::2])
        book.remind()
    assert log.groups == [3, 3]
    now[0] = 1.0
    book.remind()
    assert log.groups == [3, 3, 1]
    book.sync()
    assert log.groups == [3, 3, 1]
    again = AnswerBook(FileLog(tmp_path / "log"), 3, 1.0, lambda: 0.0, lambda: 5.0)
    assert {make(number).digest for number in range(7)} == again.refresh().keys()


def test_sources_have_logs_of_their_own() -> None:
    assert "s3://b/requests/ab/ab" + "00" * 15 == find_log("s3://b/requests/", b"\xab" + bytes(15))
    assert SUFFIX.startswith(".")
