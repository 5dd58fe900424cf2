"""Looks at an attempt's record and process, and says where it stands."""

from __future__ import annotations

from typing import Any

from strandline.cli.views.attempt import AttemptView, State
from strandline.run.history.progress import read_progress
from strandline.run.history.records import AttemptRecord
from strandline.run.supervise.status_server import read_number, read_shown
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import find_process, read_boot_id

FRESH_SECONDS = 30.0


def view_attempt(folder: PipelineFolder, record: AttemptRecord, time: float) -> AttemptView:
    """The attempt of a record, as it stands at a time in seconds since the epoch."""
    if record.ended is not None and record.outcome is not None:
        state = State.ENDED if record.cause else State.COMPLETED
        length = max(0.0, record.ended - record.started)
        return AttemptView(record, state, length, record.outcome.sources.finished)
    finished = read_progress(folder, record.number).finished
    if record.boot != read_boot_id():
        return AttemptView(record, State.UNKNOWN, None, finished)
    if find_process(record.pid) != record.process:
        return AttemptView(record, State.GONE, None, finished)
    return AttemptView(record, State.RUNNING, max(0.0, time - record.started), finished)


def read_live(folder: PipelineFolder, view: AttemptView, time: float) -> dict[str, Any] | None:
    """What an attempt's driver says of itself in the pipeline's folder; None where none says any.

    Of a driver on another host only what it has said a moment ago counts.
    """
    shown = read_shown(folder.progress, view.record.pid)
    if shown is None or view.state not in {State.RUNNING, State.UNKNOWN}:
        return None
    age = time - read_number(shown.get("time"))
    is_live = view.state is State.RUNNING or age <= FRESH_SECONDS
    return dict(shown) if is_live else None
