"""Lease of a ledger: checks that its last driver is dead and that the pipeline matches.

Facts about processes and clocks are arguments. The module compares names, fingerprints, and the
parts of fingerprints; it must not depend on anything else of a pipeline.
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
    QuarantinedSource,
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

MOST_RECIPES = 8  # above this number, drop recipes that no source uses
ORPHAN_SECONDS = 30.0
_KEPT = ("onChange", "Continue")


class OnChange(StrEnum):
    """Behavior if the pipeline differs from the pipeline that wrote the ledger.

    Attributes:
        FAIL: refuse to run if sources are finished, and report the changes.
        RESTART: forget finished sources, and run everything again.
        CONTINUE: keep finished sources; the new pipeline processes the rest.
        REDO: process finished sources again, from the first changed stage if its input is kept.
            The old outputs stay until the new outputs are complete.
    """

    FAIL = "Fail"
    RESTART = "Restart"
    CONTINUE = "Continue"
    REDO = "Redo"


class Claimant(NamedTuple):
    """A process that requests the ledger.

    Attributes:
        uid: unique id of this attempt.
        boot: id of the host's boot.
        process: the driver.
        time: wall clock, in seconds since the epoch.
        parent: the process that supervises the driver, or None.
    """

    uid: str
    boot: str
    process: Process
    time: float
    parent: Process | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Properties that the ledger must match: pipeline, run, fingerprint, and output location.

    Attributes:
        dropping: see `Recipe`.
        rejoins: the stage whose dead letters this attempt retries, or None if the attempt lists and
            processes sources as usual.
    """

    pipeline: str
    run: str
    fingerprint: Fingerprint
    on_change: OnChange = OnChange.FAIL
    location: OutputRoot | None = None
    dropping: tuple[str, ...] = ()
    rejoins: str | None = None

    def strip(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts of a fingerprint except the location of the outputs."""
        at = None if self.location is None else self.location.part
        return {path: part for path, part in parts.items() if path != at}


def refuse_live_driver(
    store: Store,
    claimant: Claimant,
    find_process: Callable[[int], Process | None],
    sleep: Callable[[float], None],
    known_dead: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Raise an error if the last driver is still running.

    A driver whose parent has died exits by itself, so the function waits for that exit. A process
    on another host is invisible except for its heartbeat, so the function watches the heartbeat for
    `LAPSE_SECONDS`.

    Args:
        store: the ledger.
        claimant: the process that requests the ledger.
        find_process: returns the process with an id, or None.
        sleep: waits for a number of seconds.
        known_dead: lease returned by an earlier call. If the lease has not changed since, its
            driver is not checked again.

    Returns:
        The lease of the dead driver, or None if the ledger never had a driver.

    Raises:
        LedgerInUseError: if the driver is running; the message names it.
    """
    lease: dict[str, Any] | None = store.read_meta("lease")
    if lease is None or lease["ended"] or lease == known_dead:
        return lease
    # Process ids are meaningless on another host, and after a reboot of this host.
    if lease["boot"] != claimant.boot:
        return _watch_heartbeat(store, lease, claimant, sleep)
    driver = Process(lease["pid"], lease["started"])
    # The claimant itself holds the lease.
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
    """Return True if the parent of a lease's driver has died, so the driver will exit by itself."""
    parent = lease.get("parent")
    return parent is not None and find_process(parent[0]) != Process(*parent)


def is_long_silent(lease: dict[str, Any], time: float) -> bool:
    """Return True if a lease is so old that its driver is dead, even if the clocks differ."""
    return bool(time - lease["time"] > 10 * LAPSE_SECONDS)


def open_attempt(store: Store, claim: Claim, claimant: Claimant, known: int = 0) -> int:
    """Check that the ledger matches, take its lease, and return the number of the new attempt.

    Args:
        store: the ledger.
        claim: the properties that the ledger must match.
        claimant: the process that takes the lease.
        known: highest attempt number found in the folder. The number may come from a lost ledger.

    Raises:
        LedgerError: if the ledger belongs to another pipeline, or if the fingerprint changed,
            sources are finished, and `on_change` is Fail. In these cases, nothing is written.
    """
    changed = refuse_changes(store, claim)
    lease = store.read_meta("lease") or {"attempt": 0}
    # A new ledger in an old folder must not reuse attempt numbers.
    attempt = max(int(lease["attempt"]), known) + 1
    store.take_lease(_render(attempt, claimant))
    # Under Fail, no source is finished at this point, so a restart forgets only failures. If the
    # output location has changed, the new location lacks the outputs, so even Redo starts over.
    is_over = claim.on_change is not OnChange.REDO or _is_moved(store, claim)
    if changed and claim.on_change is not OnChange.CONTINUE and is_over:
        restart(store)
    former, recipes = _read_former(store, claim), list_recipes(store, claim, attempt)
    # Forget failed replacements if the recipe has changed, because the new recipe may succeed. Also
    # forget them under Continue, which never replaces sources of older recipes.
    is_forgiving = recipes[-1].since == attempt or claim.on_change is OnChange.CONTINUE
    forgiven = _list_refused(store) if is_forgiving else []
    meta = _identity(claim) | {RECIPES: [each.pack() for each in recipes]}
    if claim.rejoins is None:
        # The number of remaining sources is unknown until the listing ends.
        meta[LISTING] = attempt
    if len(recipes) > 1:
        meta[SETTLED] = _find_settled(store, claim, recipes)
    released = [] if claim.rejoins else _list_helped(store, [*former, recipes[-1]])
    store.write(Change(forgiven=forgiven, mark=released, meta=meta))
    return attempt


def _find_settled(store: Store, claim: Claim, recipes: Sequence[Recipe]) -> int | None:
    """Return the value to record under `SETTLED` at the start of an attempt."""
    if claim.on_change is OnChange.CONTINUE:
        return recipes[-1].since
    if claim.on_change is OnChange.REDO and claim.rejoins is None:
        return 0  # 0 until all outdated sources are replaced
    settled: int | None = store.read_meta(SETTLED)
    return settled


def list_recipes(store: Store, claim: Claim, attempt: int) -> list[Recipe]:
    """Return the recipes of all finished sources, followed by the recipe of this attempt."""
    recipes = _read_former(store, claim) if store.count()["finished"] else []
    if claim.rejoins is not None and claim.on_change is OnChange.CONTINUE:
        recipes = mix_recipes(recipes, claim.rejoins)
    parts, growing = claim.strip(claim.fingerprint.parts), sorted(claim.fingerprint.growing)
    joined = join_recipe(recipes, Recipe(attempt, parts, growing, claim.dropping))
    # `list_attempts` reads all sources, so call it only if many recipes have accumulated.
    is_due = len(joined) > max(MOST_RECIPES, len(recipes))
    return drop_unused(joined, store.list_attempts()) if is_due else joined


def _read_former(store: Store, claim: Claim) -> list[Recipe]:
    """Return the recipes before this attempt.

    Older releases recorded fewer values. The current values replace the missing values.
    """
    parts = claim.strip(claim.fingerprint.parts)
    # Older releases stored the output location in the fingerprint, but no digests of code.
    return [
        each._replace(parts=adopt_code(claim.strip(each.parts), parts))
        for each in read_recipes(store)
    ]


def _list_helped(store: Store, recipes: Sequence[Recipe]) -> list[tuple[bytes, Mark]]:
    """Return fresh marks of unfinished sources that failed and may succeed with a later recipe.

    Args:
        recipes: all recipes under which the sources may have failed, then the current recipe.
    """
    changes = Changes(recipes)
    failed: dict[bytes, FailureRecord | QuarantinedSource] = dict(store.list_failures())
    failed.update(store.list_quarantined())
    finished = store.find_finished(list(failed))
    return [
        (source, _mark_fresh(failure.key, failure.version))
        for source, failure in failed.items()
        if source not in finished and changes.may_help(failure.attempt, failure.stage)
    ]


def _list_refused(store: Store) -> list[bytes]:
    """Return the finished sources whose replacement failed."""
    failed = [source for source, _ in (*store.list_failures(), *store.list_quarantined())]
    return list(store.find_finished(failed))


def refuse_changes(store: Store, claim: Claim) -> bool:
    """Check that the ledger matches. Return True if the pipeline has changed and may change.

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
    # Without finished sources, new outputs cannot be mixed with old outputs.
    if changed and claim.on_change is OnChange.FAIL and store.count()["finished"]:
        raise _refuse_change(changed, is_moved=_is_moved(store, claim))
    return bool(changed)


def _is_moved(store: Store, claim: Claim) -> bool:
    return claim.location is not None and find_move(store, claim.location) is not None


def end_attempt(store: Store, attempt: int, claimant: Claimant) -> None:
    """Release the lease, so that the next attempt need not look for a live process."""
    store.write(Change(meta={"lease": _render(attempt, claimant) | {"ended": True}}))


@contextmanager
def holding(store: Store, claimant: Claimant) -> Iterator[int]:
    """Write as the last attempt, exclude other writers until the block ends, and yield its number.

    The ledger must have had an attempt. The lease gets a new uid, so later writes under the
    previous uid are rejected.
    """
    attempt = int(store.read_meta("lease")["attempt"])
    store.take_lease(_render(attempt, claimant))
    try:
        yield attempt
    finally:
        end_attempt(store, attempt, claimant)


def find_changes(store: Store, claim: Claim) -> list[str]:
    """Return the differences from the pipeline that wrote the ledger, a line per difference."""
    location = claim.location
    if location is not None and knows_location(store):
        changed = find_other_changes(store, claim.fingerprint, location)
        return changed + [line for line in (find_move(store, location),) if line]
    known = read_fingerprint(store)
    if known is None or known.digest == claim.fingerprint.digest:
        return []
    return describe_difference(known.parts, claim.fingerprint.parts, claim.fingerprint.growing)


def restart(store: Store) -> None:
    """Make every source unfinished, and forget all recorded failures and suspicions.

    Existing files of a source are removed when the source finishes again.
    """
    while group := list(islice(_list_begun(store), 10_000)):
        store.write(Change(mark=group))


def _list_begun(store: Store) -> Iterator[tuple[bytes, Mark]]:
    """Yield a fresh mark for every source that has a ledger entry other than a fresh mark."""
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
    # Use attempt 0, which does not exist: with a real attempt, a crash of that attempt would make
    # the source a suspect.
    return Mark(key, version, attempt=0, ordinal=0, is_stale=True)


def _refuse_change(changed: list[str], *, is_moved: bool) -> LedgerError:
    lines = "\n".join(f"  {line}" for line in changed)
    moved = "\nif you have moved the outputs there, run `strandline ledger move-outputs`"
    refused = LedgerError(
        f"the pipeline is not the one that wrote this ledger:\n{lines}\nset onChange to Redo to "
        "process finished sources again, to Restart to start over, or to Continue to keep finished "
        f"sources{moved if is_moved else ''}"
    )
    refused.advice = Advice("run", (_KEPT,))
    return refused


def _refuse_retrial(changed: list[str]) -> LedgerError:
    lines = "\n".join(f"  {line}" for line in changed)
    refused = LedgerError(
        f"the pipeline has changed since its dead letters were written:\n{lines}\nset onChange to "
        "Redo and run the pipeline to process their sources again, or set onChange to Continue and "
        "retry the dead letters to add rows of the new recipe to finished sources"
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
    # The clocks of two hosts hardly ever differ by this much, so the driver must be dead.
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
