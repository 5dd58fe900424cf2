"""Decides which process to stop when a run is stopped from outside.

The decisions are pure: the caller passes observations. The command itself sends the signal and
informs the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from strandline.ledger.access.lease import is_long_silent, is_orphan
from strandline.ledger.access.session import opened_to_read
from strandline.ledger.errors import LedgerError
from strandline.plan.errors import StrandlineError
from strandline.run.insight.records import AttemptRecord, find_last
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import Holder, Process, find_holder

PAUSE_SECONDS = 0.1
Find = Callable[[int], Process | None]


class DrainError(StrandlineError):
    """Raised if the running process can't be stopped from here, or did not stop in time."""


@dataclass(frozen=True, slots=True)
class FolderView:
    """Facts in a pipeline's folder about the processes that run the pipeline.

    Attributes:
        holder: the process that makes attempts, or None.
        lease: lease of the ledger, or None if there is no lease.
        record: record of the newest attempt, or None.
    """

    holder: Holder | None
    lease: dict[str, Any] | None
    record: AttemptRecord | None


class Drain(NamedTuple):
    """The process to stop, and the processes to wait for.

    Attributes:
        ask: the process to signal, or None if the run is already ending by itself.
        awaited: the processes to wait for.
    """

    ask: Process | None
    awaited: tuple[Process, ...]


def look(folder: PipelineFolder) -> FolderView:
    """Read the facts about running processes from a pipeline's folder."""
    return FolderView(find_holder(folder.run_lock), _read_lease(folder), find_last(folder))


def choose(view: FolderView, boot: str, time: float, find_process: Find) -> Drain | None:
    """Return the process to signal and the processes to wait for, or None if nothing is running.

    Args:
        view: facts from the pipeline's folder.
        boot: id of this host's current boot; see `read_boot_id`.
        time: seconds since the epoch.
        find_process: returns the live process with a pid, or None.

    Raises:
        DrainError: if the run is on another host or in another container.
    """
    drivers = tuple(_find_drivers(view, boot, find_process))
    # Signal the supervisor, because it would start another attempt if only the driver stopped.
    if view.holder is not None:
        supervisor = view.holder.process
        if supervisor is None:
            msg = (
                "a process on another host or in another container runs this pipeline; drain it "
                "there"
            )
            raise DrainError(msg)
        return Drain(supervisor, (supervisor, *drivers))
    if drivers:
        return Drain(None if _is_ending(drivers[0], view, find_process) else drivers[0], drivers)
    lease = view.lease
    if lease and not lease["ended"] and lease["boot"] != boot and not is_long_silent(lease, time):
        ago = max(0.0, time - lease["time"])
        msg = (
            f"attempt {lease['attempt']} was running {ago:.0f} s ago on another host or in another "
            "container; drain it there"
        )
        raise DrainError(msg)
    return None


def wait_for(
    processes: Sequence[Process],
    seconds: float,
    find_process: Find,
    sleep: Callable[[float], None],
) -> Process | None:
    """Wait until processes have ended. Return a process that outlives the time limit, if any."""
    for left in range(round(seconds / PAUSE_SECONDS), -1, -1):
        # Compare the start time too, because the kernel reuses pids.
        alive = [each for each in processes if find_process(each.pid) == each]
        if not alive:
            return None
        if left:
            sleep(PAUSE_SECONDS)
    return alive[0]


def _find_drivers(view: FolderView, boot: str, find_process: Find) -> Iterator[Process]:
    """Yield the live drivers on this host, without duplicates."""
    lease, record = view.lease, view.record
    named = []
    if lease and not lease["ended"] and lease["boot"] == boot:
        named.append(Process(lease["pid"], lease["started"]))
    if record and record.ended is None and record.boot == boot:
        named.append(record.process)
    for process in dict.fromkeys(named):
        if find_process(process.pid) == process:
            yield process


def _is_ending(driver: Process, view: FolderView, find_process: Find) -> bool:
    """Return True if the driver has recorded its end, or is ending because its parent died."""
    record, lease = view.record, view.lease
    has_ended = record is not None and record.process == driver and record.ended is not None
    return has_ended or (lease is not None and is_orphan(lease, find_process))


def _read_lease(folder: PipelineFolder) -> dict[str, Any] | None:
    try:
        with opened_to_read(folder.ledger) as store:
            lease: dict[str, Any] | None = store.read_meta("lease")
    except (LedgerError, VolumeError):
        return None
    return lease
