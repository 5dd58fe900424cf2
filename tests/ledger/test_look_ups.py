"""Answers of concurrent look-up processes match the ledger."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_builders import finish_of, listed, opened
from strandline.ledger.records.entries import Change
from strandline.ledger.store.look_ups import AHEAD, RESTING, LookUps

KEYS = [f"key {number} é" for number in range(40)]
LEASE = {"attempt": 1, "uid": "a"}


class Named(NamedTuple):
    key: Any
    version: Any = "1"


def fill(path: Path) -> Path:
    """Fill a ledger with sources of two attempts.

    The first attempt finished 20 sources, 10 of which have changed; the second finished 5.
    """
    with opened(path) as store:
        store.take_lease(LEASE)
        done = [listed(key, "0" if at < 10 else "1") for at, key in enumerate(KEYS[:20])]
        store.write(Change(finish=[finish_of(source) for source in done]))
        store.take_lease(LEASE | {"attempt": 2})
        store.write(Change(finish=[finish_of(listed(key)) for key in KEYS[20:25]]))
    return path


FINISHED = set(KEYS[10:20])  # unchanged sources that the first attempt finished


@pytest.fixture(scope="module")
def look_ups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LookUps[Named]]:
    """Yield look-ups by two processes for the second attempt."""
    look_ups = LookUps[Named](fill(tmp_path_factory.mktemp("ledger")), 2, 2)
    yield look_ups
    look_ups.close()


def ask_all(look_ups: LookUps[Named], chunks: Sequence[Sequence[Named]]) -> list[list[int]]:
    """Request look-ups within the limits, and return the unfinished sources of each chunk."""
    answers = []
    for start, chunk in enumerate(chunks):
        while not look_ups.has_room:
            answers.append(look_ups.take())
        look_ups.ask(start, chunk)
    while look_ups.asked:
        answers.append(look_ups.take())
    assert [(start, chunk) for start, chunk, _ in answers] == list(enumerate(chunks))
    return [list(left) for _, _, left in answers]


@given(st.lists(st.lists(st.sampled_from(KEYS), min_size=1), max_size=20))
def test_law_remaining_sources_are_the_unfinished_ones(
    look_ups: LookUps[Named], chunks: list[list[str]]
) -> None:
    asked = [[Named(key) for key in chunk] for chunk in chunks]
    look_ups._resting = 0
    for keys, left in zip(chunks, ask_all(look_ups, asked), strict=True):
        unfinished = [index for index, key in enumerate(keys) if key not in FINISHED]
        assert left in (unfinished, list(range(len(keys))))  # all: no look-up
        if not look_ups._resting:
            assert left == unfinished


ODD = [Named(5), Named("\ud800"), Named(None), Named(b"a"), Named(["a"]), Named("a", 1 << 70)]


@pytest.mark.parametrize("odd", ODD)
def test_invalid_text_is_left_without_harm(look_ups: LookUps[Named], odd: Named) -> None:
    good = [Named(key) for key in FINISHED]
    look_ups._resting = 0
    first, second = ask_all(look_ups, [[*good, odd], good])
    assert len(good) in first
    assert [] == second or look_ups._resting


def test_all_sources_of_a_dead_process_are_left(tmp_path: Path) -> None:
    chunks = [[Named(key) for key in FINISHED]] * 6
    look_ups = LookUps[Named](fill(tmp_path), 2, 2)
    assert [[]] * 6 == ask_all(look_ups, chunks)
    reader, other = look_ups._readers
    os.kill(reader._process.pid, signal.SIGKILL)
    reader._process.wait()
    assert 3 == ask_all(look_ups, chunks).count([])
    os.kill(other._process.pid, signal.SIGKILL)
    assert 0 == ask_all(look_ups, chunks).count([])
    look_ups.close()


def test_all_sources_are_left_if_no_ledger_can_be_opened(tmp_path: Path) -> None:
    look_ups = LookUps[Named](tmp_path, 2, 1)
    assert [[0], [0]] == ask_all(look_ups, [[Named("a")], [Named("b")]])
    look_ups.close()


def test_all_processes_end_on_close(tmp_path: Path) -> None:
    look_ups = LookUps[Named](fill(tmp_path), 2, 3)
    for number in range(5):
        look_ups.ask(number, [Named(key) for key in KEYS])
    look_ups.close()
    assert [reader._process.returncode is not None for reader in look_ups._readers] == [True] * 3


class FakeReader:
    """A reader that reports a fixed number of finished sources in each chunk."""

    asked: int

    def __init__(self, _: Path, attempt: int) -> None:
        self.finished = attempt
        self.asked = 0

    def ask(self, _: Sequence[Named]) -> bool:
        self.asked += 1
        return True

    def take(self) -> list[int]:
        return list(range(self.finished, 10))


@pytest.mark.parametrize(("finished", "is_rested"), [(10, False), (5, False), (4, True)])
def test_few_sources_are_looked_up_if_few_are_finished(
    monkeypatch: pytest.MonkeyPatch, finished: int, is_rested: bool
) -> None:
    monkeypatch.setattr("strandline.ledger.store.look_ups._Reader", FakeReader)
    look_ups = LookUps[Named](Path(), finished, 1)
    chunk = [Named(str(number)) for number in range(10)]
    for number in range(2 * RESTING + 2):
        look_ups.ask(number, chunk)
        look_ups.take()
    assert (2 if is_rested else 2 * RESTING + 2) == look_ups._readers[0].asked  # type: ignore[attr-defined]


def test_concurrent_look_ups_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline.ledger.store.look_ups._Reader", FakeReader)
    look_ups = LookUps[Named](Path(), 10, 3)
    while look_ups.has_room:
        look_ups.ask(0, [Named("a")] * 10)
    assert 3 * AHEAD * 10 == look_ups.asked
    assert {AHEAD} == {reader.asked for reader in look_ups._readers}  # type: ignore[attr-defined]


def test_unprofitable_look_ups_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline.ledger.store.look_ups._Reader", FakeReader)
    look_ups = LookUps[Named](Path(), 10, 1)
    look_ups.ask(0, [Named("a")] * 3, is_quick=False)
    assert [0, 1, 2] == list(look_ups.take().left)
    assert 0 == look_ups._readers[0].asked  # type: ignore[attr-defined]
