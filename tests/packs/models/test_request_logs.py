"""The log of requests: kept answers are found despite torn or damaged data around them."""

from __future__ import annotations

import json
import threading
import zlib
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_packs.models.asking.answers import ModelAnswer
from strandline_packs.models.asking.log.answer_book import AnswerBook, KeepingTerms
from strandline_packs.models.asking.log.answer_index import AnswerIndex
from strandline_packs.models.asking.log.log_blocks import (
    LogEntry,
    ReadWindow,
    build_block,
    pack,
    read_all,
    unpack,
)
from strandline_packs.models.asking.log.request_log import (
    AppendResult,
    FileLog,
    FolderLog,
    prune_file,
)
from strandline_packs.models.asking.log.store_log import StoreLog

numbers = st.floats(allow_nan=False, allow_infinity=False)
entries = st.builds(
    LogEntry,
    st.binary(min_size=16, max_size=16),
    st.floats(0, 2e9),
    st.builds(
        ModelAnswer,
        st.text(max_size=50),
        st.none() | st.lists(numbers, max_size=3).map(lambda each: array("d", each)),
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


def build(*given: LogEntry) -> bytes:
    return build_block([pack(entry) for entry in given])


def make_reader(data: bytes) -> ReadWindow:
    return ReadWindow(lambda start, size: data[start : start + size], 100)


def read(data: bytes) -> list[LogEntry]:
    blocks = read_all(make_reader(data), 0, len(data))
    return [entry for _, found in blocks for entry in found]


@given(groups)
def test_appended_entries_are_read(blocks: list[list[LogEntry]]) -> None:
    data = b"".join(build(*block) for block in blocks)
    assert [entry for block in blocks for entry in block] == read(data)
    ends = [block.end for block, _ in read_all(make_reader(data), 0, len(data))]
    assert len(data) == max(ends, default=0)


@given(groups, st.data())
def test_all_whole_blocks_of_a_truncated_log_are_read(
    blocks: list[list[LogEntry]], data: st.DataObject
) -> None:
    packed = [build(*block) for block in blocks]
    whole = b"".join(packed)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, packed[: at + 1])) for at in range(len(packed))]
    left = [entry for end, block in zip(ends, blocks, strict=True) if end <= cut for entry in block]
    assert left == read(whole[:cut])


@given(groups.filter(bool), st.data())
def test_a_damaged_block_affects_no_other_block(
    blocks: list[list[LogEntry]], data: st.DataObject
) -> None:
    packed = [build(*block) for block in blocks]
    hurt = data.draw(st.integers(0, len(packed) - 1))
    at = data.draw(st.integers(0, len(packed[hurt]) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    damaged = bytearray(packed[hurt])
    damaged[at] ^= bit
    found = read(b"".join([*packed[:hurt], bytes(damaged), *packed[hurt + 1 :]]))
    before = [entry for block in blocks[:hurt] for entry in block]
    after = [entry for block in blocks[hurt + 1 :] for entry in block]
    assert before == found[: len(before)]
    assert after == found[len(found) - len(after) :]
    left = found[len(before) : len(found) - len(after)]
    assert len(left) < len(blocks[hurt])  # lost: the answer, or all answers of a damaged directory
    assert all(entry in blocks[hurt] for entry in left)


def test_a_torn_tail_is_cut_before_more_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "a" / "log"
    FileLog(path).append(build(make(1)))
    whole = path.read_bytes()
    torn = build(*map(make, range(100, 200)))[:-3]  # longer than the block after it
    path.write_bytes(whole + torn)
    FileLog(path).append(build(make(3)))
    assert whole + build(make(3)) == path.read_bytes()
    assert [make(1), make(3)] == list(FileLog(path).read())


def test_reading_a_log_continues_where_it_stopped(tmp_path: Path) -> None:
    mine, theirs = FileLog(tmp_path / "log"), FileLog(tmp_path / "log")
    assert not list(mine.read())
    mine.append(build(make(1)))
    theirs.append(build(make(2)))
    mine.append(build(make(3)))
    assert [make(1), make(2), make(3)] == list(mine.read())
    theirs.append(build(make(4)))
    assert [make(4)] == list(mine.read())
    assert not list(mine.read())


@pytest.mark.parametrize("writers", [4])
def test_concurrent_writers_lose_nothing(tmp_path: Path, writers: int) -> None:
    def write(first: int) -> None:
        log = FileLog(tmp_path / "log")
        for number in range(first, first + 20):
            log.append(build(make(number)))

    threads = [threading.Thread(target=write, args=(at * 100,)) for at in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(entry.digest for entry in FileLog(tmp_path / "log").read())
    assert found == sorted(make(at * 100 + n).digest for at in range(writers) for n in range(20))


def test_pruning_removes_only_old_entries(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = FileLog(path)
    log.append(build(make(1, 10.0), make(2, 20.0)))
    log.append(build(make(3, 30.0)))
    reader = FileLog(path)
    assert len(list(reader.read())) == 3
    assert prune_file(path, 20.0) == 1
    assert [make(2, 20.0), make(3, 30.0)] == list(FileLog(path).read())
    log.append(build(make(4, 40.0)))  # from a process that had opened the log
    assert make(4, 40.0) in list(FileLog(path).read())
    assert prune_file(path, 99.0) == 3
    assert not path.exists()
    log.append(build(make(5)))
    assert [make(5)] == list(FileLog(path).read())
    assert [make(5)] == list(reader.read())


class Counted:
    """A log that counts blocks and syncs."""

    def __init__(self, log: FolderLog) -> None:
        self.log, self.threads = log, log.threads
        self.blocks = self.syncs = 0
        self.list_parts, self.open_part = log.list_parts, log.open_part

    def append(self, block: bytes) -> AppendResult:
        self.blocks += 1
        return self.log.append(block)

    def sync(self) -> None:
        self.syncs += 1
        self.log.sync()


def open_book(
    log: object, group: int = 3, *, is_eager: bool = True, now: Callable[[], float] = lambda: 0.0
) -> AnswerBook:
    keeping = KeepingTerms(group, 1.0, is_eager=is_eager)
    return AnswerBook(log, keeping, now, lambda: 5.0)  # type: ignore[arg-type]


def find(book: AnswerBook, *numbers: int) -> set[int]:
    found = book.find([make(number).digest for number in numbers])
    assert all(
        answer == make(int.from_bytes(digest, "big")).answer for digest, answer in found.items()
    )
    return {int.from_bytes(digest, "big") for digest in found}


def test_answers_survive_the_process_at_once_and_the_node_in_groups(tmp_path: Path) -> None:
    now = [0.0]
    log = Counted(FolderLog(tmp_path, "w1"))
    book = open_book(log, now=lambda: now[0])
    for number in range(7):
        book.put(*make(number)[::2])
        book.remind()
        # A process that starts now finds the answer, although nothing was closed.
        assert find(open_book(FolderLog(tmp_path, "w2")), *range(9)) == set(range(number + 1))
    assert log.syncs == 2
    now[0] = 1.0
    book.remind()
    assert (log.blocks, log.syncs) == (7, 3)
    book.sync()
    assert (log.blocks, log.syncs) == (7, 3)


def test_answers_in_a_store_are_kept_in_groups() -> None:
    book = open_book(StoreLog("memory://kept/in/groups", "w1"), is_eager=False)
    for number in range(7):
        book.put(*make(number)[::2])
        book.remind()
        assert find(book, number) == {number}
    other = open_book(StoreLog("memory://kept/in/groups", "w2"))
    assert find(other, *range(9)) == set(range(6))
    book.sync()
    assert find(open_book(StoreLog("memory://kept/in/groups", "w3")), *range(9)) == set(range(7))


def test_a_book_finds_remaining_answers_while_files_are_pruned(tmp_path: Path) -> None:
    books = [open_book(FolderLog(tmp_path, name)) for name in ("w1", "w2")]
    for number in range(6):
        books[number % 2].put(*make(number)[::2])
        books[number % 2].sync()
    assert find(books[0], *range(6)) == set(range(6))
    first, second = (tmp_path / "answers" / f"{name}.requests" for name in ("w1", "w2"))
    assert prune_file(first, 4.0) == 0
    assert find(books[0], *range(6)) == set(range(6))
    assert prune_file(second, 6.0) == 3
    assert find(books[0], *range(6)) == {0, 2, 4}
    assert prune_file(first, 6.0) == 3
    assert find(books[0], *range(6)) == set()
    books[0].put(*make(7)[::2])
    books[0].sync()
    assert find(books[1], 0, 7) == {7}


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 2**64 - 1)), max_size=60))
def test_an_index_finds_every_place(added: list[tuple[int, int]]) -> None:
    index, digests = AnswerIndex(sealed=4), [bytes([n]) * 16 for n in range(51)]
    for number, place in added:
        index.add(digests[number], place)
    for number, digest in enumerate(digests):
        assert sorted(index.find(digest)) == sorted(each for n, each in added if n == number)


def test_earlier_versions_read_entries_with_keys() -> None:
    entry = LogEntry(b"d" * 16, 7.0, ModelAnswer("a", None, "stop", 1, 2, "m"), ("row 1", "row 2"))
    packed = pack(entry)
    assert unpack(packed) == entry
    assert json.loads(zlib.decompress(packed.content)) == [7.0, "a", None, "stop", 1, 2, "m"]
