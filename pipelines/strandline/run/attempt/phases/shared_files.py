"""Tidying: removes rows without a finished source from shared files.

The module also compares the columns of a source table with the columns in the last run. If the
table's schema changes, files that were already processed stay finished, so a data set could mix
rows of both schemas.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

from strandline.ledger.records.entries import Change
from strandline.ledger.store.recipes import read_recipes
from strandline.ledger.store.store import Store
from strandline.plan.stages.stage import Stage
from strandline.run.attempt.phases.state import AttemptState
from strandline.run.revise.rewriting import tidy_shared
from strandline.storage.outputs.remote import open_outputs
from strandline.storage.volume.locks import hold_shared, release


def tidy(state: AttemptState) -> AttemptState:
    """Rewrite shared files that contain rows without a source.

    Adds incidents: files that could not be written, and columns of a table that changed.

    Precondition: no stop is requested. A stopping attempt has little time, so it leaves the files
    to the next attempt.
    """
    if state.was_stopped:
        return state
    held, control, plan = state.held, state.control, state.config.plan
    outputs = open_outputs(held.location, f"{held.writer}-{os.getpid()}")
    lock = hold_shared(held.folder.writers_lock)
    try:
        # Count CPU time and I/O as progress, because a sink reports no progress within a file.
        with held.session.open() as store, control.heartbeat.trusting():
            work = control.heartbeat.note_progress
            shared = tidy_shared(store, outputs, plan.stages[-1], work, control.must_stop)
            return state.add_incidents([*shared, *compare_columns(plan.source.stage, store)])
    finally:
        release(lock)


_META = "table columns"


@runtime_checkable
class TableSource(Protocol):
    """A source stage whose files belong to one table."""

    @property
    def table(self) -> str:
        """Name of the table in the pipeline."""

    def list_columns(self) -> dict[str, str]:
        """Return the types of the table's columns by name."""


def compare_columns(source: Stage, store: Store) -> list[str]:
    """Return a sentence if columns changed since the last run, and record the current columns.

    If an attempt is killed, it records no columns, so the next attempt reports the change.
    """
    if not isinstance(source, TableSource) or not store.count()["finished"]:
        return []
    try:
        present = source.list_columns()
    except OSError:  # the listing reports the error, in this run or the next
        return []
    kept = store.read_meta(_META)
    recipes = read_recipes(store)
    store.write(Change(meta={_META: {"columns": present, "since": recipes[-1].since}}))
    # If the pipeline was restarted since the columns were recorded, all rows have the current
    # columns.
    if kept is None or kept["since"] < recipes[0].since or kept["columns"] == present:
        return []
    changes = ", ".join(_list_changes(kept["columns"], present))
    msg = f"{source.table}: columns changed since the last run: {changes}"
    return [f"{msg}; sources that are not reread keep the old columns"]


def _list_changes(kept: Mapping[str, str], present: Mapping[str, str]) -> Iterator[str]:
    for name, kind in kept.items():
        if name not in present:
            yield f"{name!r} ({kind}) was dropped or renamed"
        elif kind != present[name]:
            yield f"{name!r} was {kind} and is {present[name]}"
    for name, kind in present.items():
        if name not in kept:
            yield f"{name!r} ({kind}) is new"
