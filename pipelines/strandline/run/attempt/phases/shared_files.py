"""Tidying: files that sources share keep nothing but rows of finished sources."""

from __future__ import annotations

import os

from strandline.run.attempt.phases.state import AttemptState
from strandline.run.insight.history.table_columns import compare_columns
from strandline.run.revise.rewriting import tidy_shared
from strandline.storage.outputs.remote import open_outputs
from strandline.storage.volume.locks import hold_shared, release


def tidy(state: AttemptState) -> AttemptState:
    """Write shared files anew where some of their rows have no source any more.

    Adds incidents: files that could not be written, and columns of a table that changed.

    Precondition: no stop is requested. An attempt that has to stop has little time; the next one
    tidies up.
    """
    if state.was_stopped:
        return state
    held, control, plan = state.held, state.control, state.config.plan
    outputs = open_outputs(held.location, f"{held.writer}-{os.getpid()}")
    lock = hold_shared(held.folder.writers_lock)
    try:
        # A sink does not report its progress with a file.
        with held.session.open() as store, control.heartbeat.trusting():
            work = control.heartbeat.note_progress
            shared = tidy_shared(store, outputs, plan.stages[-1], work, control.must_stop)
            return state.add_incidents([*shared, *compare_columns(plan.source.stage, store)])
    finally:
        release(lock)
