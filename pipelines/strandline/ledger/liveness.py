"""Whether the driver that holds a ledger's lease is alive, as far as that can be told from here.

Facts about processes and clocks come in as arguments. It looks and waits; it takes nothing over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from strandline.ledger.entries import LAPSE_SECONDS
from strandline.ledger.errors import LedgerInUseError
from strandline.ledger.store.store import Store
from strandline.storage.volume.locks import Process

ORPHAN_SECONDS = 30.0


class Claimant(NamedTuple):
    """Who wants the ledger.

    Attributes:
        uid: unique for this attempt.
        boot: id of the host's boot.
        process: the driver.
        time: wall clock, seconds since the epoch.
        parent: the process that supervises the driver, if one does.
    """

    uid: str
    boot: str
    process: Process
    time: float
    parent: Process | None = None


def refuse_live_driver(
    store: Store,
    claimant: Claimant,
    find_process: Callable[[int], Process | None],
    sleep: Callable[[float], None],
    known_dead: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Refuse where the last driver still runs.

    A driver whose parent was killed ends by itself and is waited for. Of one on another host only
    its heartbeat can be seen, so that is watched for as long as it may pause.

    Args:
        store, claimant, find_process, sleep: whom to ask, for whom, and how.
        known_dead: what an earlier call returned; if it still stands, nothing is asked again.

    Returns:
        The lease, whose driver is gone; None: nobody ever had it.

    Raises:
        LedgerInUseError: it runs; the message names it.
    """
    lease: dict[str, Any] | None = store.read_meta("lease")
    if lease is None or lease["ended"] or lease == known_dead:
        return lease
    if lease["boot"] != claimant.boot:
        return _watch_heartbeat(store, lease, claimant, sleep)
    driver = Process(lease["pid"], lease["started"])
    if driver == claimant.process:
        return lease
    orphan = is_orphan(lease, find_process)
    for _ in range(round(ORPHAN_SECONDS) if orphan else 1):
        if find_process(driver.pid) != driver:
            return lease
        if orphan:
            sleep(1.0)
    msg = f"attempt {lease['attempt']} is still running as process {driver.pid}; stop it first"
    raise LedgerInUseError(msg)


def is_orphan(lease: dict[str, Any], find_process: Callable[[int], Process | None]) -> bool:
    """Return whether a lease's driver had a parent that is gone, so that it will end by itself."""
    parent = lease.get("parent")
    return parent is not None and find_process(parent[0]) != Process(*parent)


def is_long_silent(lease: dict[str, Any], time: float) -> bool:
    """Return whether a lease's driver can't be alive even if its clock is another one."""
    return bool(time - lease["time"] > 10 * LAPSE_SECONDS)


def _watch_heartbeat(
    store: Store, lease: dict[str, Any], claimant: Claimant, sleep: Callable[[float], None]
) -> dict[str, Any]:
    # The clocks of two hosts may differ, but hardly by so much.
    if is_long_silent(lease, claimant.time):
        return lease
    for _ in range(round(LAPSE_SECONDS)):
        sleep(1.0)
        now: dict[str, Any] = store.read_meta("lease")
        if now["ended"]:
            return now
        if now != lease:
            msg = f"attempt {now['attempt']} is still running on another host; stop it first"
            raise LedgerInUseError(msg)
    return lease
