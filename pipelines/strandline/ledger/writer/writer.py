"""The order in which things become durable, so that a crash anywhere loses nothing and lies never.

For each source: its mark in `inflight`, before it is released; its outputs, by the sinks; then one
transaction, under the lease, says finished, keeps the record and removes the mark; then what an
earlier try left in its folder goes. Counting is the tally's, bytes are the store's. A
ledger has one writer, which knows no engine: its host calls it from one thread at a time and passes
the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from strandline.ledger.errors import NegativePendingCountError, duplicate_of
from strandline.ledger.gather.pieces import PieceStore, split
from strandline.ledger.location import Trial
from strandline.ledger.output_root import name_own_files
from strandline.ledger.quarantine import find_excess
from strandline.ledger.records.entries import (
    HAS_FAILED,
    LISTING,
    QUARANTINED,
    RELEASED,
    SKIPPED,
    Change,
    FailureRecord,
    Finish,
    FinishedEntry,
    ListedSource,
    Mark,
    Quarantined,
    RemovalPolicy,
    SourceRecord,
    Standing,
)
from strandline.ledger.store.store import Store
from strandline.ledger.store.vanished import ListingScope, SeenSources, clean_away, find_vanished
from strandline.ledger.tally import Tally
from strandline.ledger.writer.cut_room import CutRoom
from strandline.plan.receipt import NO_EFFORTS, Event, Failure, Left, split_work
from strandline.plan.token import derive_root
from strandline.storage import faults
from strandline.storage.errors import naming_volume
from strandline.storage.outputs.ports import OutputStore
from strandline_api.outcome.causes import Cause

GROUP_SECONDS = 0.1
GROUP_SOURCES = 10_000
# Called for every source; the constructors of the classes take twice as long.
_new_tuple = tuple.__new__


class LedgerWriter:
    """Writes one attempt into a ledger.

    Args:
        store: holds the lease of this attempt.
        outputs: where the sinks write, for removing leftovers.
        attempt: number of this attempt.
        now: seconds from any fixed point.
        quarantine_after: attempts in which a source fails before it is quarantined.
        deletes_vanished: sources that are no longer listed are removed with their outputs.
        pieces: keeps what stages gather; None: none of them does.

    Attributes:
        note_progress: is told of each step of what may take long.
        tolerances: by stage, with how many dead letters of it a source still finishes.
        room: for cuts.
    """

    def __init__(
        self,
        store: Store,
        outputs: OutputStore,
        attempt: int,
        now: Callable[[], float],
        *,
        quarantine_after: int = 3,
        deletes_vanished: bool = False,
        pieces: PieceStore | None = None,
    ) -> None:
        self._store = store
        self._outputs = outputs
        self._attempt = attempt
        self._now = now
        self._live: dict[bytes, Mark] = {}
        self._pieces = pieces
        self.tolerances: Sequence[tuple[str, int | str]] = ()
        self.room = CutRoom()
        self.set_trial(None)
        self.note_progress: Callable[[], None] = lambda: None
        self._waiting: dict[bytes, list[Left]] = {}
        self._failed: list[Failure] = []
        self._quarantined: set[bytes] = set()
        self._untidy: dict[bytes, set[str]] = {}
        self._tidy: list[bytes] = []
        self._after = quarantine_after
        self._tally = Tally(self._is_over)
        self.set_removal(RemovalPolicy(deletes_vanished))
        self._applied = 0
        self._waiting_since = 0.0
        self._listed: int | None = None
        self._finished_count = self._skipped = self._failed_count = self._removed = 0
        self._quarantined_before = 0

    @property
    def finished(self) -> int:
        """Sources that this attempt has made durable so far."""
        return self._finished_count

    def set_removal(self, policy: RemovalPolicy) -> None:
        """Say which finished sources go that are not listed, before anything is."""
        self._policy = policy
        self._seen = SeenSources(policy.part_suffix) if any(policy) else None

    def set_trial(self, trial: Trial | None, *, is_trial: bool = False) -> None:
        """Say what was worked on apart before, or that this is."""
        self._trial = trial or Trial(frozenset(), 0)
        self._is_trial = is_trial

    @naming_volume("the ledger")
    def admit(self, batch: Sequence[ListedSource], passed: int = 0) -> list[int]:
        """Mark the sources of a listing batch that are to be worked on.

        Args:
            passed: so many sources more were listed, and other processes have found them finished.

        Returns:
            For each: `SKIPPED` where it is finished, `QUARANTINED` where it is quarantined, else
            `RELEASED`, plus its crowd where it is suspected (see `Mark`), or plus `HAS_FAILED`
            where this very version has failed before.

        Raises:
            DuplicateKeyError: a key is listed twice.
            VolumeError: the marks can't be written; none is released.
        """
        if self._seen is not None:
            self._seen.add_listed(batch)
        fresh = self._store.find_unfinished(batch, self._attempt)
        if self._trial.sources:
            fresh = [each for each in fresh if each[1].source not in self._trial.sources]
        verdicts = [SKIPPED] * len(batch)
        self._skipped += len(batch) - len(fresh) + passed
        if fresh:
            for index, verdict in self._admit_fresh(fresh):
                verdicts[index] = verdict
        return verdicts

    @naming_volume("the ledger")
    def apply(self, number: int, events: Sequence[Event], failures: Sequence[Failure] = ()) -> None:
        """Count what the `number`th message says; commit when a group is due.

        Raises:
            NonDeterministicTaskError: a stage gave two answers to one task.
            ValueError: a message is missing; nothing of this one is counted.
        """
        if number != self._applied + 1:
            msg = f"message {number} came after message {self._applied}"
            raise ValueError(msg)
        if self._pieces is not None:
            events = self._pieces.put_aside(events)
        was_waiting = bool(self._waiting or self._failed)
        self._waiting.update(self._tally.count(events))
        self._failed += self._tally.fail(failures)
        if not was_waiting and (self._waiting or self._failed):
            self._waiting_since = self._now()
        self._applied = number
        faults.reach("source.settled")
        self.commit_due()

    def commit_due(self) -> None:
        """Commit the waiting group where it is full or old enough."""
        size = len(self._waiting) + len(self._failed)
        if size >= GROUP_SOURCES or (size and self._now() - self._waiting_since >= GROUP_SECONDS):
            self.commit()

    @naming_volume("the ledger")
    def commit(self) -> None:
        """Make every waiting source durable in one transaction, and remove what is left of others.

        Raises:
            LeaseLostError: another attempt has the ledger; nothing was removed that is its.
            VolumeError: the disk is full or fails; the sources stay waiting, or what is to be
                removed stays noted.
        """
        if self._waiting or self._failed:
            self._write_group()
        for source, keep in list(self._untidy.items()):
            # Another attempt that has taken the lease may be writing to this folder by now.
            self._store.require_lease()
            self._outputs.remove_others(source, keep)
            del self._untidy[source]
            self._tidy.append(source)
            self.note_progress()
            faults.reach("commit.cleaned")

    def _write_group(self) -> None:
        faults.reach("commit.begun")
        if self.tolerances:
            self._refuse_intolerable()
        self.room.begin()
        change = Change(finish=[self._finish(*item) for item in self._waiting.items()])
        change.finish, lighter = self.room.fit_all(change.finish)
        untidy = {
            source: name_own_files(record)
            for source, _, record in change.finish
            if self._live[source].is_stale or source in self._tally.restarted or source in lighter
        }
        change.untidy, change.tidy = list(untidy), self._tidy
        # A finished source must not name pieces that a crash can take back.
        if self._pieces is not None:
            self._pieces.sync()
        for failure in self._failed:
            self._fail(failure, change)
        self._amend(change)
        finished = self._finished_count + len(change.finish)
        change.meta = {"progress": self._describe_progress(finished)}
        self._store.write(change)
        self.room.commit()
        faults.reach("commit.synced")
        self._untidy |= untidy
        self._tidy = []
        self.note_progress()
        self._finished_count = finished
        self._failed_count += len(change.fail)
        self._quarantined.update(source for source, _ in change.quarantine)
        for source in (*self._waiting, *(failure.source for failure in self._failed)):
            del self._live[source]
            self._tally.forget(source)
        self._waiting.clear()
        self._failed.clear()

    def _refuse_intolerable(self) -> None:
        """Have sources fail that have more dead letters than their stages tolerate."""
        for source, left in list(self._waiting.items()):
            key, version, *_ = self._live[source]
            dead = SourceRecord(key, split(left)[0]).count_dead()
            efforts = self._tally.efforts.get(source, {})
            excess = find_excess(self.tolerances, dead, efforts)
            if excess is not None:
                del self._waiting[source]
                root = derive_root(source, version)
                self._failed.append(Failure(source, key, root, *excess))

    def end_listing(self, total: int, *, is_whole: bool = True, gaps: Sequence[str] = ()) -> None:
        """Note that the listing is at its end, and clean away what it no longer names.

        Unfinished sources of earlier attempts go with whatever they left; finished ones only where
        they are asked to, or are parts that a listed file no longer has.

        Args:
            is_whole: all that is there was listed; otherwise only of parts of listed files is it
                known that they are gone.
            gaps: files and folders, as keys begin, that were not looked at.
        """
        if self._is_trial:
            return  # sources that it has not named are named later
        known = self._live.keys() | self._quarantined
        scope = ListingScope(is_whole, frozenset(gaps), len(known) + self._failed_count)
        vanished = find_vanished(self._store, self._attempt, known, self._seen, self._policy, scope)
        self._removed += clean_away(self._store, self._outputs, vanished, self.note_progress)
        self._listed = total
        progress = self._describe_progress(self._finished_count)
        self._store.write(Change(meta={"listed": total, "progress": progress, LISTING: 0}))

    def drain(self, number: int, *, anything_died: bool) -> Standing:
        """Commit all that is finished after message `number`, and say how the sources stand.

        Raises:
            NegativePendingCountError: a token was settled without an announcement, and no worker
                died that could have taken the announcement with it.
            ValueError: not every message has arrived.
        """
        if number != self._applied:
            msg = f"the last message is {number}, but {self._applied} have arrived"
            raise ValueError(msg)
        self.commit()
        if self._tidy:
            self._store.write(Change(tidy=self._tidy))
            self._tidy = []
        source = self._tally.find_unannounced()
        if source is not None and not anything_died:
            msg = f"source {self._live[source].key!r}: a task was settled without an announcement"
            raise NegativePendingCountError(msg)
        unfinished = len(list(self._tally.list_open()))
        ended = self._finished_count, self._skipped, self._failed_count
        return Standing(*ended, unfinished, self._removed, len(self._quarantined))

    def _is_over(self, source: bytes) -> bool:
        return source in self._waiting or source not in self._live

    def _admit_fresh(
        self, fresh: Sequence[tuple[int, ListedSource, FinishedEntry | None]]
    ) -> list[tuple[int, int]]:
        """Mark what is not finished; return indices in the batch, and the verdict on each."""
        past = self._find_past([listed[0] for _, listed, _ in fresh])
        attempt, live = self._attempt, self._live
        marks, verdicts = [], []
        for index, listed, finished in fresh:
            source, version, key, ordinal = listed
            if finished is not None and finished.attempt == attempt:
                raise duplicate_of(listed, "once before, when it was finished")
            if source in live:
                raise duplicate_of(listed, f"as item {live[source].ordinal}")
            if source in self._quarantined:
                raise duplicate_of(listed, "once before, when it was quarantined")
            # By far the most sources have no past.
            if source in past:
                mark = self._mark_again(listed, *past[source])
                if mark is None:
                    verdicts.append((index, QUARANTINED))
                    continue
            else:
                is_stale = finished is not None  # another version is finished
                mark = _new_tuple(Mark, (key, version, attempt, ordinal, is_stale, 0, 0))
            live[source] = mark
            marks.append((source, mark))
            verdicts.append((index, _judge(mark)))
        # Without its mark a later attempt would not clean up what a released source has left.
        if marks:
            self._store.write(Change(mark=marks))
            faults.reach("listing.marked")
        self._tally.announce((source, derive_root(source, mark[1])) for source, mark in marks)
        return verdicts

    def _find_past(
        self, digests: Sequence[bytes]
    ) -> dict[bytes, tuple[Quarantined | None, Mark | None, FailureRecord | None]]:
        """Return what the ledger knows of those of `digests` that it knows and are not finished."""
        quarantined = self._store.find_quarantined(digests)
        marks = self._store.find_marks(digests)
        failures = self._store.find_failures(digests)
        return {
            source: (quarantined.get(source), marks.get(source), failures.get(source))
            for source in (quarantined.keys() | marks.keys() | failures.keys())
        }

    def _mark_again(
        self,
        listed: ListedSource,
        held: Quarantined | None,
        old: Mark | None,
        failure: FailureRecord | None,
    ) -> Mark | None:
        """Return the mark of a source that is known from before; None: it is quarantined."""
        source, version, key, ordinal = listed
        if failure is not None and failure.attempt == self._attempt:
            raise duplicate_of(listed, "once before, when it failed")
        # A source that has changed since is tried again.
        if held is not None and held.version == version:
            self._quarantined.add(source)
            self._quarantined_before += 1
            return None
        before, exposed = _read_past(version, old, failure)
        return Mark(key, version, self._attempt, ordinal, True, before, exposed)  # noqa: FBT003

    def _describe_progress(self, finished: int) -> dict[str, int | None]:
        """Return what `meta` keeps of this attempt, so that it is known whatever ends it."""
        done = self._skipped + self._quarantined_before
        tried, before = len(self._trial.sources), self._trial.finished
        remaining = None if self._listed is None else self._listed - done + tried
        return {"attempt": self._attempt, "finished": finished + before, "remaining": remaining}

    def _finish(self, source: bytes, left: list[Left]) -> Finish:
        key, version, *_ = self._live[source]
        outputs, pieces = split(left) if left else ((), [])
        kept = self._pieces.keep(source, pieces) if self._pieces is not None else ()
        efforts = self._tally.efforts.get(source)
        work = split_work(efforts.values()) if efforts else NO_EFFORTS
        record = _new_tuple(SourceRecord, (key, outputs, kept, *work))
        return _new_tuple(Finish, (source, version, record))

    def _amend(self, change: Change) -> None:
        """Let a writer of another kind amend a group before it is written."""

    def _fail(self, failure: Failure, change: Change) -> None:
        source, key, _, stage, message, cause = failure
        live = self._live[source]
        cause = cause or Cause.APPLICATION_ERROR.value
        facts = key, live.version, self._attempt, cause, stage, message, live.failed_before + 1
        change.add_failure(source, Quarantined(*facts), self._after)


def _judge(mark: Mark) -> int:
    """Return the verdict on a source that is released."""
    *_, before, exposed = mark
    # A suspect is tried apart anyway, and is not told twice.
    has_failed = bool(before) and not exposed
    return RELEASED + exposed + has_failed * HAS_FAILED


def _read_past(version: bytes, old: Mark | None, failure: FailureRecord | None) -> tuple[int, int]:
    """Return how often this version has failed, and the exposed sources if it is suspected."""
    if failure is not None and failure.version == version:
        return failure.times, 0
    if old is not None and old.version == version:
        return old.failed_before, old.exposed
    return 0, 0
