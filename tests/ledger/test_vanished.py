"""Vanished sources are removed with their leftovers, even from quarantine."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_builders import (
    Clock,
    Desk,
    RecordingOutputs,
    RecordingStore,
    counts,
    failed,
    finish_of,
    listed,
    output_of,
    written,
)
from strandline.ledger.quarantine import Crash, accuse
from strandline.ledger.records.entries import (
    QUARANTINED,
    RELEASED,
    Change,
    FailureRecord,
    ListedSource,
    Mark,
    QuarantinedSource,
    RemovalPolicy,
)
from strandline.ledger.store.store import Store
from strandline.ledger.store.vanished import SeenSources, find_vanished
from strandline.ledger.writer.writer import LedgerWriter
from strandline.storage.errors import VolumeError

A, B, C, D = (listed(key, ordinal=place) for place, key in enumerate("abcd"))
A2 = listed("a", version="2")


def removed(desk: Desk) -> list[str]:
    """Return the logged actions on source A, in order."""
    return [step[0] for step in desk.log if A.source in step]


@pytest.mark.parametrize("deletes", [True, False])
def test_a_vanished_quarantined_source_is_removed_with_its_leftovers(
    desk: Desk, deletes: bool
) -> None:
    desk.fail_in(A, 2, 3, 4)
    writer = desk.next_attempt(5, deletes_vanished=deletes)
    writer.admit([B])
    writer.end_listing(1)
    assert counts(inflight=1) == desk.store.count()
    # The source is marked before its files are removed, and forgotten at the end.
    assert ["mark", "remove_others", "forget"] == removed(desk)
    standing = writer.drain(0, anything_died=False)
    assert (1, 0) == (standing.removed, standing.quarantined)


@pytest.mark.parametrize("deletes", [True, False])
@pytest.mark.parametrize(("named", "verdict"), [(A, QUARANTINED), (A2, RELEASED)])
def test_a_quarantined_source_that_is_listed_stays(
    desk: Desk, named: ListedSource, verdict: int, deletes: bool
) -> None:
    desk.fail_in(A, 2, 3, 4)
    writer = desk.next_attempt(5, deletes_vanished=deletes)
    assert [verdict] == writer.admit([named])
    writer.end_listing(1)
    is_parked = verdict == QUARANTINED
    assert counts(quarantined=int(is_parked), inflight=int(not is_parked)) == desk.store.count()
    assert 0 == writer.drain(0, anything_died=False).removed
    assert "remove_others" not in removed(desk)


@pytest.mark.parametrize("deletes", [True, False])
def test_a_source_that_this_attempt_quarantined_stays(desk: Desk, deletes: bool) -> None:
    writer = desk.next_attempt(2, deletes_vanished=deletes, quarantine_after=1)
    writer.admit([A])
    writer.apply(1, [], [failed(A)])
    writer.commit()
    writer.end_listing(1)
    assert counts(quarantined=1) == desk.store.count()
    assert 1 == writer.drain(1, anything_died=False).quarantined


def test_a_source_quarantined_by_a_crash_is_removed_only_if_vanished(desk: Desk) -> None:
    """The quarantine entry has the number of the crashed attempt, not of the attempt that lists."""
    desk.writer.admit([A, B])
    crash = Crash(1, {A.source}, (), "Killed", "gone")
    accuse(desk.store, crash, quarantine_after=1)
    writer = desk.next_attempt(2)
    assert [QUARANTINED, RELEASED] == writer.admit([A, B])
    writer.end_listing(2)
    assert counts(quarantined=1, inflight=1) == desk.store.count()
    writer = desk.next_attempt(3)
    writer.admit([B])
    writer.end_listing(1)
    assert counts(inflight=1) == desk.store.count()


def test_a_vanished_suspect_is_removed(desk: Desk) -> None:
    desk.writer.admit([A, B])
    crash = Crash(1, {A.source, B.source}, (), "Killed", "gone")
    accuse(desk.store, crash, quarantine_after=3)
    writer = desk.next_attempt(2)
    assert [RELEASED + 2] == writer.admit([B])
    writer.end_listing(1)
    assert {B.source} == {source for source, _ in desk.store.list_marks()}
    assert 1 == writer.drain(0, anything_died=False).removed


@pytest.mark.parametrize("deletes", [True, False])
def test_law_a_listing_with_a_gap_removes_nothing(desk: Desk, deletes: bool) -> None:
    desk.fail_in(A, 2, 3, 4)  # A is in quarantine after these failures
    writer = desk.next_attempt(5, deletes_vanished=deletes)
    writer.admit([A, B, C, D])
    writer.apply(1, [written(B)], [failed(C)])
    writer.drain(1, anything_died=False)
    before = desk.store.count()
    assert counts(finished=1, failed=1, inflight=1, quarantined=1) == before
    writer = desk.next_attempt(6, deletes_vanished=deletes)
    writer.end_listing(0, is_whole=False)
    assert 0 == writer.drain(0, anything_died=False).removed
    assert before == desk.store.count()


@pytest.mark.parametrize("comes_back", [True, False])
def test_an_interrupted_removal_leaves_a_source_to_be_redone(desk: Desk, comes_back: bool) -> None:
    desk.fail_in(A, 2, 3, 4)
    writer = desk.next_attempt(5)
    desk.outputs.is_broken = True
    with pytest.raises(VolumeError):
        writer.end_listing(0)
    assert Mark("a", b"", 0, 0, is_stale=True) == desk.find_mark(A)
    desk.outputs.is_broken = False
    writer = desk.next_attempt(6)
    if comes_back:
        assert [RELEASED] == writer.admit([A])
        writer.apply(1, [written(A)])
    writer.end_listing(int(comes_back))
    writer.drain(int(comes_back), anything_died=False)
    assert counts(finished=int(comes_back)) == desk.store.count()
    assert "remove_others" in removed(desk)


@pytest.fixture
def mixed(store: Store) -> Store:
    """Return a ledger of attempt 3: `a` finished, `b` failed, `c` quarantined, `d` in flight."""
    store.take_lease({"attempt": 3, "uid": "a"})
    store.write(
        Change(
            finish=[finish_of(A, output_of(A))],
            fail=[(B.source, FailureRecord("b", 3, "decode", "no", 1, B.version))],
            quarantine=[(C.source, QuarantinedSource("c", C.version, 3, "Killed", "", "no", 3))],
            mark=[(D.source, Mark("d", D.version, 3, 3, is_stale=False))],
        )
    )
    return store


@pytest.mark.parametrize(
    ("attempt", "known", "seen", "vanished"),
    [
        (4, "", None, "bcd"),
        (4, "c", None, "bd"),
        (4, "bcd", None, ""),
        (3, "", None, ""),
        (4, "", "", "abcd"),
        (4, "bcd", "bcd", "a"),
        (4, "d", "ad", "bc"),
        (3, "", "", "a"),
    ],
)
def test_vanished_sources_are_neither_listed_nor_of_this_attempt(
    mixed: Store, attempt: int, known: str, seen: str | None, vanished: str
) -> None:
    noted = None if seen is None else SeenSources()
    if noted is not None and seen is not None:
        noted.add(digests(seen))
    found = dict(find_vanished(mixed, attempt, digests(known), noted))
    assert dict(zip(digests(vanished), vanished, strict=True)) == found


def digests(keys: str) -> Collection[bytes]:
    return [listed(key).source for key in keys]


def attempt_on_parts(desk: Desk, number: int, keys: list[str], **end: Any) -> LedgerWriter:
    """Finish all listed sources in an attempt, where the suffix `#N` of a key names a part."""
    writer = desk.next_attempt(number)
    writer.set_removal(RemovalPolicy(part_suffix=r"#\d+"))
    sources = [listed(key) for key in keys]
    verdicts = writer.admit(sources)
    fresh = [each for each, verdict in zip(sources, verdicts, strict=True) if verdict >= RELEASED]
    writer.apply(1, [written(each) for each in fresh])
    writer.commit()
    writer.end_listing(len(keys), **end)
    return writer


def list_finished(desk: Desk) -> set[str]:
    return {record.key for _, _, record in desk.store.list_records()}


BOTH = ["a#0", "a#1", "a#2", "b#0", "b#1", "c"]


@pytest.mark.parametrize(
    ("keys", "end", "left"),
    [
        (["a#0"], {}, {"a#0", "b#0", "b#1", "c"}),
        (["a"], {}, {"a", "b#0", "b#1", "c"}),
        (["c#0"], {}, {"a#0", "a#1", "a#2", "b#0", "b#1", "c#0"}),
        (["a#0", "b#0"], {"is_whole": False}, {"a#0", "b#0", "c"}),
        (["a#0", "b#0"], {"gaps": ("a",)}, {"a#0", "a#1", "a#2", "b#0", "c"}),
        (["a#0", "b#0"], {"gaps": ("", "b#")}, {"a#0", "b#0", "c"}),
        (["d"], {}, {*BOTH, "d"}),
    ],
)
def test_parts_missing_from_a_listed_file_are_removed(
    desk: Desk, keys: list[str], end: dict[str, Any], left: set[str]
) -> None:
    attempt_on_parts(desk, 2, BOTH)
    attempt_on_parts(desk, 3, keys, **end)
    assert list_finished(desk) == left


def test_pending_removals_are_finished_despite_gaps(desk: Desk) -> None:
    attempt_on_parts(desk, 2, BOTH)
    desk.outputs.is_broken = True
    with pytest.raises(VolumeError):
        attempt_on_parts(desk, 3, ["a#0"])
    desk.outputs.is_broken = False
    assert 2 == desk.store.count()["inflight"]
    attempt_on_parts(desk, 4, ["b#0", "b#1"], is_whole=False)
    assert counts(finished=4) == desk.store.count()


@given(
    before=st.sets(st.sampled_from("abcdefgh"), min_size=1),
    after=st.sets(st.sampled_from("abcdefgh"), min_size=1),
    changed=st.sets(st.sampled_from("abcdefgh")),
    unfinished=st.sets(st.sampled_from("abcdefgh")),
)
def test_law_records_are_read_if_one_must_be_removed(
    tmp_path_factory: pytest.TempPathFactory,
    before: set[str],
    after: set[str],
    changed: set[str],
    unfinished: set[str],
) -> None:
    """Records are read only if more sources are finished than the listing named as finished."""
    log: list[Any] = []
    store = RecordingStore(tmp_path_factory.mktemp("ledger") / "ledger", log)
    desk = Desk(
        store,
        RecordingOutputs(log),
        Clock(),
        LedgerWriter(store, RecordingOutputs(), 1, Clock()),
        log,
    )
    writer = desk.next_attempt(2, deletes_vanished=True)
    writer.admit([listed(key) for key in sorted(before)])
    writer.apply(1, [written(listed(key)) for key in sorted(before)])
    writer.commit()
    writer.end_listing(len(before))
    writer = desk.next_attempt(3, deletes_vanished=True)
    sources = [listed(key, "2" if key in changed else "1") for key in sorted(after)]
    verdicts = writer.admit(sources)
    released = [
        each for each, verdict in zip(sources, verdicts, strict=True) if verdict >= RELEASED
    ]
    done = [each for each in released if each.key not in unfinished]
    writer.apply(1, [written(each) for each in done])
    writer.commit()
    writer.end_listing(len(after))
    stay = {*after} - ({each.key for each in released} - {each.key for each in done})
    assert list_finished(desk) == stay
    store.close()
