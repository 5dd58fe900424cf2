"""The ledger's entries as rows for people and programs: one shape for every state.

It reads a store; how rows are printed or written is not its business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from strandline.cli.views.format import spell_text
from strandline.ledger.store.store import Store
from strandline.ledger.verification import name_output


class State(StrEnum):
    """Where a source stands."""

    FINISHED = "finished"
    FAILED = "failed"
    INFLIGHT = "inflight"
    QUARANTINED = "quarantined"


class Row(NamedTuple):
    """One source.

    Attributes:
        version: hex of its version's digest; empty where an older release noted a failure.
        attempt: the one that finished it, that it failed in last, or that released it.
        outputs: name below the output's root, bytes, rows and hex digest of each file.
        stage, message, times: where and why it failed last, and in how many attempts. The stage is
            empty where a process died over it.
        cause: of a quarantined one, in the word that attempts use too.
    """

    key: str
    state: str
    version: str
    attempt: int
    outputs: list[dict[str, Any]]
    stage: str | None = None
    message: str | None = None
    times: int | None = None
    cause: str | None = None


class SourceEffort(NamedTuple):
    """What a stage did for a finished source; see `Effort`."""

    key: str
    attempt: int
    stage: str
    rows_in: int
    rows_out: int
    seconds: float
    size: int


def list_efforts(store: Store) -> Iterator[SourceEffort]:
    """What each stage did for each finished source of which that is kept."""
    for _, entry, record in store.list_records():
        for effort in record.efforts:
            yield SourceEffort(record.key, entry.attempt, *effort)


def list_rows(store: Store, state: State | None = None) -> Iterator[Row]:
    """Every source that the ledger knows, or those in one state."""
    readers: dict[State, Callable[[Store], Iterator[Row]]] = {
        State.FINISHED: _list_finished,
        State.FAILED: _list_failed,
        State.INFLIGHT: _list_inflight,
        State.QUARANTINED: _list_quarantined,
    }
    for each in State if state is None else (state,):
        yield from readers[each](store)


def _list_finished(store: Store) -> Iterator[Row]:
    for source, entry, record in store.list_records():
        outputs = [
            {
                "name": name_output(source, output),
                "bytes": output.size,
                "rows": output.rows,
                "digest": output.digest.hex(),
            }
            for output in record.outputs
        ]
        yield Row(record.key, State.FINISHED, entry.version.hex(), entry.attempt, outputs)


def _list_failed(store: Store) -> Iterator[Row]:
    for _, entry in store.list_failures():
        why = (entry.stage, entry.message, entry.times)
        yield Row(entry.key, State.FAILED, entry.version.hex(), entry.attempt, [], *why)


def _list_inflight(store: Store) -> Iterator[Row]:
    for _, entry in store.list_marks():
        yield Row(entry.key, State.INFLIGHT, entry.version.hex(), entry.attempt, [])


def _list_quarantined(store: Store) -> Iterator[Row]:
    for _, entry in store.list_parked():
        why = (entry.stage, entry.message, entry.times, entry.cause)
        yield Row(entry.key, State.QUARANTINED, entry.version.hex(), entry.attempt, [], *why)


def describe_failure(row: Row) -> str:
    """The key of a row and, where it failed, why: cause, stage and message, as far as there are."""
    words = (row.key, row.cause, row.stage, row.message)
    return spell_text(": ".join(word for word in words if word))
