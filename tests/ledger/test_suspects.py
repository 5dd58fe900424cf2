"""If a crash interrupts one source, the source is blamed; if several, all are suspected."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from ledger_builders import Clock, Desk, RecordingOutputs, counts, failed, listed, opened, written
from strandline.ledger.errors import LeaseLostError
from strandline.ledger.quarantine import Crash, accuse
from strandline.ledger.records.entries import (
    HAS_FAILED,
    QUARANTINED,
    RELEASED,
    SKIPPED,
    Change,
    ListedSource,
    QuarantinedSource,
)
from strandline.ledger.store.store import Store
from strandline.ledger.writer.writer import LedgerWriter
from strandline.storage.errors import VolumeError

A, B, C, D = (listed(key, ordinal=place) for place, key in enumerate("abcd"))
A2 = listed("a", version="2")
WHY = "a process died while processing only this source"


def crash(
    attempt: int, processing: Collection[ListedSource], queued: Collection[ListedSource] = ()
) -> Crash:
    """Return a crash: the kernel killed an attempt that worked on these sources."""
    return Crash(
        attempt,
        {source.source for source in processing},
        {source.source for source in queued},
        "OOMKilled",
        WHY,
    )


def blame_of(desk: Desk, source: ListedSource) -> tuple[int, int]:
    """Return the number of failed attempts of a source, and the size of its group of suspects."""
    mark = desk.find_mark(source)
    return mark.failed_before, mark.exposed


def test_a_source_that_crashed_alone_is_blamed(desk: Desk) -> None:
    desk.writer.admit([A, B])
    assert 1 == accuse(desk.store, crash(1, [A]), 3)
    assert (1, 1) == blame_of(desk, A)
    assert (0, 0) == blame_of(desk, B)
    assert [RELEASED + 1, RELEASED] == desk.next_attempt(2).admit([A, B])
    assert (1, 1) == blame_of(desk, A)


@pytest.mark.parametrize(
    ("processing", "queued", "exposed"),
    [
        ([A, B], [], 2),
        ([A, B, C], [], 3),
        ([A], [B], 2),
        ([A, B], [C, D], 4),
        ([A, B], [A, B], 2),  # each source has a running and a waiting task
        ([A], [A], 1),
    ],
)
def test_sources_of_a_group_are_suspected_with_its_size(
    desk: Desk, processing: list[ListedSource], queued: list[ListedSource], exposed: int
) -> None:
    everyone = [A, B, C, D]
    desk.writer.admit(everyone)
    assert len(processing) == accuse(desk.store, crash(1, processing, queued), 3)
    for source in everyone:
        suspected = (int(exposed == 1), exposed) if source in processing else (0, 0)
        assert suspected == blame_of(desk, source)
    wanted = [RELEASED + exposed if source in processing else RELEASED for source in everyone]
    assert wanted == desk.next_attempt(2).admit(everyone)


def test_suspicion_outlives_attempts_that_ended_otherwise(desk: Desk) -> None:
    desk.writer.admit([A, B])
    accuse(desk.store, crash(1, [A, B]), 3)
    for attempt in (2, 3):
        assert [RELEASED + 2] * 2 == desk.next_attempt(attempt).admit([A, B])
    accuse(desk.store, crash(3, [B]), 3)
    assert [RELEASED + 2, RELEASED + 1] == desk.next_attempt(4).admit([A, B])


def test_suspicion_follows_the_last_crash(desk: Desk) -> None:
    """After a crash of a smaller group, its suspects are tried in an even smaller group."""
    desk.writer.admit([A, B, C, D])
    accuse(desk.store, crash(1, [A, B, C, D]), 3)
    desk.next_attempt(2).admit([A, B, C, D])
    accuse(desk.store, crash(2, [A, B]), 3)
    assert [3, 3, 5, 5] == desk.next_attempt(3).admit([A, B, C, D])


def test_a_crash_is_noted_once(desk: Desk) -> None:
    desk.writer.admit([A])
    assert 1 == accuse(desk.store, crash(1, [A]), 3)
    assert 0 == accuse(desk.store, crash(1, [A]), 3)
    assert (1, 1) == blame_of(desk, A)
    desk.next_attempt(2).admit([A])
    assert 1 == accuse(desk.store, crash(2, [A]), 3)
    assert 0 == accuse(desk.store, crash(1, [A]), 3)
    assert (2, 1) == blame_of(desk, A)


def test_a_crash_without_sources_is_recorded_too(desk: Desk) -> None:
    desk.writer.admit([A])
    assert 0 == accuse(desk.store, crash(1, [], [A]), 3)
    assert 1 == desk.store.read_meta("accused")
    assert (0, 0) == blame_of(desk, A)


@pytest.mark.parametrize("end", ["finished", "failed", "parked"])
def test_an_ended_source_is_not_blamed(desk: Desk, end: str) -> None:
    """The table of work in flight may be older than the ledger."""
    writer = desk.next_attempt(2, quarantine_after=1 if end == "parked" else 3)
    writer.admit([A, B])
    is_finished = end == "finished"
    writer.apply(1, [written(A)] if is_finished else [], [] if is_finished else [failed(A)])
    writer.commit()
    before = desk.store.count()
    assert 0 == accuse(desk.store, crash(2, [A]), 1)
    assert before == desk.store.count()
    verdict = {"finished": SKIPPED, "failed": RELEASED + HAS_FAILED, "parked": QUARANTINED}[end]
    assert [verdict, RELEASED] == desk.next_attempt(3).admit([A, B])


def test_a_source_released_by_another_attempt_is_not_blamed(desk: Desk) -> None:
    desk.writer.admit([A, B])
    desk.next_attempt(2).admit([B])
    assert 1 == accuse(desk.store, crash(2, [A, B]), 3)
    assert (0, 0) == blame_of(desk, A)
    assert (0, 2) == blame_of(desk, B)
    assert 0 == accuse(desk.store, crash(3, [A, listed("unknown")]), 3)


def test_the_third_crash_alone_quarantines_a_source(desk: Desk) -> None:
    for attempt in (2, 3):
        desk.next_attempt(attempt).admit([A, B])
        accuse(desk.store, crash(attempt, [A]), 3)
        assert (attempt - 1, 1) == blame_of(desk, A)
    desk.next_attempt(4).admit([A, B])
    assert 1 == accuse(desk.store, crash(4, [A]), 3)
    assert QuarantinedSource("a", A.version, 4, "OOMKilled", "", WHY, 3) == desk.find_quarantined(A)
    assert counts(inflight=1, quarantined=1) == desk.store.count()
    assert [QUARANTINED, RELEASED] == desk.next_attempt(5).admit([A, B])


def test_a_group_is_never_quarantined(desk: Desk) -> None:
    """A group is not quarantined even if the limit has been lowered since."""
    desk.fail_in(A, 2, 3)
    desk.next_attempt(4).admit([A, B])
    accuse(desk.store, crash(4, [A, B]), 1)
    assert (2, 2) == blame_of(desk, A)
    assert counts(inflight=2) == desk.store.count()


@pytest.mark.parametrize("ends_in_failure", [True, False])
def test_failures_and_crashes_add_up(desk: Desk, ends_in_failure: bool) -> None:
    desk.fail_in(A, 2)
    desk.next_attempt(3).admit([A])
    accuse(desk.store, crash(3, [A]), 3)
    assert (2, 1) == blame_of(desk, A)
    if ends_in_failure:
        desk.fail_in(A, 4)
    else:
        desk.next_attempt(4).admit([A])
        accuse(desk.store, crash(4, [A]), 3)
    parked = desk.find_quarantined(A)
    assert parked is not None
    assert ("decode" if ends_in_failure else "", 3) == (parked.stage, parked.times)


def test_a_failure_clears_suspicion_and_keeps_the_count(desk: Desk) -> None:
    desk.writer.admit([A])
    accuse(desk.store, crash(1, [A]), 3)
    desk.fail_in(A, 2)
    assert [2] == [failure.times for _, failure in desk.store.list_failures()]
    assert [RELEASED + HAS_FAILED] == desk.next_attempt(3).admit([A])


def test_finishing_clears_suspicion(desk: Desk) -> None:
    desk.writer.admit([A])
    accuse(desk.store, crash(1, [A]), 3)
    writer = desk.next_attempt(2)
    writer.admit([A])
    writer.apply(1, [written(A)])
    writer.commit()
    assert [SKIPPED] == desk.next_attempt(3).admit([A])
    assert [RELEASED] == desk.next_attempt(4).admit([A2])
    assert (0, 0) == blame_of(desk, A)


def test_a_new_version_is_not_suspected(desk: Desk) -> None:
    desk.writer.admit([A])
    accuse(desk.store, crash(1, [A]), 3)
    assert [RELEASED] == desk.next_attempt(2).admit([A2])
    assert (0, 0) == blame_of(desk, A)


class KilledError(BaseException):
    """Simulates the end of the process."""


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KilledError()])
def test_an_accusation_is_kept_whole_or_not_at_all(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    desk.fail_in(A, 2, 3)
    desk.next_attempt(4).admit([A, B])

    def fail(_: str) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("strandline.storage.faults.reach", fail)
        for accused in ([A], [A, B]):
            with pytest.raises(KilledError if isinstance(error, KilledError) else VolumeError):
                accuse(desk.store, crash(4, accused), 3)
    assert counts(inflight=2) == desk.store.count()
    assert ((2, 0), (0, 0)) == (blame_of(desk, A), blame_of(desk, B))
    assert desk.store.read_meta("accused") is None
    assert 1 == accuse(desk.store, crash(4, [A]), 3)
    assert counts(inflight=1, quarantined=1) == desk.store.count()


def test_an_accusation_is_one_transaction(desk: Desk) -> None:
    """If it were two transactions, a crash between them could lose or repeat the accusation."""
    desk.writer.admit([A, B])
    before = desk.store._env.info()["last_txnid"]
    assert 2 == accuse(desk.store, crash(1, [A, B]), 3)
    assert before + 1 == desk.store._env.info()["last_txnid"]


def test_an_attempt_without_the_lease_blames_no_source(desk: Desk) -> None:
    desk.writer.admit([A])
    desk.store.write(Change(meta={"lease": {"attempt": 2, "uid": "another"}}))
    with pytest.raises(LeaseLostError):
        accuse(desk.store, crash(1, [A]), 3)
    assert (0, 0) == blame_of(desk, A)


class Try(NamedTuple):
    """An attempt: the fate of each released source, and the end.

    Attributes:
        fates: fate of each source: F (finished), X (failed), or O (open, still with workers at the
            end).
        died: whether the attempt crashes.
        with_workers: work on each source at the crash: P (processing), Q (queued), or - (neither).
    """

    fates: str
    died: bool
    with_workers: str


@dataclass
class Guilt:
    """The facts that prove or disprove a source's guilt.

    Attributes:
        times: number of attempts in which the source failed, or was alone with workers at a crash.
        ended: "" or the final state, finished or parked.
    """

    times: int = 0
    ended: str = ""


@dataclass
class Bench:
    """A ledger, and the verdicts of a judge with all facts for comparison."""

    store: Store
    after: int
    sources: list[ListedSource]
    guilt: dict[str, Guilt] = field(default_factory=dict)

    def judge(self, key: str) -> None:
        guilt = self.guilt[key]
        guilt.times += 1
        guilt.ended = "parked" if guilt.times >= self.after else ""

    def attempt(self, number: int, what: Try) -> None:
        self.store.take_lease({"attempt": number, "uid": "a"})
        writer = LedgerWriter(
            self.store, RecordingOutputs(), number, Clock(), quarantine_after=self.after
        )
        verdicts = writer.admit(self.sources)
        fates = {
            source: fate
            for source, verdict, fate in zip(self.sources, verdicts, what.fates, strict=True)
            if verdict >= RELEASED
        }
        finished = [source for source, fate in fates.items() if fate == "F"]
        failures = [source for source, fate in fates.items() if fate == "X"]
        writer.apply(
            1, [written(source) for source in finished], [failed(source) for source in failures]
        )
        writer.commit()
        for source in finished:
            self.guilt[source.key].ended = "finished"
        for source in failures:
            self.judge(source.key)
        if what.died:
            self.crash(number, what, fates)

    def crash(self, number: int, what: Try, fates: dict[ListedSource, str]) -> None:
        where = dict(zip(self.sources, what.with_workers, strict=True))
        processing = [source for source in fates if where[source] == "P"]
        queued = [source for source in fates if where[source] == "Q"]
        accuse(self.store, crash(number, processing, queued), self.after)
        if len(processing) == 1 and not queued and fates[processing[0]] == "O":
            self.judge(processing[0].key)


KEYS = "abcd"
TRIES = st.builds(
    Try,
    st.text("FXOOO", min_size=len(KEYS), max_size=len(KEYS)),
    st.booleans(),
    st.text("P-Q", min_size=len(KEYS), max_size=len(KEYS)),
)


@settings(max_examples=scale_examples(60))
@given(st.lists(TRIES, min_size=1, max_size=8), st.integers(1, 3))
def test_only_sources_that_failed_or_crashed_alone_are_parked(
    tmp_path_factory: pytest.TempPathFactory, tries: list[Try], after: int
) -> None:
    """Sources with too many failures or crashes are parked, as a judge with all facts decides."""
    with opened(tmp_path_factory.mktemp("ledger")) as store:
        bench = Bench(store, after, [listed(key) for key in KEYS])
        bench.guilt = {key: Guilt() for key in KEYS}
        for number, what in enumerate(tries, 1):
            bench.attempt(number, what)
            parked = {parked.key: parked.times for _, parked in store.list_quarantined()}
            wanted = {
                key: guilt.times for key, guilt in bench.guilt.items() if guilt.ended == "parked"
            }
            assert wanted == parked
            finished = {key for key, guilt in bench.guilt.items() if guilt.ended == "finished"}
            assert finished == {record.key for _, _, record in store.list_records()}


def test_a_source_to_be_replaced_is_blamed_and_stays_finished(desk: Desk) -> None:
    """The source has no mark. The ledger only has its record, written by an earlier attempt."""
    desk.writer.admit([A, B])
    desk.writer.apply(1, [written(A), written(B)])
    desk.writer.commit()
    assert 0 == accuse(desk.store, crash(1, [A]), 3)  # this attempt has finished the source
    for attempt, times in ((2, 1), (3, 2)):
        assert 1 == accuse(desk.store, crash(attempt, [A]), 3)
        assert times == desk.store.find_failures([A.source])[A.source].times
    assert 0 == accuse(desk.store, crash(4, [A, B]), 3)
    assert 1 == accuse(desk.store, crash(5, [A]), 3)
    (held,) = desk.store.find_quarantined([A.source]).values()
    assert (A.key, A.version, "OOMKilled", WHY, 3) == (
        held.key,
        held.version,
        held.cause,
        held.message,
        held.times,
    )
    assert counts(finished=2, quarantined=1) == desk.store.count()
    assert [SKIPPED, SKIPPED] == desk.next_attempt(6).admit([A, B])
