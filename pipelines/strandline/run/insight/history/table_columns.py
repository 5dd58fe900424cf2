"""Columns of a table that a pipeline reads, compared from one run to the next.

Files of a table stay finished sources while its schema changes, so one data set would hold rows of
both schemas without a word. It must not know how a table is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

from strandline.ledger.records.entries import Change
from strandline.ledger.store.recipes import read_recipes
from strandline.ledger.store.store import Store
from strandline.plan.stages.stage import Stage

_META = "table columns"


@runtime_checkable
class TableSource(Protocol):
    """A source of files that belong to one table."""

    @property
    def table(self) -> str:
        """The table, as the pipeline names it."""

    def list_columns(self) -> dict[str, str]:
        """Return the types of the table's columns by name."""


def compare_columns(source: Stage, store: Store) -> list[str]:
    """Return a sentence if columns changed since the last run, and keep the present ones.

    A killed attempt keeps none, so the next one reports the change.
    """
    if not isinstance(source, TableSource) or not store.count()["finished"]:
        return []
    try:
        present = source.list_columns()
    except OSError:  # the listing has met the same error, or the next one will
        return []
    kept = store.read_meta(_META)
    recipes = read_recipes(store)
    store.write(Change(meta={_META: {"columns": present, "since": recipes[-1].since}}))
    # A pipeline that was begun anew has read all rows by the present columns.
    if kept is None or kept["since"] < recipes[0].since or kept["columns"] == present:
        return []
    changes = ", ".join(_list_changes(kept["columns"], present))
    msg = f"{source.table}: columns changed since the last run: {changes}"
    return [f"{msg}; sources that are not read again keep the old columns"]


def _list_changes(kept: Mapping[str, str], present: Mapping[str, str]) -> Iterator[str]:
    for name, kind in kept.items():
        if name not in present:
            yield f"{name!r} ({kind}) was dropped or renamed"
        elif kind != present[name]:
            yield f"{name!r} was {kind} and is {present[name]}"
    for name, kind in present.items():
        if name not in kept:
            yield f"{name!r} ({kind}) is new"
