"""A takeover of a ledger checks owner and compatibility, and fences other writers."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from ledger_builders import claim, claimant, finish_of, listed, output_of
from strandline.ledger.access.lease import (
    MOST_RECIPES,
    Claim,
    OnChange,
    end_attempt,
    find_changes,
    holding,
    open_attempt,
    restart,
)
from strandline.ledger.errors import LeaseLostError, LedgerError
from strandline.ledger.records.entries import Change, FailureRecord, Mark
from strandline.ledger.store.recipes import read_changes, read_recipes
from strandline.ledger.store.store import Store
from strandline.plan.errors import Advice

DONE = [listed(f"source {number}") for number in range(5)]


def finish_all(store: Store) -> None:
    store.write(Change(finish=[finish_of(source, output_of(source)) for source in DONE]))


def keys_of(store: Store) -> tuple[set[str], set[str]]:
    finished = {record.key for _, _, record in store.list_records()}
    return finished, {mark.key for _, mark in store.list_marks()}


def test_attempts_are_numbered_for_the_life_of_the_ledger(store: Store) -> None:
    numbers = [open_attempt(store, claim(), claimant(uid)) for uid in "abc"]
    assert [1, 2, 3] == numbers


def test_numbers_continue_after_those_of_a_lost_ledger(store: Store) -> None:
    assert 8 == open_attempt(store, claim(), claimant("a"), known=7)
    assert 9 == open_attempt(store, claim(), claimant("b"), known=7)


def test_an_attempt_records_its_identity(store: Store) -> None:
    open_attempt(store, claim(minWords=5), claimant("a", "boot-9", 42, time=12.5))
    lease = {"attempt": 1, "uid": "a", "boot": "boot-9", "pid": 42, "started": 420, "time": 12.5}
    assert lease | {"ended": False, "parent": None} == store.read_meta("lease")
    assert "default/clips" == store.read_meta("pipeline")
    assert "run-1" == store.read_meta("run")
    assert {"minWords": 5} == store.read_meta("fingerprint")["parts"]


def test_a_holder_between_attempts_fences_the_last_and_releases_the_lease(store: Store) -> None:
    open_attempt(store, claim(), claimant("a"))
    with holding(store, claimant("b")) as attempt:
        assert attempt == 1
        assert ("b", False) == (store.read_meta("lease")["uid"], store.read_meta("lease")["ended"])
        store.hold_lease(1, "a")
        with pytest.raises(LeaseLostError):
            finish_all(store)
        store.hold_lease(1, "b")
    assert store.read_meta("lease")["ended"]
    assert 2 == open_attempt(store, claim(), claimant("c"))


def test_the_ledger_of_another_pipeline_is_refused_unchanged(store: Store) -> None:
    open_attempt(store, claim("default/clips"), claimant("a"))
    before = store.read_meta("lease")
    for on_change in OnChange:
        with pytest.raises(LedgerError, match="belongs to default/clips, not to team/clips; use"):
            open_attempt(store, claim("team/clips", on_change), claimant("b"))
    assert before == store.read_meta("lease")


def test_an_unchanged_pipeline_resumes(store: Store) -> None:
    open_attempt(store, claim(minWords=5), claimant("a"))
    finish_all(store)
    for on_change in OnChange:
        open_attempt(store, claim(on_change=on_change, minWords=5), claimant("b"))
        assert len(DONE) == store.count()["finished"]


def test_law_unused_recipes_are_dropped(store: Store) -> None:
    kept = DONE[0]
    for number in range(1, 51):
        parts: dict[str, Any] = {"order": ["files", "text"], "text.with.minWords": number}
        edited = claim(on_change=OnChange.REDO, **parts)
        attempt = open_attempt(store, edited, claimant(str(number)))
        redone = [kept, *DONE[1:]] if number == 3 else DONE[1:]
        store.write(Change(finish=[finish_of(source, output_of(source)) for source in redone]))
        assert attempt == number
    recipes = read_recipes(store)
    assert len(recipes) <= MOST_RECIPES
    assert [recipes[0].since, recipes[-1].since] == [3, 50]
    changes = read_changes(store)
    assert changes is not None
    entries = store.find_finished([source[0] for source in DONE])
    older = {source for source, entry in entries.items() if changes.find_first(entry.attempt)}
    assert older == {kept[0]}


def test_a_changed_pipeline_is_refused_with_its_changes(store: Store) -> None:
    known: dict[str, Any] = {"quality.with.minWords": 5, "quality.version": 1, "split.use": "split"}
    open_attempt(store, claim(**known), claimant("a"))
    finish_all(store)
    before = {name: store.read_meta(name) for name in ("lease", "fingerprint", "run")}
    wanted: dict[str, Any] = {
        "quality.with.minWords": 8,
        "quality.version": 1,
        "write.use": "jsonl",
    }
    with pytest.raises(LedgerError) as caught:
        open_attempt(store, claim(**wanted), claimant("b"))
    assert str(caught.value) == (
        "the pipeline is not the one that wrote this ledger:\n"
        "  quality.with.minWords: 5 -> 8\n"
        '  split.use: "split" -> (none)\n'
        '  write.use: (none) -> "jsonl"\n'
        "set onChange to Redo to process finished sources again, to Restart to start over, or to "
        "Continue to keep finished sources"
    )
    assert caught.value.advice == Advice("run", (("onChange", "Continue"),))
    assert before == {name: store.read_meta(name) for name in before}
    assert len(DONE) == store.count()["finished"]


def test_a_changed_pipeline_is_accepted_without_finished_sources(store: Store) -> None:
    open_attempt(store, claim(minWords=5), claimant("a"))
    failure = FailureRecord("a", 1, "quality", "KeyError: 'txt'", 1, b"v" * 8)
    mark = Mark("b", b"v" * 8, 1, 1, is_stale=False)
    store.write(Change(fail=[(b"a" * 16, failure)], mark=[(b"b" * 16, mark)]))
    wanted = claim(minWords=8)
    assert 2 == open_attempt(store, wanted, claimant("b"))
    assert [] == find_changes(store, wanted)
    # Failures of the old stages do not count against the changed pipeline.
    assert [] == list(store.list_failures())
    assert {("a", 0, True), ("b", 0, True)} == {
        (mark.key, mark.attempt, mark.is_stale) for _, mark in store.list_marks()
    }


def test_additional_paths_are_accepted_and_then_required(store: Store) -> None:
    def growing(*paths: str) -> Claim:
        wanted = claim(paths=list(paths))
        grown = wanted.fingerprint._replace(growing=frozenset({"paths"}))
        return replace(wanted, fingerprint=grown)

    open_attempt(store, growing("a"), claimant("a"))
    finish_all(store)
    assert 2 == open_attempt(store, growing("a", "b"), claimant("b"))
    assert len(DONE) == store.count()["finished"]
    with pytest.raises(LedgerError, match="not the one that wrote this ledger"):
        open_attempt(store, growing("a"), claimant("c"))


def test_continue_keeps_finished_sources(store: Store) -> None:
    open_attempt(store, claim(minWords=5), claimant("a"))
    finish_all(store)
    wanted = claim(on_change=OnChange.CONTINUE, minWords=8)
    assert 2 == open_attempt(store, wanted, claimant("b"))
    assert len(DONE) == store.count()["finished"]
    assert [] == find_changes(store, wanted)
    assert ["minWords: 8 -> 5"] == find_changes(store, claim(minWords=5))


def test_restart_makes_everything_unfinished_and_its_outputs_leftovers(store: Store) -> None:
    open_attempt(store, claim(minWords=5), claimant("a"))
    finish_all(store)
    wanted = claim(on_change=OnChange.RESTART, minWords=8)
    assert 2 == open_attempt(store, wanted, claimant("b"))
    assert (set(), {source.key for source in DONE}) == keys_of(store)
    assert all(mark.is_stale and mark.attempt == 0 for _, mark in store.list_marks())
    assert [] == find_changes(store, wanted)


def test_an_interrupted_restart_starts_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new fingerprint is written last, so the old sources never count for the new pipeline."""
    open_attempt(store, claim(minWords=5), claimant("a"))
    finish_all(store)
    wanted = claim(on_change=OnChange.RESTART, minWords=8)

    def half(store: Store) -> None:
        source = DONE[0]
        store.write(Change(mark=[(source.source, Mark(source.key, source.version, 0, 0, True))]))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("strandline.ledger.access.lease.restart", half)
        with pytest.raises(KeyboardInterrupt):
            open_attempt(store, wanted, claimant("b"))
    with pytest.raises(LedgerError, match="minWords: 5 -> 8"):
        open_attempt(store, claim(minWords=8), claimant("c"))
    open_attempt(store, wanted, claimant("d"))
    assert (set(), {source.key for source in DONE}) == keys_of(store)


def test_a_restart_goes_through_all_groups(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    finish_all(store)
    monkeypatch.setattr("strandline.ledger.access.lease.islice", lambda items, _: islice(items, 2))
    restart(store)
    assert (set(), {source.key for source in DONE}) == keys_of(store)


def test_the_previous_attempt_can_no_longer_write(store: Store) -> None:
    open_attempt(store, claim(), claimant("a"))
    first = store._lease
    open_attempt(store, claim(), claimant("b"))
    assert first is not None
    store.hold_lease(*first)
    with pytest.raises(LeaseLostError, match="attempt 2 has taken the ledger over"):
        finish_all(store)
    with pytest.raises(LeaseLostError):
        end_attempt(store, 1, claimant("a"))
