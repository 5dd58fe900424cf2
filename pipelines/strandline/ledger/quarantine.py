"""Sources that may have killed a process: suspected, retried separately, and finally quarantined.

A source is blamed for a crash only if workers were processing no other source at that time.
Otherwise the source is only suspected, and the next attempt tries it in a smaller group. The caller
reports which sources each worker was processing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from strandline.ledger.errors import UnknownSourceError
from strandline.ledger.records.entries import Change, Mark, QuarantinedSource
from strandline.ledger.store.store import Store
from strandline.plan.receipt import Effort
from strandline.plan.token import digest_key
from strandline_api.spec.policy import count_tolerated


class Crash(NamedTuple):
    """A crash of an attempt.

    Attributes:
        attempt: number of the attempt.
        processing: sources that workers were processing.
        queued: sources that were waiting in a worker's queue.
        cause: cause in the vocabulary of `strandline_api`.
        message: a sentence for the user.
    """

    attempt: int
    processing: Collection[bytes]
    queued: Collection[bytes]
    cause: str
    message: str


def accuse(store: Store, crash: Crash, quarantine_after: int) -> int:
    """Record suspicions about the sources that a crash interrupted. Return the number of records.

    Sources that have finished nevertheless are not affected. Further calls for the same crash have
    no effect.
    """
    if (store.read_meta("accused") or 0) >= crash.attempt:
        return 0
    processing = set(crash.processing)
    exposed = len(processing.union(crash.queued))
    change = Change(meta={"accused": crash.attempt})
    for source, mark in store.find_marks(sorted(processing)).items():
        _accuse_source(change, source, mark, crash, exposed, quarantine_after)
    if exposed == len(processing) == 1:
        _accuse_finished(change, store, crash, quarantine_after)
    store.write(change)
    return len(change.mark) + len(change.quarantine) + len(change.fail)


def release(store: Store, keys: Collection[str] | None) -> list[str]:
    """Remove sources from quarantine, so that the next attempt tries them again.

    Args:
        keys: keys of the sources, or None for all.

    Returns:
        The released keys, sorted.

    Raises:
        UnknownSourceError: if any source is not in quarantine. In this case, no source is released.
    """
    found = _find_quarantined(store, keys)
    marks = [
        (source, Mark(quarantined.key, quarantined.version, 0, 0, is_stale=True))
        for source, quarantined in found.items()
    ]
    store.write(Change(mark=marks))
    return sorted(quarantined.key for quarantined in found.values())


def _find_quarantined(store: Store, keys: Collection[str] | None) -> dict[bytes, QuarantinedSource]:
    if keys is None:
        return dict(store.list_quarantined())
    digests = {digest_key(key): key for key in keys}
    found = store.find_quarantined(digests)
    unknown = sorted(repr(key) for digest, key in digests.items() if digest not in found)
    if unknown:
        msg = f"not in quarantine: {', '.join(unknown)}; no source was released"
        raise UnknownSourceError(msg)
    return found


def _accuse_source(
    change: Change, source: bytes, mark: Mark, crash: Crash, exposed: int, after: int
) -> None:
    if mark.attempt != crash.attempt:
        return
    times = mark.failed_before + (exposed == 1)
    if exposed == 1 and times >= after:
        quarantined = QuarantinedSource(
            mark.key, mark.version, crash.attempt, crash.cause, "", crash.message, times
        )
        change.quarantine.append((source, quarantined))
        return
    change.mark.append((source, mark._replace(failed_before=times, exposed=exposed)))


def _accuse_finished(change: Change, store: Store, crash: Crash, after: int) -> None:
    """Blame a source that was being replaced. The source stays finished and has no mark."""
    (source,) = crash.processing
    entry = store.find_finished([source]).get(source)
    # If the crashed attempt has already finished the source, the source did not cause the crash.
    if entry is None or entry.attempt >= crash.attempt:
        return
    key = store.find_records([source])[source].key
    failure = store.find_failures([source]).get(source)
    before = failure.times if failure and failure.version == entry.version else 0
    facts = key, entry.version, crash.attempt, crash.cause, "", crash.message, before + 1
    change.add_failure(source, QuarantinedSource(*facts), after)


def find_excess(
    tolerances: Iterable[tuple[str, int | str]],
    dead: Mapping[str, int],
    efforts: Mapping[str, Effort],
) -> tuple[str, str] | None:
    """Return the first stage with more dead letters than it tolerates, and a sentence about it.

    Return None if no stage has too many.

    Args:
        tolerances: by stage, a number or a percentage of the stage's input rows.
        dead: the source's dead letters by stage.
        efforts: work on the source by stage. Required for stages that tolerate a percentage.
    """
    for stage, tolerance in tolerances:
        count = dead.get(stage, 0)
        rows = efforts[stage].rows_in if stage in efforts else count
        if count > count_tolerated(tolerance, rows):
            of = f" of {rows}" if isinstance(tolerance, str) else ""
            return stage, f"{count}{of} rows failed, but tolerateRows is {tolerance}"
    return None
