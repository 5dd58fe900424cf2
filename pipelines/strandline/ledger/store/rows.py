"""Converts ledger entries to rows for users and programs, in the same shape for every state.

The module reads a store. It must not depend on the output format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

from strandline.ledger.records.entries import (
    FailureRecord,
    QuarantinedSource,
    Row,
    SourceEffort,
    SourceRecord,
    SourceState,
)
from strandline.ledger.store.store import Store
from strandline.storage.outputs.names import name_output

_LOOKED_THROUGH = 100_000  # number of failures that can be read in a second
_PORTION = 1000


def list_efforts(store: Store) -> Iterator[SourceEffort]:
    """Yield the recorded work of each stage on each finished source."""
    for _, entry, record in store.list_records():
        for stage, rows_in, rows_out, seconds, size, _ in record.efforts:
            work = stage, rows_in, rows_out, seconds or 0.0, size
            yield SourceEffort(record.key, entry.attempt, *work)


def list_rows(store: Store, state: SourceState | None = None) -> Iterator[Row]:
    """Yield all sources in the ledger, or all sources in one state."""
    readers: dict[SourceState, Callable[[Store], Iterator[Row]]] = {
        SourceState.FINISHED: _list_finished,
        SourceState.FAILED: _list_failed,
        SourceState.INFLIGHT: _list_inflight,
        SourceState.QUARANTINED: _list_quarantined,
    }
    for each in SourceState if state is None else (state,):
        yield from readers[each](store)


def list_output_names(store: Store) -> list[str]:
    """Return the unique names of all files for readers, sorted by the keys of their sources."""
    records = (
        (record.key, [name_output(source, output) for output in record.data])
        for source, _, record in store.list_records()
    )
    return list(dict.fromkeys(name for _, names in sorted(records) for name in names))


def list_failed(store: Store) -> Iterator[tuple[bytes, FailureRecord]]:
    """Yield the failed sources.

    Entries with 0 times are not failures but finished sources whose outputs can't be read again.
    """
    return (each for each in store.list_failures() if each[1].times)


def find_refused(store: Store) -> set[bytes]:
    """Return the finished sources whose replacement failed or was quarantined."""
    known = (source for source, _ in chain(list_failed(store), store.list_quarantined()))
    refused: set[bytes] = set()
    # Read in portions: millions of sources may have failed, and few of them are finished.
    while portion := list(islice(known, _PORTION)):
        refused.update(store.find_finished(portion))
    return refused


def list_failures(store: Store, attempt: int | None = None) -> Iterator[FailureRecord]:
    """Yield the failures of all attempts, or of one attempt.

    Only the first `_LOOKED_THROUGH` failures are read.
    """
    for _, entry in islice(list_failed(store), _LOOKED_THROUGH):
        if attempt is None or entry.attempt == attempt:
            yield entry


def list_quarantined(store: Store) -> Iterator[QuarantinedSource]:
    """Yield the sources in quarantine, at most `_LOOKED_THROUGH`."""
    for _, entry in islice(store.list_quarantined(), _LOOKED_THROUGH):
        yield entry


def _list_finished(store: Store) -> Iterator[Row]:
    refused = find_refused(store)
    for source, entry, record in store.list_records():
        if source not in refused:
            outputs = _list_outputs(source, record)
            yield Row(record.key, SourceState.FINISHED, entry.version.hex(), entry.attempt, outputs)


def _list_outputs(source: bytes, record: SourceRecord | None) -> list[dict[str, Any]]:
    return [
        {
            "name": name_output(source, output),
            "bytes": output.size,
            "rows": output.rows,
            "digest": output.digest.hex(),
            **({} if output.part is None else {"firstRow": output.part.begin}),
            **({} if output.dead_stage is None else {"deadLettersOf": output.dead_stage}),
            **({} if output.cut is None else {"keptOf": output.cut[0]}),
        }
        for output in (record.outputs if record else ())
    ]


def _list_failed(store: Store) -> Iterator[Row]:
    former = store.find_records(find_refused(store))
    for source, entry in list_failed(store):
        outputs = _list_outputs(source, former.get(source))
        why = (entry.stage, entry.message, entry.times)
        yield Row(entry.key, SourceState.FAILED, entry.version.hex(), entry.attempt, outputs, *why)


def _list_inflight(store: Store) -> Iterator[Row]:
    for _, entry in store.list_marks():
        yield Row(entry.key, SourceState.INFLIGHT, entry.version.hex(), entry.attempt, [])


def _list_quarantined(store: Store) -> Iterator[Row]:
    former = store.find_records(find_refused(store))
    for source, entry in store.list_quarantined():
        outputs = _list_outputs(source, former.get(source))
        why = (entry.stage, entry.message, entry.times, entry.cause)
        version = entry.version.hex()
        yield Row(entry.key, SourceState.QUARANTINED, version, entry.attempt, outputs, *why)
