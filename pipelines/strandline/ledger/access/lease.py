"""The right to write a ledger: whether its last driver lives, whether it fits, and handing it back.

Facts about processes and clocks come in as arguments. What the pipeline is stays unknown here: a
name, a fingerprint and its parts are all that is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from strandline.ledger.errors import LedgerError, LedgerInUseError
from strandline.ledger.output_root import OutputRoot, find_move, find_other_changes, knows_location
from strandline.ledger.records.entries import (
    LAPSE_SECONDS,
    LISTING,
    SETTLED,
    Change,
    FailureRecord,
    Mark,
    Quarantined,
)
from strandline.ledger.store.fingerprints import read_fingerprint, render_fingerprint
from strandline.ledger.store.recipes import (
    RECIPES,
    Changes,
    Recipe,
    drop_unused,
    join_recipe,
    mix_recipes,
    read_recipes,
)
from strandline.ledger.store.store import Store
from strandline.plan.errors import Advice
from strandline.plan.fingerprint import Fingerprint, adopt_code, describe_difference
from strandline.storage.volume.locks import Process

MOST_RECIPES = 8  # before recipes that made nothing of what is kept are dropped
ORPHAN_SECONDS = 30.0
_KEPT = ("onChange", "Continue")


class OnChange(StrEnum):
    """Choose what is done where the pipeline is not the one that wrote the ledger.

    Attributes:
        FAIL: refuse to run where something is finished, and tell what has changed.
        RESTART: forget what is finished, and run everything again.
        CONTINUE: keep what is finished; the new pipeline takes the rest.
        REDO: work again on what is finished, from the first stage that has changed where what the
            stages above handed on is kept; until then it stays as it is.
    """

    FAIL = "Fail"
    RESTART = "Restart"
    CONTINUE = "Continue"
    REDO = "Redo"


class Claimant(NamedTuple):
    """The process that wants the ledger.

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


@dataclass(frozen=True, slots=True)
class Claim:
    """What the ledger must fit: the pipeline, its run, its fingerprint, and where outputs live.

    Attributes:
        dropping: see `Recipe`.
        rejoins: stage with dead letters that the attempt tries again, and lists no source; None: an
            attempt at sources.
    """

    pipeline: str
    run: str
    fingerprint: Fingerprint
    on_change: OnChange = OnChange.FAIL
    location: OutputRoot | None = None
    dropping: tuple[str, ...] = ()
    rejoins: str | None = None

    def strip(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Return parts of a fingerprint without where outputs live."""
        at = None if self.location is None else self.location.part
        return {path: part for path, part in parts.items() if path != at}


def refuse_live_driver(
    store: Store,
    claimant: Claimant,
    find_process: Callable[[int], Process | None],
    sleep: Callable[[float], None],
    known_dead: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Refuse where the last driver still runs.

    A driver that lost its parent ends by itself and is waited for. Of one on another host only its
    heartbeat can be seen, so that is watched for as long as it may pause.

    Args:
        store, claimant, find_process, sleep: the ledger, the process that wants it, and how drivers
            are looked up and waited for.
        known_dead: what an earlier call returned; if it still stands, nothing is asked again.

    Returns:
        The lease of a driver that is gone; None: there never was one.

    Raises:
        LedgerInUseError: it runs; the message names it.
    """
    lease: dict[str, Any] | None = store.read_meta("lease")
    if lease is None or lease["ended"] or lease == known_dead:
        return lease
    # The id of a process means nothing on another host, nor after a restart of this one.
    if lease["boot"] != claimant.boot:
        return _watch_heartbeat(store, lease, claimant, sleep)
    driver = Process(lease["pid"], lease["started"])
    # The claimant is no other driver.
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


def open_attempt(store: Store, claim: Claim, claimant: Claimant, known: int = 0) -> int:
    """Check that the ledger fits, take its lease, and return the number of the new attempt.

    Args:
        store, claim, claimant: what is taken, what it must fit, and the process that takes it.
        known: the highest number that the folder has seen, by a ledger that is gone perhaps.

    Raises:
        LedgerError: the ledger is another pipeline's, or the fingerprint changed, `on_change` is
            Fail and something is finished; nothing was written.
    """
    changed = refuse_changes(store, claim)
    lease = store.read_meta("lease") or {"attempt": 0}
    # A new ledger in an old folder must not give a number a second time.
    attempt = max(int(lease["attempt"]), known) + 1
    store.take_lease(_render(attempt, claimant))
    # Fail comes here only where nothing is finished, so nothing but blame is forgotten.
    # Outputs that are left behind elsewhere are made again here, whatever made them.
    is_over = claim.on_change is not OnChange.REDO or _is_moved(store, claim)
    if changed and claim.on_change is not OnChange.CONTINUE and is_over:
        restart(store)
    former, recipes = _read_former(store, claim), list_recipes(store, claim, attempt)
    # A try to replace a source may have failed by a recipe that is no more. Under Continue, sources
    # of an older recipe stay as they are, so a failed try to replace them means nothing.
    is_forgiving = recipes[-1].since == attempt or claim.on_change is OnChange.CONTINUE
    forgiven = _list_refused(store) if is_forgiving else []
    meta = _identity(claim) | {RECIPES: [each.pack() for each in recipes]}
    if claim.rejoins is None:
        # Until its listing has come to its end, what this attempt has to do is not known.
        meta[LISTING] = attempt
    if len(recipes) > 1:
        meta[SETTLED] = _find_settled(store, claim, recipes)
    released = [] if claim.rejoins else _list_helped(store, [*former, recipes[-1]])
    store.write(Change(forgiven=forgiven, mark=released, meta=meta))
    return attempt


def _find_settled(store: Store, claim: Claim, recipes: Sequence[Recipe]) -> int | None:
    """Return what `SETTLED` is as an attempt begins."""
    if claim.on_change is OnChange.CONTINUE:
        return recipes[-1].since
    if claim.on_change is OnChange.REDO and claim.rejoins is None:
        return 0  # until all that are due were worked on
    settled: int | None = store.read_meta(SETTLED)
    return settled


def list_recipes(store: Store, claim: Claim, attempt: int) -> list[Recipe]:
    """Return the recipes by which sources are finished, and last that of an attempt by a claim."""
    recipes = _read_former(store, claim) if store.count()["finished"] else []
    if claim.rejoins is not None and claim.on_change is OnChange.CONTINUE:
        recipes = mix_recipes(recipes, claim.rejoins)
    parts, growing = claim.strip(claim.fingerprint.parts), sorted(claim.fingerprint.growing)
    joined = join_recipe(recipes, Recipe(attempt, parts, growing, claim.dropping))
    # All sources are looked through, so not at each change.
    is_due = len(joined) > max(MOST_RECIPES, len(recipes))
    return drop_unused(joined, store.list_attempts()) if is_due else joined


def _read_former(store: Store, claim: Claim) -> list[Recipe]:
    """Return the recipes of before; what an older release did not keep of them is as it is now."""
    parts = claim.strip(claim.fingerprint.parts)
    # An older release kept where outputs live among the parts, and no code.
    return [
        each._replace(parts=adopt_code(claim.strip(each.parts), parts))
        for each in read_recipes(store)
    ]


def _list_helped(store: Store, recipes: Sequence[Recipe]) -> list[tuple[bytes, Mark]]:
    """Return fresh marks of unfinished sources that failed where a later recipe may help.

    Args:
        recipes: by which they may have failed, and last that of now.
    """
    changes = Changes(recipes)
    failed: dict[bytes, FailureRecord | Quarantined] = dict(store.list_failures())
    failed.update(store.list_quarantined())
    finished = store.find_finished(list(failed))
    return [
        (source, _mark_fresh(failure.key, failure.version))
        for source, failure in failed.items()
        if source not in finished and changes.may_help(failure.attempt, failure.stage)
    ]


def _list_refused(store: Store) -> list[bytes]:
    """Return the finished sources that could not be replaced."""
    failed = [source for source, _ in (*store.list_failures(), *store.list_quarantined())]
    return list(store.find_finished(failed))


def refuse_changes(store: Store, claim: Claim) -> bool:
    """Check that the ledger fits; True where the pipeline has changed and may.

    Raises:
        LedgerError: see `open_attempt`.
    """
    owner = store.read_meta("pipeline")
    if owner is not None and owner != claim.pipeline:
        msg = f"the ledger belongs to {owner}, not to {claim.pipeline}; use another volume"
        raise LedgerError(msg)
    changed = find_changes(store, claim)
    if changed and claim.rejoins is not None and claim.on_change is not OnChange.CONTINUE:
        raise _refuse_retrial(changed)
    # A pipeline that has finished nothing has nothing that new outputs could be mixed with.
    if changed and claim.on_change is OnChange.FAIL and store.count()["finished"]:
        raise _refuse_change(changed, is_moved=_is_moved(store, claim))
    return bool(changed)


def _is_moved(store: Store, claim: Claim) -> bool:
    return claim.location is not None and find_move(store, claim.location) is not None


def end_attempt(store: Store, attempt: int, claimant: Claimant) -> None:
    """Hand the lease back, so that the next attempt need not ask for the process."""
    store.write(Change(meta={"lease": _render(attempt, claimant) | {"ended": True}}))


@contextmanager
def holding(store: Store, claimant: Claimant) -> Iterator[int]:
    """Write for the last attempt, and yield its number; no other may write meanwhile.

    There must have been one. A process that still writes under its uid is refused from now on.
    """
    attempt = int(store.read_meta("lease")["attempt"])
    store.take_lease(_render(attempt, claimant))
    try:
        yield attempt
    finally:
        end_attempt(store, attempt, claimant)


def find_changes(store: Store, claim: Claim) -> list[str]:
    """Return what differs from the pipeline that wrote the ledger, a line each."""
    location = claim.location
    if location is not None and knows_location(store):
        changed = find_other_changes(store, claim.fingerprint, location)
        return changed + [line for line in (find_move(store, location),) if line]
    known = read_fingerprint(store)
    if known is None or known.digest == claim.fingerprint.digest:
        return []
    return describe_difference(known.parts, claim.fingerprint.parts, claim.fingerprint.growing)


def restart(store: Store) -> None:
    """Make every source unfinished, and forget what it or its last attempt was blamed for.

    What lies in its folder goes when it finishes anew.
    """
    while group := list(islice(_list_begun(store), 10_000)):
        store.write(Change(mark=group))


def _list_begun(store: Store) -> Iterator[tuple[bytes, Mark]]:
    """Yield every source of which more is kept than that it is to be done, as if that were all."""
    for source, entry, record in store.list_records():
        yield source, _mark_fresh(record.key, entry.version)
    for source, failure in store.list_failures():
        yield source, _mark_fresh(failure.key, failure.version)
    for source, quarantined in store.list_quarantined():
        yield source, _mark_fresh(quarantined.key, quarantined.version)
    for source, mark in store.list_marks():
        if mark != (fresh := _mark_fresh(mark.key, mark.version)):
            yield source, fresh


def _mark_fresh(key: str, version: bytes) -> Mark:
    # The mark is of no attempt, so that the crash of the one before is not held against the source
    # either.
    return Mark(key, version, attempt=0, ordinal=0, is_stale=True)


def _refuse_change(changed: list[str], *, is_moved: bool) -> LedgerError:
    lines = "\n".join(f"  {line}" for line in changed)
    moved = "\nif you have moved the outputs there, run `strandline ledger move-outputs`"
    refused = LedgerError(
        f"the pipeline is not the one that wrote this ledger:\n{lines}\n"
        "set onChange to Redo to replace what is finished, to Restart to forget it and begin "
        f"again, or to Continue to keep it{moved if is_moved else ''}"
    )
    refused.advice = Advice("run", (_KEPT,))
    return refused


def _refuse_retrial(changed: list[str]) -> LedgerError:
    lines = "\n".join(f"  {line}" for line in changed)
    refused = LedgerError(
        f"the pipeline has changed since its dead letters were written:\n{lines}\n"
        "set onChange to Redo and run it, which works on their sources again; or to Continue and "
        "try the dead letters, which keeps what is finished beside rows of the new recipe"
    )
    refused.advice = Advice("retry", (_KEPT,), ("--dead-letters",))
    return refused


def _identity(claim: Claim) -> dict[str, Any]:
    written = render_fingerprint(claim.fingerprint)
    return {"pipeline": claim.pipeline, "run": claim.run, **written}


def _render(attempt: int, claimant: Claimant) -> dict[str, Any]:
    return {
        "attempt": attempt,
        "uid": claimant.uid,
        "boot": claimant.boot,
        "pid": claimant.process.pid,
        "started": claimant.process.started,
        "parent": claimant.parent,
        "time": claimant.time,
        "ended": False,
    }


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
