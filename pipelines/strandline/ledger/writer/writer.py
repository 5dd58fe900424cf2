"""The ledger's writer: orders durable changes so that records stay correct after a crash.

For each source, the order is: its mark in `inflight`, before its release; its outputs, by the
sinks; one transaction, under the lease, that records the source as finished and removes the mark;
and then the removal of leftovers in its folder. The tally counts, and the store handles bytes. A
ledger has one writer. The writer does not depend on engines: its host process calls the writer from
one thread at a time and passes the clock.
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
    QuarantinedSource,
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
# Tuples are created for every source. Calling their classes instead of `tuple.__new__` takes twice
# as long.
_new_tuple = tuple.__new__


class LedgerWriter:
    """Writes the changes of one attempt into a ledger.

    Args:
        store: the ledger, under the lease of this attempt.
        outputs: location where the sinks write, for the removal of leftovers.
        attempt: number of this attempt.
        now: clock, in seconds from any fixed point.
        quarantine_after: number of failed attempts after which a source is quarantined.
        deletes_vanished: remove sources that are no longer listed, with their outputs.
        pieces: stores gathered pieces, or None if no stage gathers.

    Attributes:
        note_progress: called after each step of long work.
        tolerances: number or percentage of dead letters, by stage, with which a source still
            finishes.
        room: space for cuts.
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
        """Number of sources that this attempt has committed so far."""
        return self._finished_count

    def set_removal(self, policy: RemovalPolicy) -> None:
        """Set the policy for finished sources that are no longer listed. Call it before `admit`."""
        self._policy = policy
        self._seen = SeenSources(policy.part_suffix) if any(policy) else None

    def set_trial(self, trial: Trial | None, *, is_trial: bool = False) -> None:
        """Record the preceding trial, or declare that this listing is a trial."""
        self._trial = trial or Trial(frozenset(), 0)
        self._is_trial = is_trial

    @naming_volume("the ledger")
    def admit(self, batch: Sequence[ListedSource], passed: int = 0) -> list[int]:
        """Mark the sources of a listing batch that must be processed.

        Args:
            passed: number of further listed sources that other processes have found finished.

        Returns:
            For each source, `SKIPPED` if finished, `QUARANTINED` if quarantined, and otherwise
            `RELEASED`. For a suspect, the number of sources suspected with it is added (see
            `Mark`); for a version that has failed before, `HAS_FAILED` is added.

        Raises:
            DuplicateKeyError: if a key is listed twice.
            VolumeError: if the marks can't be written; in this case, no source is released.
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
        """Count the events and failures of message `number`. Commit the waiting group if it is due.

        Raises:
            NonDeterministicTaskError: if a stage gave two different results for a task.
            ValueError: if an earlier message is missing. In this case, the message is not counted.
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
        """Commit the waiting group if it is full or old enough."""
        size = len(self._waiting) + len(self._failed)
        if size >= GROUP_SOURCES or (size and self._now() - self._waiting_since >= GROUP_SECONDS):
            self.commit()

    @naming_volume("the ledger")
    def commit(self) -> None:
        """Commit all waiting sources in one transaction, and remove leftovers of earlier tries.

        Raises:
            LeaseLostError: if another attempt has the ledger. The other attempt's files are
                untouched.
            VolumeError: if the disk is full or fails. The sources stay waiting, and pending
                removals stay recorded.
        """
        if self._waiting or self._failed:
            self._write_group()
        for source, keep in list(self._untidy.items()):
            # If another attempt has taken the lease, it may be writing to this folder.
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
        # Sync the pieces first: a crash must not lose pieces that a finished source names.
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
        """Fail sources with more dead letters than their stages tolerate."""
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
        """Record the end of the listing, and remove vanished sources.

        Unfinished sources of earlier attempts are removed with their leftovers. Finished sources
        are removed only if the policy requires it, or if they are parts that a listed file no
        longer has.

        Args:
            is_whole: True if the listing was complete. If False, only parts of listed files can
                vanish.
            gaps: prefixes of keys (files and folders) that the listing did not visit.
        """
        if self._is_trial:
            return  # the main listing follows, with all sources
        known = self._live.keys() | self._quarantined
        scope = ListingScope(is_whole, frozenset(gaps), len(known) + self._failed_count)
        vanished = find_vanished(self._store, self._attempt, known, self._seen, self._policy, scope)
        self._removed += clean_away(self._store, self._outputs, vanished, self.note_progress)
        self._listed = total
        progress = self._describe_progress(self._finished_count)
        self._store.write(Change(meta={"listed": total, "progress": progress, LISTING: 0}))

    def drain(self, number: int, *, anything_died: bool) -> Standing:
        """Commit everything finished up to message `number`, and return the source counts.

        Raises:
            NegativePendingCountError: if a token was settled without an announcement, although no
                worker has died. Only a worker's death can lose an announcement.
            ValueError: if messages are missing.
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
        """Mark unfinished sources. Return their batch indices, with the results of `admit`."""
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
            # Most sources have no earlier entries.
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
        # Write the marks before the release. Otherwise, a later attempt would not remove the files
        # of a source that was interrupted.
        if marks:
            self._store.write(Change(mark=marks))
            faults.reach("listing.marked")
        self._tally.announce((source, derive_root(source, mark[1])) for source, mark in marks)
        return verdicts

    def _find_past(
        self, digests: Sequence[bytes]
    ) -> dict[bytes, tuple[QuarantinedSource | None, Mark | None, FailureRecord | None]]:
        """Return the ledger's entries of the unfinished sources among `digests`."""
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
        held: QuarantinedSource | None,
        old: Mark | None,
        failure: FailureRecord | None,
    ) -> Mark | None:
        """Return the mark of a source with earlier entries, or None if it stays in quarantine."""
        source, version, key, ordinal = listed
        if failure is not None and failure.attempt == self._attempt:
            raise duplicate_of(listed, "once before, when it failed")
        # Quarantine applies only to the version that failed.
        if held is not None and held.version == version:
            self._quarantined.add(source)
            self._quarantined_before += 1
            return None
        before, exposed = _read_past(version, old, failure)
        return Mark(key, version, self._attempt, ordinal, True, before, exposed)  # noqa: FBT003

    def _describe_progress(self, finished: int) -> dict[str, int | None]:
        """Return the attempt's progress for `meta`, where it survives a crash of the attempt."""
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
        """Amend a group before it is written. Hook for subclasses."""

    def _fail(self, failure: Failure, change: Change) -> None:
        source, key, _, stage, message, cause = failure
        live = self._live[source]
        cause = cause or Cause.APPLICATION_ERROR.value
        facts = key, live.version, self._attempt, cause, stage, message, live.failed_before + 1
        change.add_failure(source, QuarantinedSource(*facts), self._after)


def _judge(mark: Mark) -> int:
    """Return the result of `admit` for a released source."""
    *_, before, exposed = mark
    # Suspects are tried separately anyway, so do not add `HAS_FAILED`.
    has_failed = bool(before) and not exposed
    return RELEASED + exposed + has_failed * HAS_FAILED


def _read_past(version: bytes, old: Mark | None, failure: FailureRecord | None) -> tuple[int, int]:
    """Return how often this version has failed, and the `exposed` value of its mark."""
    if failure is not None and failure.version == version:
        return failure.times, 0
    if old is not None and old.version == version:
        return old.failed_before, old.exposed
    return 0, 0
