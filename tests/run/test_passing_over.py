"""Long listings skip only finished sources, in chunks, and all sources are counted."""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attempt_builders import LETTERS
from strandline.engine.core.ports import Listing
from strandline.ledger.location import LedgerLocation
from strandline.ledger.store.look_ups import LookedUp, LookUps
from strandline.plan.stages.ends import Source
from strandline.plan.token import digest_key
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.attempt.phases import look_ahead
from strandline.run.attempt.phases.look_ahead import CHUNK_SECONDS, PassingListing, pass_over
from strandline.run.manifest.manifest import read_manifest
from strandline.storage.outputs.ports import OutputLocation


class FakeLookUps:
    """Reports the sources with the given keys as finished."""

    def __init__(self, finished: set[str]) -> None:
        self.finished = finished
        self.waiting: deque[tuple[int, Sequence[Source], bool]] = deque()
        self.quick: list[bool] = []
        self.asked = 0
        self.is_closed = False

    @property
    def has_room(self) -> bool:
        return len(self.waiting) < 3

    def ask(self, start: int, chunk: Sequence[Source], *, is_quick: bool) -> None:
        self.waiting.append((start, chunk, is_quick))
        self.quick.append(is_quick)
        self.asked += len(chunk)

    def take(self) -> LookedUp[Source]:
        start, chunk, is_quick = self.waiting.popleft()
        self.asked -= len(chunk)
        left = [
            index
            for index, source in enumerate(chunk)
            if not (is_quick and source.key in self.finished)
        ]
        return LookedUp(start, chunk, left)

    def close(self) -> None:
        self.is_closed = True


def list_sources(count: int) -> Iterator[Source]:
    for number in range(count):
        yield Source(str(number), "1", number)


def make_listing(
    sources: Iterator[Source], look_ups: FakeLookUps, now: Callable[[], float] = lambda: 0.0
) -> PassingListing:
    start: Any = lambda: look_ups  # noqa: E731 - any, to stand in for the real ones
    return PassingListing(Listing(sources), start, now)


@given(
    states=st.lists(st.booleans(), max_size=60),
    chunk=st.integers(1, 9),
    short=st.integers(0, 30),
    size=st.integers(1, 9),
)
def test_law_unfinished_sources_come_in_order_and_all_are_counted(
    states: list[bool], chunk: int, short: int, size: int
) -> None:
    look_ups = FakeLookUps({str(number) for number, is_known in enumerate(states) if is_known})
    listing = make_listing(list_sources(len(states)), look_ups)
    drawn = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(look_ahead, "CHUNK", chunk)
        patch.setattr(look_ahead, "MANY_LISTED", short)
        while not listing.is_ended:
            batch = listing.draw(size)
            assert len(batch) <= size
            drawn += batch
            assert listing.listed == len(drawn) + listing.passed <= len(states)
    begun = {entry.ordinal for entry, _ in drawn}
    for entry, source in drawn:
        assert (entry.key, entry.source) == (source.key, digest_key(source.key))
        assert str(entry.ordinal - 1) == source.key
    assert sorted(begun) == [entry.ordinal for entry, _ in drawn]
    assert listing.listed == len(states)
    passed = {number for number in range(len(states)) if number + 1 not in begun}
    assert {number for number, is_known in enumerate(states) if is_known} >= passed
    assert len(passed) == listing.passed
    if chunk == 1 and short == 0:  # otherwise the incomplete last chunk is never looked up
        assert len(passed) == sum(states)
    assert look_ups.is_closed or not look_ups.quick


class Clock:
    """A clock that the listing advances."""

    time = 0.0

    def __call__(self) -> float:
        return self.time


def test_a_slow_listing_is_not_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, look_ups = Clock(), FakeLookUps({str(number) for number in range(1000)})

    def list_slowly() -> Iterator[Source]:
        for source in list_sources(30):
            clock.time += CHUNK_SECONDS * 1.1 if int(source.key) >= 20 else 0.0
            yield source

    monkeypatch.setattr(look_ahead, "CHUNK", 5)
    monkeypatch.setattr(look_ahead, "SOURCES_AT_A_TIME", 2)
    monkeypatch.setattr(look_ahead, "MANY_LISTED", 0)
    listing = make_listing(list_slowly(), look_ups, clock)
    times = {}
    while not listing.is_ended:
        for entry, _ in listing.draw():
            times[entry.ordinal - 1] = clock.time
    assert listing.passed == 20
    assert list(times) == list(range(20, 30))
    # Slow sources are passed on one by one, except the first, which is still in a chunk.
    late = list(times.values())[1:]
    assert late == sorted(set(late))


def location(path: Path, *, deletes: bool = False) -> LedgerLocation:
    return LedgerLocation(path, 2, "a", OutputLocation(str(path)), deletes, 3)


@pytest.mark.parametrize(
    ("finished", "cores", "deletes", "is_passing"),
    [
        (look_ahead.MANY_FINISHED, 2, False, True),
        (look_ahead.MANY_FINISHED - 1, 2, False, False),
        (look_ahead.MANY_FINISHED, 1, False, False),
        (look_ahead.MANY_FINISHED, 2, True, False),
    ],
)
def test_sources_are_looked_up_only_if_that_saves_time(
    tmp_path: Path, finished: int, cores: int, deletes: bool, is_passing: bool
) -> None:
    listing = Listing(list_sources(3))
    found = pass_over(listing, location(tmp_path, deletes=deletes), finished, cores, lambda: 0.0)
    assert is_passing == isinstance(found, PassingListing)
    assert is_passing == (found is not listing)


def test_a_short_listing_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        message = "a process was started"
        raise AssertionError(message)

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(look_ahead, "MANY_LISTED", 10)

    def draw_all(count: int) -> int:
        listing = pass_over(Listing(list_sources(count)), location(tmp_path), 10**6, 2, Clock())
        drawn = 0
        while not listing.is_ended:
            drawn += len(listing.draw(5))
        return drawn

    assert draw_all(9) == 9
    with pytest.raises(AssertionError, match="a process was started"):
        draw_all(11)


def test_look_ups_are_closed_if_the_listing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_ahead, "MANY_LISTED", 0)
    monkeypatch.setattr(look_ahead, "CHUNK", 2)
    closed = []

    def fail() -> Iterator[Source]:
        try:
            yield from list_sources(3)
            raise OSError
        finally:
            closed.append(True)

    look_ups = FakeLookUps(set())
    listing = make_listing(fail(), look_ups)
    with pytest.raises(OSError):  # noqa: PT011 - the listing's own
        listing.draw()
    listing.close()
    assert (look_ups.is_closed, closed) == (True, [True])


def run(config: AttemptConfig, told: list[tuple[int, int]]) -> AttemptResult:
    def report(progress: Any) -> None:
        told.append((progress.listed, progress.skipped))

    return run_attempt(config, report=report)


@pytest.mark.parametrize("engine", ["inline", "processes", "ray"])
def test_a_resumed_run_ends_with_the_same_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """Runs use real processes, and Ray until no work is left."""
    monkeypatch.setattr(look_ahead, "MANY_FINISHED", 1)
    monkeypatch.setattr(look_ahead, "MANY_LISTED", 7)
    monkeypatch.setattr(look_ahead, "CHUNK", 4)
    monkeypatch.setattr(look_ahead, "CHUNK_SECONDS", 1e9)  # independent of the load
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    path = tmp_path / "letters.yaml"
    path.write_text(LETTERS.replace("FOLDER", str(tmp_path)).replace("ON_REMOVED", ""))
    for number in range(50):
        (tmp_path / f"{number:03d}.txt").write_text("a")
    config = AttemptConfig(read_manifest(path, ()).plan, tmp_path, engine="inline")
    assert run(config, []).standing.finished == 50

    told: list[tuple[int, int]] = []
    asked = watch_look_ups(monkeypatch)
    if engine == "inline":
        (tmp_path / "025.txt").write_text("another version")
        (tmp_path / "100.txt").write_text("a")
    again = run(replace(config, engine=engine), told)
    changed = 2 if engine == "inline" else 0
    assert (again.standing.finished, again.standing.skipped) == (changed, 50 - changed // 2)
    assert (again.total, again.code, again.remaining) == (50 + changed // 2, 0, changed)
    assert told[-1] == (50 + changed // 2, 50 - changed // 2)
    assert sum(asked) >= 36  # the first seven and the last sources are not looked up


def watch_look_ups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that collects the number of finished sources of each look-up."""
    found: list[int] = []
    take = LookUps.take

    def note(look_ups: Any) -> LookedUp[Any]:
        answer = take(look_ups)
        found.append(len(answer.chunk) - len(answer.left))
        return answer

    monkeypatch.setattr(LookUps, "take", note)
    return found
