"""Taking a ledger over for a new attempt: whose it is, whether it fits, who else may be writing.

Facts about processes and clocks come in as arguments. What the pipeline is stays unknown here: a
name, a fingerprint and its parts are all that is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from strandline.ledger.entries import Change, Mark
from strandline.ledger.errors import LedgerError
from strandline.ledger.store import Store
from strandline.plan.fingerprint import Fingerprint, describe_difference
from strandline.storage.locks import Process

HEARTBEAT_SECONDS = 60.0


class OnChange(StrEnum):
    """What to do when the pipeline no longer is what the ledger was written by."""

    FAIL = "Fail"
    RESTART = "Restart"
    CONTINUE = "Continue"


class Claimant(NamedTuple):
    """Who wants the ledger.

    Attributes:
        uid: unique for this attempt.
        boot: id of the host's boot.
        process: the driver.
        time: wall clock, seconds since the epoch.
    """

    uid: str
    boot: str
    process: Process
    time: float


@dataclass(frozen=True, slots=True)
class Claim:
    """What the ledger must fit: the pipeline, its run and its fingerprint."""

    pipeline: str
    run: str
    fingerprint: Fingerprint
    on_change: OnChange = OnChange.FAIL


def refuse_live_driver(
    store: Store, claimant: Claimant, find_process: Callable[[int], Process | None]
) -> None:
    """Refuse where the last driver still runs.

    Raises:
        LedgerError: it does; the message names it.
    """
    lease = store.read_meta("lease")
    if lease is None or lease["ended"]:
        return
    held = Process(lease["pid"], lease["started"])
    if lease["boot"] == claimant.boot:
        if held != claimant.process and find_process(held.pid) == held:
            attempt = lease["attempt"]
            msg = f"attempt {attempt} is still running as process {held.pid}; stop it first"
            raise LedgerError(msg)
    elif claimant.time - lease["time"] < HEARTBEAT_SECONDS:
        msg = f"attempt {lease['attempt']} is still running on another host; stop it first"
        raise LedgerError(msg)


def open_attempt(store: Store, claim: Claim, claimant: Claimant) -> int:
    """Check that the ledger fits, take its lease, and return the number of the new attempt.

    Raises:
        LedgerError: the ledger is another pipeline's, or the fingerprint changed and `on_change`
            is Fail; nothing was written.
    """
    owner = store.read_meta("pipeline")
    if owner is not None and owner != claim.pipeline:
        msg = f"the ledger belongs to {owner}, not to {claim.pipeline}; use another volume"
        raise LedgerError(msg)
    changed = find_changes(store, claim)
    if changed and claim.on_change is OnChange.FAIL:
        raise LedgerError(_explain(changed))
    lease = store.read_meta("lease") or {"attempt": 0}
    attempt = int(lease["attempt"]) + 1
    store.take_lease(_spell(attempt, claimant))
    if changed and claim.on_change is OnChange.RESTART:
        restart(store)
    store.write(Change(meta=_identity(claim)))
    return attempt


def end_attempt(store: Store, attempt: int, claimant: Claimant) -> None:
    """Hand the lease back, so that the next attempt need not ask for the process."""
    store.write(Change(meta={"lease": _spell(attempt, claimant) | {"ended": True}}))


def find_changes(store: Store, claim: Claim) -> list[str]:
    """What differs from the pipeline that wrote the ledger, a line each."""
    known = store.read_meta("fingerprint")
    if known is None or known["digest"] == claim.fingerprint.digest:
        return []
    return describe_difference(known["parts"], claim.fingerprint.parts)


def restart(store: Store) -> None:
    """Make every finished source unfinished; what lies in its folder goes when it finishes anew."""
    while True:
        group = list(islice(store.list_records(), 10_000))
        if not group:
            return
        marks = [
            (source, Mark(record.key, entry.version, 0, 0, is_stale=True))
            for source, entry, record in group
        ]
        store.write(Change(mark=marks))


def _explain(changed: list[str]) -> str:
    lines = "\n".join(f"  {line}" for line in changed)
    return (
        f"the pipeline is not the one that wrote this ledger:\n{lines}\n"
        "set onChange to Restart to redo everything, or to Continue to keep what is finished"
    )


def _identity(claim: Claim) -> dict[str, Any]:
    return {
        "pipeline": claim.pipeline,
        "run": claim.run,
        "fingerprint": {"digest": claim.fingerprint.digest, "parts": claim.fingerprint.parts},
    }


def _spell(attempt: int, claimant: Claimant) -> dict[str, Any]:
    return {
        "attempt": attempt,
        "uid": claimant.uid,
        "boot": claimant.boot,
        "pid": claimant.process.pid,
        "started": claimant.process.started,
        "time": claimant.time,
        "ended": False,
    }
