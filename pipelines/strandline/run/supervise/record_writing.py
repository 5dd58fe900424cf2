"""Writes records of attempts, and removes leftovers of killed writers."""

from __future__ import annotations

from strandline.run.insight.records import (
    RECORD,
    TABLE,
    AttemptRecord,
    Witness,
    find_of_process,
    list_attempt_folders,
)
from strandline.storage.errors import naming_volume
from strandline.storage.layout import PipelineFolder, make_folder
from strandline.storage.outputs.disk.whole_files import reserve_whole, sweep_whole, write_whole
from strandline.storage.volume.locks import Process
from strandline_api.outcome.driver_outcome import DriverOutcome

_END_BYTES = 16_384  # reserved in advance, so that the end can be written to a full disk


def write_record(folder: PipelineFolder, record: AttemptRecord) -> None:
    """Write a record durably into its attempt's folder.

    Raises:
        VolumeError: if the record can't be written. The previous record stays.
    """
    location = folder.attempt(record.number)
    make_folder(location)
    text = record.model_dump_json(indent=1, by_alias=True)
    write_whole(location / RECORD, text.encode(), steps="attempt")
    if record.ended is None:
        reserve_whole(location / RECORD, _END_BYTES)


def sweep_records(folder: PipelineFolder) -> None:
    """Remove leftovers of killed writers beside records.

    Raises:
        VolumeError: if a leftover can't be removed.
    """
    for location in list_attempt_folders(folder):
        sweep_whole(location / RECORD)


def sweep_tables(folder: PipelineFolder) -> None:
    """Remove the tables of work in flight, which are no longer needed.

    Raises:
        VolumeError: if a table can't be removed.
    """
    for location in list_attempt_folders(folder):
        with naming_volume(location):
            (location / TABLE).unlink(missing_ok=True)


def end_unfinished(
    folder: PipelineFolder, boot: str, process: Process, outcome: DriverOutcome, time: float
) -> None:
    """Record the end of a driver's attempt on behalf of the driver, if no end is recorded."""
    record = find_of_process(folder, boot, process)
    if record is not None and record.ended is None:
        own = outcome.model_copy(update={"attempt": record.number})
        write_record(folder, record.end(own, time, Witness.DRIVER))
