"""Each change moves a source to the expected state in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from ledger_builders import counts, failed, finish_of, listed, opened, output_of
from strandline.ledger.errors import LeaseLostError, LedgerError
from strandline.ledger.records.entries import (
    Change,
    FailureRecord,
    ListedSource,
    Mark,
    QuarantinedSource,
)
from strandline.ledger.store.store import Store
from strandline.storage.errors import VolumeError

A, B, C, D = (listed(key, ordinal=place) for place, key in enumerate("abcd"))
LEASE = {"attempt": 3, "uid": "mine"}


def mark(source: ListedSource, attempt: int = 1) -> tuple[bytes, Mark]:
    return source.source, Mark(source.key, source.version, attempt, source.ordinal, False)


def failure(source: ListedSource, times: int = 1) -> tuple[bytes, FailureRecord]:
    what = failed(source)
    return source.source, FailureRecord(source.key, 1, what.stage, what.message, times)


def parked(source: ListedSource) -> tuple[bytes, QuarantinedSource]:
    return source.source, QuarantinedSource(
        source.key, source.version, 1, "Killed", "decode", "gone", 3
    )


CHANGES = {
    "mark": lambda source: Change(mark=[mark(source)]),
    "finish": lambda source: Change(finish=[finish_of(source, output_of(source))]),
    "fail": lambda source: Change(fail=[failure(source)]),
    "park": lambda source: Change(quarantine=[parked(source)]),
    "forget": lambda source: Change(forget=[source.source]),
}


def kinds_of(sources: Sequence[ListedSource]) -> st.SearchStrategy[list[tuple[str, ListedSource]]]:
    """Draw a kind of change for some of these sources."""
    kinds = st.lists(st.sampled_from(sorted(CHANGES)), max_size=len(sources))
    return kinds.map(lambda drawn: list(zip(drawn, sources, strict=False)))


def join(changes: Iterable[Change]) -> Change:
    """Combine all changes into one."""
    whole = Change()
    for change in changes:
        for name in ("finish", "mark", "fail", "quarantine", "forget"):
            getattr(whole, name).extend(getattr(change, name))
    return whole


def states_of(store: Store, source: ListedSource) -> set[str]:
    """Return the states of a source according to all queries."""
    digest = source.source
    states = set()
    if digest in store.find_finished([digest]):
        states.add("finished")
    if digest in store.find_marks([digest]):
        states.add("inflight")
    if digest in store.find_failures([digest]):
        states.add("failed")
    if digest in store.find_quarantined([digest]):
        states.add("quarantined")
    listings = {
        "finished": store.list_records(),
        "inflight": store.list_marks(),
        "failed": store.list_failures(),
        "quarantined": store.list_quarantined(),
    }
    found = {name for name, items in listings.items() if digest in {item[0] for item in items}}
    assert found == states
    return states


@pytest.mark.parametrize(
    ("steps", "states"),
    [
        ([], set()),
        (["mark"], {"inflight"}),
        (["mark", "mark"], {"inflight"}),
        (["mark", "finish"], {"finished"}),
        (["mark", "fail"], {"failed"}),
        (["mark", "forget"], set()),
        (["mark", "finish", "mark"], {"inflight"}),
        (["mark", "finish", "mark", "finish"], {"finished"}),
        (["mark", "finish", "mark", "fail"], {"failed"}),
        (["mark", "finish", "forget"], set()),
        (["mark", "fail", "finish"], {"finished"}),
        (["mark", "fail", "mark"], {"inflight"}),
        (["mark", "fail", "mark", "finish"], {"finished"}),
        (["mark", "fail", "mark", "fail"], {"failed"}),
        (["mark", "fail", "mark", "forget"], set()),
        (["mark", "fail", "forget"], set()),
        (["mark", "park"], {"quarantined"}),
        (["mark", "fail", "park"], {"quarantined"}),
        (["mark", "park", "mark"], {"inflight"}),
        (["mark", "park", "mark", "finish"], {"finished"}),
        (["mark", "park", "mark", "fail"], {"failed"}),
        (["mark", "park", "mark", "park"], {"quarantined"}),
        (["mark", "park", "forget"], set()),
    ],
)
def test_states_follow_changes(store: Store, steps: list[str], states: set[str]) -> None:
    store.write(Change(mark=[mark(B)], finish=[finish_of(C)]))
    for step in steps:
        store.write(CHANGES[step](A))
    assert states == states_of(store, A)
    assert {"inflight"} == states_of(store, B)
    assert {"finished"} == states_of(store, C)
    others = counts(finished=1, inflight=1)
    assert {name: (name in states) + number for name, number in others.items()} == store.count()


def test_entries_are_read_back(store: Store) -> None:
    store.write(
        Change(
            mark=[mark(A)],
            fail=[failure(B, times=4)],
            quarantine=[parked(D)],
            finish=[finish_of(C, output_of(C))],
        )
    )
    assert dict([mark(A)]) == dict(store.list_marks()) == store.find_marks([A.source, B.source])
    assert dict([failure(B, 4)]) == dict(store.list_failures()) == store.find_failures([B.source])
    assert (
        dict([parked(D)])
        == dict(store.list_quarantined())
        == store.find_quarantined([A.source, D.source])
    )
    ((source, entry, record),) = store.list_records()
    assert (C.source, C.version, "c") == (source, entry.version, record.key)
    assert (output_of(C),) == record.outputs
    assert counts(finished=1, failed=1, inflight=1, quarantined=1) == store.count()


def test_a_new_version_replaces_the_old_one(store: Store) -> None:
    newer = listed("a", version="2")
    store.write(CHANGES["finish"](A))
    store.write(CHANGES["mark"](newer))
    store.write(CHANGES["finish"](newer))
    ((_, entry, record),) = store.list_records()
    assert newer.version == entry.version
    assert (output_of(newer),) == record.outputs
    assert 1 == len(list(store.list_records()))


def test_the_index_names_the_attempt_that_finished(store: Store) -> None:
    store.take_lease(LEASE)
    store.write(Change(finish=[finish_of(A)]))
    assert 3 == store.find_finished([A.source])[A.source].attempt


def test_empty_queries_find_nothing(store: Store) -> None:
    assert not store.find_finished([])
    assert not store.find_marks([])
    assert not store.find_failures([])
    assert not store.find_quarantined([])


@settings(max_examples=scale_examples(20), deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(0, 40)), min_size=1, max_size=60
    )
)
def test_many_sources_keep_to_their_own_states(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """Sources share rows of the index, so a change of a source must not affect its neighbors."""
    finished: set[bytes] = set()
    with opened(tmp_path_factory.mktemp("ledger")) as store:
        for name, number in steps:
            source = listed("a")._replace(source=b"\xab\xcd\x50" + bytes([number] * 13))
            store.write(CHANGES[name](source))
            if name == "finish":
                finished.add(source.source)
            elif name not in {"fail", "park"}:
                finished.discard(source.source)
        assert finished == {source for source, *_ in store.list_records()}


def test_a_change_is_kept_whole_or_not_at_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(Change(mark=[mark(A)]))
    monkeypatch.setenv("STRANDLINE_FAULT", "commit.written:enospc")
    monkeypatch.setattr("strandline.storage.faults._reached", {"commit.written": 0})
    with pytest.raises(VolumeError, match="No space left"):
        store.write(Change(finish=[finish_of(A)], mark=[mark(B)], meta={"listed": 5}))
    assert {"inflight"} == states_of(store, A)
    assert set() == states_of(store, B)
    assert store.read_meta("listed") is None


NEIGHBOURS = [
    ListedSource(b"abc" + bytes([number] * 13), b"v" * 8, "key", number) for number in range(9)
]


def bytes_of(path: Path, changes: Iterable[Change]) -> list[list[tuple[bytes, bytes]]]:
    """Apply changes to a new ledger, and return the content of all its databases."""
    with opened(path) as store:
        for change in changes:
            store.write(change)
        with store._env.begin() as txn:
            return [list(txn.cursor(db)) for db in store._dbs]


@settings(max_examples=scale_examples(20))
@given(steps=st.lists(st.permutations(NEIGHBOURS).flatmap(kinds_of), max_size=4))
def test_law_a_change_of_many_leaves_the_bytes_of_many_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[str, ListedSource]]]
) -> None:
    """A combined change is applied in the order of sources, not in the order of arrival."""
    folder = tmp_path_factory.mktemp("ledgers")
    together = [join(CHANGES[kind](source) for kind, source in step) for step in steps]
    apart = [
        CHANGES[kind](source)
        for step in steps
        for kind, source in sorted(step, key=lambda pair: pair[1].source)
    ]
    assert bytes_of(folder / "a", together) == bytes_of(folder / "b", apart)


def test_meta_is_json(store: Store) -> None:
    assert store.read_meta("listed") is None
    store.write(Change(meta={"listed": {"a": [1, None, "é"]}}))
    assert {"a": [1, None, "é"]} == store.read_meta("listed")


def test_every_write_asks_whether_the_lease_still_stands(store: Store) -> None:
    store.take_lease(LEASE)
    store.write(Change(mark=[mark(A)]))
    store.write(Change(meta={"lease": {"attempt": 4, "uid": "another"}}))
    for change in (
        Change(finish=[finish_of(A)]),
        Change(meta={"lease": LEASE}),
        Change(mark=[mark(B)]),
    ):
        with pytest.raises(LeaseLostError, match="attempt 4 has taken the ledger over"):
            store.write(change)
    assert {"inflight"} == states_of(store, A)
    assert set() == states_of(store, B)
    assert "another" == store.read_meta("lease")["uid"]


@pytest.mark.parametrize("other", [{"attempt": 3, "uid": "x"}, {"attempt": 4, "uid": "mine"}, {}])
def test_a_lease_is_attempt_and_uid(store: Store, other: dict[str, object]) -> None:
    store.take_lease(LEASE)
    store.write(Change(meta={"lease": other}))
    with pytest.raises(LeaseLostError):
        store.write(Change(mark=[mark(A)]))


def test_a_lease_can_be_kept_by_another_process(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.take_lease(LEASE)
    with opened(tmp_path) as store:
        store.hold_lease(3, "mine")
        store.write(Change(mark=[mark(A)]))
        store.hold_lease(2, "mine")
        with pytest.raises(LeaseLostError):
            store.write(Change(mark=[mark(B)]))


def test_a_readonly_ledger_reads_and_never_writes(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.write(Change(finish=[finish_of(A)]))
    with opened(tmp_path, readonly=True) as store:
        assert {"finished"} == states_of(store, A)
        with pytest.raises(VolumeError, match="the ledger can't be written"):
            store.write(Change(forget=[A.source]))
        assert {"finished"} == states_of(store, A)


def test_a_finished_source_without_a_record_is_an_error(store: Store) -> None:
    store.write(Change(finish=[finish_of(A)]))
    with store._env.begin(write=True) as txn:
        txn.drop(store._dbs.records, delete=False)
    with pytest.raises(LedgerError, match="finished without a record"):
        list(store.list_records())


def test_a_heartbeat_changes_only_the_time_of_the_lease(store: Store) -> None:
    store.take_lease(LEASE | {"time": 1.0, "ended": True})
    store.write(Change(mark=[mark(A)], meta={"listed": 5}))
    store.renew_lease(2.5)
    assert LEASE | {"time": 2.5, "ended": True} == store.read_meta("lease")
    assert (5, {"inflight"}) == (store.read_meta("listed"), states_of(store, A))


def test_a_heartbeat_does_not_undo_newer_changes_of_the_lease(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process of this attempt releases the lease during the heartbeat."""
    store.take_lease(LEASE | {"ended": False})
    monkeypatch.setattr(store, "read_meta", lambda _: LEASE | {"ended": False})
    store.write(Change(meta={"lease": LEASE | {"ended": True}}))
    store.renew_lease(2.5)
    monkeypatch.undo()
    assert LEASE | {"time": 2.5, "ended": True} == store.read_meta("lease")


def test_a_driver_without_the_lease_sends_no_heartbeats(store: Store) -> None:
    store.take_lease(LEASE)
    theirs = {"attempt": 4, "uid": "another", "time": 1.0}
    store.write(Change(meta={"lease": theirs}))
    with pytest.raises(LeaseLostError, match="attempt 4 has taken the ledger over"):
        store.renew_lease(2.5)
    assert theirs == store.read_meta("lease")
