"""Takes over a pipeline's folder for a new attempt, and hands the folder back.

The order matters. All old writers end before the attempt takes the lease, and temporary files are
removed only under the lease. The module determines how the previous attempt ended before sources of
that attempt are released again. The ledger is always handed back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from strandline.ledger.access.commands import make_claimant, read_ledger_id, written_alone
from strandline.ledger.access.heartbeat import Heartbeat
from strandline.ledger.access.lease import (
    Claim,
    Claimant,
    end_attempt,
    open_attempt,
    refuse_changes,
)
from strandline.ledger.access.output_location import is_own, locate_outputs, make_claim
from strandline.ledger.access.session import LedgerSession
from strandline.ledger.errors import LedgerError
from strandline.ledger.output_root import clean_up, record_location, sweep_shared
from strandline.ledger.quarantine import Crash, accuse
from strandline.ledger.store.fingerprints import read_fingerprint
from strandline.ledger.store.store import Store
from strandline.plan.fingerprint import keep_code
from strandline.run.attempt.config import AttemptConfig
from strandline.run.insight.records import (
    TABLE,
    AttemptRecord,
    Witness,
    find_last,
    find_progress,
    read_record,
)
from strandline.run.insight.samples import read_samples
from strandline.run.release.file_list import make_index
from strandline.run.supervise.record_writing import sweep_records, sweep_tables, write_record
from strandline.storage import faults
from strandline.storage.errors import VolumeError, naming_volume
from strandline.storage.filesystems import explain_unsafe, read_mounts
from strandline.storage.layout import PipelineFolder, make_durable, make_folder
from strandline.storage.outputs.manifest import remove_beside
from strandline.storage.outputs.names import INDEX
from strandline.storage.outputs.ownership import (
    SHORT,
    Owner,
    claim_location,
    read_owner,
    refuse_other,
)
from strandline.storage.outputs.remote import open_outputs
from strandline.storage.volume.inflight import InFlightTable, read_inflight
from strandline.storage.volume.published import list_attempts
from strandline_api.outcome.causes import BLAMELESS, Cause
from strandline_api.outcome.driver_outcome import DriverOutcome, SourceCounts
from strandline_api.outcome.evidence import Evidence


@dataclass(frozen=True, slots=True)
class TakenFolder:
    """A folder that an attempt has taken over, and the location of the outputs.

    Attributes:
        session: the ledger, under the lease of the attempt.
        owner: prefix of the temporary names of all writers, the same in all attempts.
    """

    folder: PipelineFolder
    session: LedgerSession
    location: str
    inflight: InFlightTable
    owner: str

    @property
    def attempt(self) -> int:
        """Return the number of the attempt."""
        return self.session.attempt

    @property
    def writer(self) -> str:
        """Return the prefix of the temporary names of this attempt's writers."""
        return f"{self.owner}-{self.attempt:04d}"

    def end(self, outcome: DriverOutcome, witness: Witness = Witness.DRIVER) -> None:
        """Record how the attempt ended, as seen by the driver or by its supervisor."""
        record = read_record(self.folder, self.attempt)
        assert record is not None  # written at the takeover
        write_record(self.folder, record.end(outcome, time.time(), witness))


@contextmanager
def take_over(config: AttemptConfig, heartbeat: Heartbeat) -> Iterator[TakenFolder]:
    """Open the ledger for a new attempt, and hand it back at the end.

    Args:
        heartbeat: renews the lease during the takeover, and counts the steps as progress.

    Raises:
        VolumeError: if the folder can't be used.
        LedgerError: if the ledger does not match, or its last driver is alive.
    """
    plan, folder = config.plan, config.folder
    unsafe = explain_unsafe(folder.ledger, read_mounts())
    if unsafe:
        raise VolumeError(unsafe)
    make_durable(folder.ledger)
    claimant = make_claimant(config.parent)
    claim = make_claim(plan, folder, config.on_change, config.dead_letters)
    location = locate_outputs(plan, folder)
    with written_alone(folder, claimant) as store:
        claim, owner = _look_at_outputs(store, claim, location)
        lease = store.read_meta("lease")  # the lease of the previous attempt
        attempt = open_attempt(store, claim, claimant, _find_highest(folder))
        session = LedgerSession(folder.ledger, attempt, claimant.uid, heartbeat)
        try:
            with session.using(store):
                # Claim the location after `open_attempt`, which may restart the pipeline. From now
                # on, all finished sources have their outputs at this location.
                _claim_outputs(store, claim, location, owner)
                outputs = open_outputs(location)
                outputs.sweep(owner.ledger[:SHORT])
                clean_up(store, outputs, heartbeat.note_progress)
                sweep_shared(store, outputs, heartbeat.note_progress)
                if make_index(plan.sink, location) is None:
                    remove_beside(location, INDEX)  # index of a previous sink
                sweep_records(folder)
                _look_back(store, config, claimant, lease)
                sweep_tables(folder)
        except BaseException:
            with suppress(LedgerError, VolumeError):  # raise the first error, which explains more
                _hand_back(store, folder, attempt, claimant)
            raise
    try:
        with _begin(config, claimant, attempt, owner.ledger) as table:
            yield TakenFolder(folder, session, location, table, owner.ledger[:SHORT])
    finally:
        with suppress(LedgerError, VolumeError), session.open() as store:
            _hand_back(store, folder, attempt, claimant)


def _look_back(
    store: Store, config: AttemptConfig, claimant: Claimant, lease: dict[str, Any] | None
) -> None:
    """Record a missing end of the last attempt, and accuse sources that may have caused the end."""
    folder = config.folder
    last = find_last(folder)
    if last is None:
        return
    if last.ended is None:
        outcome = _conclude(store, last, config.after, claimant)
        ended = _find_end(folder, last, lease, claimant.time)
        last = last.end(outcome, ended, Witness.SUCCESSOR)
        write_record(folder, last)
    # Prefer the evidence of a supervisor or an operator to the evidence on this machine.
    cause = config.after or last.cause
    # If the driver recorded its own end, no source has killed it. If no source can have caused the
    # end, accuse none.
    if last.witness is Witness.DRIVER or cause is None or cause in BLAMELESS:
        return
    table = read_inflight(folder.attempt(last.number) / TABLE)
    assert last.outcome is not None  # the code above has recorded an end
    message = last.outcome.message
    if cause is not Cause.TIMEOUT:  # the message of a timeout already explains the end
        message = f"a process died while processing only this source: {message}"
    crash = Crash(last.number, table.processing, table.queued, cause.value, message)
    accuse(store, crash, config.quarantine.after)


def _find_end(
    folder: PipelineFolder, last: AttemptRecord, lease: dict[str, Any] | None, now: float
) -> float:
    """Return the last time at which an attempt is known to have run, from its lease and samples.

    Without a lease or samples, return the current time, which may be days too late.
    """
    signs = []
    if lease is not None and not lease["ended"] and lease["attempt"] == last.number:
        signs.append(float(lease["time"]))
    samples = read_samples(folder, last.number)
    if samples is not None and samples.samples:
        signs.append(samples.begun + samples.samples[-1].seconds)
    # Limit the result, because the clock of another host may be fast or slow.
    return max(last.started, min(now, max(signs, default=now)))


def _conclude(
    store: Store, last: AttemptRecord, cause: Cause | None, claimant: Claimant
) -> DriverOutcome:
    """Reconstruct the outcome of an attempt that ended without a record."""
    # If the boot ID is the same, the machine has not restarted, so the driver's process was killed.
    if cause is None:
        cause = Cause.KILLED if last.boot == claimant.boot else Cause.NODE_LOST
    message = f"attempt {last.number} ended without a report before the next one began"
    progress = find_progress(store, last.number)
    return DriverOutcome(
        exit_code=137,  # 128 + SIGKILL
        message=message,
        attempt=last.number,
        sources=SourceCounts(finished=progress.finished),
        remaining=progress.remaining,
        evidence=(Evidence(cause, message, "successor"),),
    )


def _find_highest(folder: PipelineFolder) -> int:
    """Return the highest attempt number for which a folder exists.

    A new ledger may be in an old folder, so the ledger's own numbers are not enough.
    """
    with naming_volume(folder.attempts):
        return max((int(location.name) for location in list_attempts(folder)), default=0)


@contextmanager
def _begin(
    config: AttemptConfig, claimant: Claimant, attempt: int, ledger: str
) -> Iterator[InFlightTable]:
    folder = config.folder
    last = find_last(folder)
    record = AttemptRecord(
        number=attempt,
        run=config.plan.run_id,
        trigger=config.trigger,
        previous=last.number if last else None,
        ledger=ledger,
        boot=claimant.boot,
        pid=claimant.process.pid,
        process_started=claimant.process.started,
        started=claimant.time,
    )
    # Write the record last, because a record without an end means that the attempt was interrupted.
    make_folder(folder.attempt(attempt))
    with closing(InFlightTable(folder.attempt(attempt) / TABLE)) as table:
        write_record(folder, record)
        try:
            yield table
        finally:
            # Clear the table first: after a normal end, no source may be accused, even if the disk
            # has no space for the record of that end.
            table.clear()


def _hand_back(store: Store, folder: PipelineFolder, attempt: int, claimant: Claimant) -> None:
    end_attempt(store, attempt, claimant)
    with naming_volume(folder.ledger):
        faults.reach("lease.ended")


def _look_at_outputs(store: Store, claim: Claim, location: str) -> tuple[Claim, Owner]:
    """Return the claim with the state of the outputs, and the owner to record at their location.

    If the ledger has no ID yet, the function creates one. It changes nothing else.

    Raises:
        LedgerError: if the ledger does not match, or its outputs have moved.
        PlaceTakenError: if another ledger owns the location.
        VolumeError: if the location can't be read.
    """
    assert claim.location is not None  # the claim of a run always has a location
    found = read_owner(location)
    recorded = claim.location._replace(is_marked=found is not None)
    known = read_fingerprint(store)
    code = keep_code({} if known is None else known.parts, claim.fingerprint)
    claim = replace(claim, location=recorded, fingerprint=code)
    refuse_changes(store, claim)
    owner = Owner(read_ledger_id(store), claim.pipeline)
    refuse_other(location, found, owner, inherits=is_own(recorded))
    return claim, owner


def _claim_outputs(store: Store, claim: Claim, location: str, owner: Owner) -> None:
    """Claim the outputs' location for the ledger, and record the location in the ledger."""
    assert claim.location is not None  # checked in `_look_at_outputs`
    claim_location(location, owner, inherits=is_own(claim.location))
    record_location(store, claim.fingerprint, claim.location)
