"""Stores the chain of attempts: each folder has a record with the attempt's start and end.

The first process that observes the end writes it: the driver if the attempt ends normally, the
supervisor if the driver is killed, and otherwise the next attempt. So no record stays open forever.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from strandline.ledger.access.session import opened_to_read
from strandline.ledger.errors import LedgerError
from strandline.ledger.store.store import Store
from strandline.storage.errors import VolumeError, naming_volume
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import Process
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.outcome.evidence import name_cause
from strandline_api.status.enums import Trigger


class AttemptProgress(NamedTuple):
    """Progress of an attempt.

    Attributes:
        finished: number of sources that the attempt finished.
        remaining: number of sources unfinished at the attempt's start, or None if unknown.
    """

    finished: int
    remaining: int | None


def read_progress(folder: PipelineFolder, attempt: int) -> AttemptProgress:
    """Return the progress of an attempt, or zeros if it is not the ledger's last attempt."""
    try:
        with opened_to_read(folder.ledger) as store:
            return find_progress(store, attempt)
    except (LedgerError, VolumeError):
        return AttemptProgress(0, None)


def find_progress(store: Store, attempt: int) -> AttemptProgress:
    """Return the progress of an attempt from an open ledger."""
    kept = store.read_meta("progress") or {}
    if kept.get("attempt") != attempt:
        return AttemptProgress(0, None)
    return AttemptProgress(kept["finished"], kept["remaining"])


RECORD = "attempt.json"
TABLE = "inflight"  # table of the work in flight; see `storage.volume.inflight`


class Witness(StrEnum):
    """The process that recorded the end of an attempt.

    The supervisor is the parent process, or the watchdog of a driver in which a call hangs.
    """

    DRIVER = "driver"
    SUPERVISOR = "supervisor"
    SUCCESSOR = "successor"


class AttemptRecord(BaseModel):
    """The record of one attempt.

    Attributes:
        number: number of the attempt, which grows as long as the folder exists.
        run: the pipeline's `runId`.
        previous: number of the previous attempt, or None for the first.
        ledger: ID of the ledger, which also determines the jitter of retries.
        boot, pid, process_started: identity of the driver; see `storage.volume.locks`.
        started, ended: seconds since the epoch; `ended` is None while the attempt is running.
        outcome: the outcome, or None while the attempt is running.
        cause: why the attempt ended badly, or None if it completed or is running.
        witness: the writer of the end, or None while the attempt is running.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")  # newer releases may add fields

    number: int
    run: str
    trigger: Trigger
    previous: int | None
    ledger: str
    boot: str
    pid: int
    process_started: int
    started: float
    ended: float | None = None
    outcome: DriverOutcome | None = None
    cause: Cause | None = None
    witness: Witness | None = None

    @property
    def process(self) -> Process:
        """The driver's process. Valid only if `boot` is the ID of the current boot."""
        return Process(self.pid, self.process_started)

    def end(self, outcome: DriverOutcome, time: float, witness: Witness) -> AttemptRecord:
        """Return the record completed with the end of the attempt."""
        cause = name_cause(outcome.evidence).cause if outcome.exit_code else None
        return self.model_copy(
            update={"ended": time, "outcome": outcome, "cause": cause, "witness": witness}
        )


def read_record(folder: PipelineFolder, number: int) -> AttemptRecord | None:
    """Return the record of an attempt, or None if it is missing or unreadable."""
    return _read(folder.attempt(number) / RECORD)


def read_chain(folder: PipelineFolder) -> list[AttemptRecord]:
    """Return all records, oldest first."""
    return sorted(_read_all(folder), key=lambda record: record.number)


def find_last(folder: PipelineFolder) -> AttemptRecord | None:
    """Return the newest record, or None if there is no record."""
    return max(_read_all(folder), key=lambda record: record.number, default=None)


def find_of_process(folder: PipelineFolder, boot: str, process: Process) -> AttemptRecord | None:
    """Return the newest record of a driver's process, even if the attempt has ended."""
    own = (found for found in _read_all(folder) if found.boot == boot and found.process == process)
    return max(own, key=lambda record: record.number, default=None)


def _read_all(folder: PipelineFolder) -> Iterator[AttemptRecord]:
    for location in list_attempt_folders(folder):
        if record := _read(location / RECORD):
            yield record


def list_attempt_folders(folder: PipelineFolder) -> list[Path]:
    """Return the folders of all attempts."""
    if not folder.attempts.is_dir():
        return []
    with naming_volume(folder.attempts):
        return [location for location in folder.attempts.iterdir() if location.name.isdigit()]


def _read(path: Path) -> AttemptRecord | None:
    try:
        return AttemptRecord.model_validate_json(path.read_bytes(), by_alias=True, by_name=True)
    except (OSError, ValidationError):
        return None
