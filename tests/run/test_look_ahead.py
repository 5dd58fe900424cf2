"""The look-ahead starts no engine without need, and keeps the listing complete."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attempt_builders import LETTERS
from ledger_builders import opened
from strandline.engine.core.ports import ADMIT_BATCH, Admitted, Control, Listing
from strandline.ledger.records.entries import Change, Finish, QuarantinedSource, SourceRecord
from strandline.ledger.store.store import Store
from strandline.plan.errors import StrandlineError
from strandline.plan.stages.ends import Source
from strandline.plan.token import digest_key, digest_version
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.phases.look_ahead import look_ahead
from strandline.run.manifest.manifest import read_manifest

STATES = st.lists(st.sampled_from(("finished", "quarantined", "changed", "new")), max_size=30)


class ListingBrokenError(StrandlineError):
    """The error of a failing listing."""


def make_control(*, must_stop: bool = False) -> Control:
    return Control(lambda: must_stop, lambda _: None, time.monotonic)


def list_sources(count: int) -> Iterator[Source]:
    for number in range(count):
        yield Source(f"source {number}", "2", None)


@contextmanager
def filled(states: Sequence[str]) -> Iterator[Store]:
    """Open a ledger whose sources are in these states as of version 2."""
    change = Change()
    for number, state in enumerate(states):
        key, version = f"source {number}", digest_version("1" if state == "changed" else "2")
        if state in {"finished", "changed"}:
            change.finish.append(Finish(digest_key(key), version, SourceRecord(key, ())))
        if state == "quarantined":
            entry = QuarantinedSource(key, version, 1, "", "", "", 3)
            change.quarantine.append((digest_key(key), entry))
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as store:
        store.write(change)
        yield store


@contextmanager
def leaving_no_thread() -> Iterator[None]:
    """Check that no listing thread is running after the block."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.name == "listing":
            thread.join(30)  # the thread may notice the stop request late
            assert not thread.is_alive()


def draw_all(listing: Listing) -> list[str]:
    keys: list[str] = []
    while not listing.is_ended:
        keys += [source.key for _, source in listing.draw(3)]
    return keys


@given(STATES)
def test_law_an_engine_starts_if_a_source_is_left(states: list[str]) -> None:
    with filled(states) as store:
        listing, is_left = look_ahead(Listing(list_sources(len(states))), store, make_control())
        assert is_left == bool({"changed", "new"}.intersection(states))
        assert draw_all(listing) == [f"source {number}" for number in range(len(states))]
        assert listing.listed == len(states)
        assert listing.is_whole
        listing.close()


def test_a_stop_leaves_the_rest_to_the_engine() -> None:
    blocked = threading.Event()

    def hang() -> Iterator[Source]:
        yield from list_sources(1)
        blocked.wait(60)

    with filled(["finished"]) as store:
        listing, is_left = look_ahead(Listing(hang()), store, make_control(must_stop=True))
        assert is_left
        blocked.set()
        assert draw_all(listing) == ["source 0"]
        listing.close()


def test_skipped_sources_are_reported_before_the_listing_ends() -> None:
    may_end = threading.Event()

    class Passing(Listing):
        def draw(self, size: int = ADMIT_BATCH) -> Admitted:
            if self.listed:
                self.passed += 10
                self.listed += 10
                self.is_ended = self.listed > 30 and may_end.wait(60)
                return []
            return super().draw(size)

    with filled(["finished"]) as store:
        ahead = Passing(Source(key, "1", None) for key in "ab")
        listing, is_left = look_ahead(ahead, store, make_control())
        assert is_left
        assert [source.key for _, source in listing.draw(1)] == ["a"]
        while listing.passed < 20:
            assert [] == listing.draw(1)
            assert not listing.is_ended
        may_end.set()
        assert [] == draw_all(listing)
        assert listing.listed == ahead.listed
        listing.close()


def test_an_engine_starts_during_a_listing_without_finished_sources() -> None:
    blocked = threading.Event()
    listed: list[bool] = []

    def hang() -> Iterator[Source]:
        listed.append(blocked.wait(5))
        yield from list_sources(2)

    with filled([]) as store:
        listing, is_left = look_ahead(Listing(hang()), store, make_control())
        assert is_left
        assert not listed
        blocked.set()
        assert draw_all(listing) == ["source 0", "source 1"]
        listing.close()


def test_a_listing_is_closed_if_no_engine_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "letters.yaml"
    path.write_text(LETTERS.replace("FOLDER", str(tmp_path)).replace("ON_REMOVED", ""))
    for number in range(3 * ADMIT_BATCH):  # more than the look-ahead reads
        (tmp_path / f"{number}.txt").touch()

    def refuse(*_: object) -> NoReturn:
        message = "no Ray here"
        raise ListingBrokenError(message)

    monkeypatch.setattr("strandline.engine.ray.engine.connected", refuse)
    with leaving_no_thread(), pytest.raises(ListingBrokenError):
        run_attempt(AttemptConfig(read_manifest(path, ()).plan, tmp_path))


def test_a_limited_number_of_sources_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline.run.attempt.phases.look_ahead.MOST_SOURCES", 10)
    with filled(["finished"] * 30) as store:
        listing, is_left = look_ahead(Listing(list_sources(30)), store, make_control())
        assert is_left
        assert len(draw_all(listing)) == 30
        listing.close()


@pytest.mark.parametrize("finished", [0, 2])
def test_errors_of_a_listing_are_raised_before_an_engine_starts(finished: int) -> None:
    def fail() -> Iterator[Source]:
        yield from list_sources(finished)
        message = "no such bucket"
        raise ListingBrokenError(message)

    with filled(["finished"] * finished) as store, pytest.raises(ListingBrokenError):
        look_ahead(Listing(fail()), store, make_control())


def test_a_listing_is_closed_if_the_ledger_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        message = "the disk is gone"
        raise ListingBrokenError(message)

    sources = list_sources(3 * ADMIT_BATCH)  # more than the look-ahead reads
    with filled(["finished"]) as store, leaving_no_thread():
        monkeypatch.setattr(store, "find_unfinished", fail)
        with pytest.raises(ListingBrokenError):
            look_ahead(Listing(sources), store, make_control())


def test_no_engine_is_made_if_all_sources_are_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("a")
    path = tmp_path / "letters.yaml"
    path.write_text(LETTERS.replace("FOLDER", str(tmp_path)).replace("ON_REMOVED", ""))
    config = AttemptConfig(read_manifest(path, ()).plan, tmp_path, engine="inline")
    first = run_attempt(config)

    def refuse(*_: object) -> NoReturn:
        message = "Ray was started"
        raise AssertionError(message)

    monkeypatch.setattr("strandline.engine.ray.engine.connected", refuse)
    monkeypatch.setattr("strandline.engine.inline.set_up_stage", refuse)
    again = run_attempt(replace(config, engine="ray"))
    assert (first.standing.finished, again.standing.finished) == (1, 0)
    assert (again.standing.skipped, again.total, again.code) == (1, 1, first.code)

    (tmp_path / "b.txt").write_text("b")
    with pytest.raises(AssertionError, match="Ray was started"):
        run_attempt(replace(config, engine="ray"))
