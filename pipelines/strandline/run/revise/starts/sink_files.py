"""Starts a redo from the sink's own files, if the last stages only added or marked columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from strandline.ledger.records.entries import Change, FinishedEntry, SourceRecord
from strandline.ledger.store.store import Store
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Output
from strandline.plan.stages.stage import Stage
from strandline.run.revise.cuts.rows import ReadOutput, RereadableSink
from strandline.run.revise.redoing import note_unreadable
from strandline.run.revise.starts.start import DueSource, Start, find_position
from strandline.storage.outputs.names import name_output
from strandline.storage.outputs.remote import find_files


class SinkFiles:
    """Reads the tables that the sink has written."""

    reads_cut = False

    def find(self, due: DueSource) -> Start | None:
        """Return the start after the last unchanged stage, if the sink's files have its output."""
        added = _find_added(due) if due.is_readable else None
        if added is None:
            return None
        return Start(due.changes.list_unchanged(due.entry.attempt)[-1], without=added)

    def describe(self, start: Start) -> str:
        added = f" without {', '.join(start.without)}" if start.without else ""
        return f"from the files of the sink{added}"

    def open_reader(self, plan: PipelinePlan, start: Start, /) -> Stage:
        assert isinstance(plan.sink, RereadableSink)  # otherwise no source would start here
        return ReadOutput(plan.sink, start.without)

    def list_files(self, _start: Start, record: SourceRecord, /) -> list[Output]:
        return sorted(record.data, key=find_position)

    def note_missing(
        self,
        store: Store,
        location: str,
        starts_here: Callable[[bytes, FinishedEntry, SourceRecord], bool],
        /,
    ) -> None:
        """Record that files of a source are missing, but keep the sink's files in the record."""
        is_there = find_files(location, "")
        change = Change()
        for source, entry, record in store.list_records():
            if not starts_here(source, entry, record):
                continue
            if not all(is_there(*_locate(source, output)) for output in record.data):
                attempt, why = entry.attempt, "a file of its output is missing or has another size"
                change.fail.append((source, note_unreadable(record.key, entry, attempt, why)))
        store.write(change)


def _find_added(due: DueSource) -> tuple[str, ...] | None:
    """Return which columns of the sink's files the first changed stage did not receive.

    Without these columns, the files are the stage's input. Return None if the files do not contain
    that input.
    """
    sink, tail = due.plan.sink, due.changes.find_tail(due.entry.attempt)
    if tail is None or not (isinstance(sink, RereadableSink) and sink.holds_tables):
        return None
    below = due.plan.stages[tail.begin - 1 : -1]  # `stages` does not include the source
    # If stages do not declare their columns, they may need data that is not in the files, such as
    # metadata.
    if not all(stage.stage.keeps_columns and stage.group is None for stage in below):
        return None
    if any(each.suffix != sink.suffix for each in due.record.data):
        return None
    if tail.renewed is None:
        return ()
    # Rows that the stage has dropped or could not process are not in the files.
    if tail.has_dropped or below[0].name in due.record.count_dead():
        return None
    return _list_added(below[0].stage, tail.renewed)


def _list_added(stage: Stage, params: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the columns that a stage added with its previous parameters.

    Return None if the stage did more than add columns. The caller has checked that its class,
    version, and name are unchanged.
    """
    try:
        written = json.dumps(_unflatten(params))
        former = type(stage)(type(stage).Params.model_validate_json(written))
    # The previous parameters may name a deleted file, or may have a key with a dot, which can't be
    # restored.
    except (ValueError, TypeError, AttributeError, OSError, StrandlineError):
        return None
    former.planned_name = stage.planned_name
    return former.list_added() if former.only_adds else None


def _unflatten(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in nested form. Assume that no key contains a dot."""
    values: dict[str, Any] = {}
    for path, value in sorted(params.items(), key=lambda each: each[0]):
        *above, name = path.split(".")
        inner = values
        for key in above:
            inner = inner.setdefault(key, {})
        inner[name] = value
    return values


def _locate(source: bytes, output: Output) -> tuple[str, int]:
    """Return name and size of a file. A part of a shared file has the size of the whole file."""
    part = output.part
    return name_output(source, output), output.size if part is None else part.size
