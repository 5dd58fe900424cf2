"""The ledger's entries as rows for people and programs: one shape for every state.

It reads a store; how rows are printed or written is not its business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from strandline.ledger.entries import FailureRecord, Quarantined, Row, SourceEffort, SourceState
from strandline.ledger.store.store import Store
from strandline.storage.outputs.names import name_output

_LOOKED_THROUGH = 100_000  # failures; a second


def list_efforts(store: Store) -> Iterator[SourceEffort]:
    """Yield what each stage did for each finished source of which that is kept."""
    for _, entry, record in store.list_records():
        for effort in record.efforts:
            yield SourceEffort(record.key, entry.attempt, *effort)


def list_rows(store: Store, state: SourceState | None = None) -> Iterator[Row]:
    """Yield every source that the ledger knows, or those in one state."""
    readers: dict[SourceState, Callable[[Store], Iterator[Row]]] = {
        SourceState.FINISHED: _list_finished,
        SourceState.FAILED: _list_failed,
        SourceState.INFLIGHT: _list_inflight,
        SourceState.QUARANTINED: _list_quarantined,
    }
    for each in SourceState if state is None else (state,):
        yield from readers[each](store)


def list_output_names(store: Store) -> list[str]:
    """Return the names of all outputs of finished sources, each once, by their sources' keys.

    Dead letters are none.
    """
    rows = sorted(
        (row.key, [output["name"] for output in row.outputs if "deadLettersOf" not in output])
        for row in list_rows(store, SourceState.FINISHED)
    )
    return list(dict.fromkeys(name for _, names in rows for name in names))


def list_failures(store: Store, attempt: int | None = None) -> Iterator[FailureRecord]:
    """Yield why each failed source did, or each that did so in one attempt.

    Of very many only the first are looked at.
    """
    for _, entry in islice(store.list_failures(), _LOOKED_THROUGH):
        if attempt is None or entry.attempt == attempt:
            yield entry


def list_quarantined(store: Store) -> Iterator[Quarantined]:
    """Yield each source in quarantine; of very many only the first are looked at."""
    for _, entry in islice(store.list_quarantined(), _LOOKED_THROUGH):
        yield entry


def _list_finished(store: Store) -> Iterator[Row]:
    for source, entry, record in store.list_records():
        outputs = [
            {
                "name": name_output(source, output),
                "bytes": output.size,
                "rows": output.rows,
                "digest": output.digest.hex(),
                **({} if output.part is None else {"firstRow": output.part.begin}),
                **({} if output.dead_stage is None else {"deadLettersOf": output.dead_stage}),
                **({} if output.cut is None else {"keptOf": output.cut[0]}),
            }
            for output in record.outputs
        ]
        yield Row(record.key, SourceState.FINISHED, entry.version.hex(), entry.attempt, outputs)


def _list_failed(store: Store) -> Iterator[Row]:
    for _, entry in store.list_failures():
        why = (entry.stage, entry.message, entry.times)
        yield Row(entry.key, SourceState.FAILED, entry.version.hex(), entry.attempt, [], *why)


def _list_inflight(store: Store) -> Iterator[Row]:
    for _, entry in store.list_marks():
        yield Row(entry.key, SourceState.INFLIGHT, entry.version.hex(), entry.attempt, [])


def _list_quarantined(store: Store) -> Iterator[Row]:
    for _, entry in store.list_quarantined():
        why = (entry.stage, entry.message, entry.times, entry.cause)
        yield Row(entry.key, SourceState.QUARANTINED, entry.version.hex(), entry.attempt, [], *why)
