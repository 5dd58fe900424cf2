"""Concludes an attempt: derives its result from the engine's ending and the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from strandline.data.files.globs import is_url
from strandline.engine.flow.flow import FAILURES_KEPT
from strandline.ledger.store.rows import list_failures
from strandline.ledger.store.store import Store
from strandline.run.attempt.failures import group_failures
from strandline.run.attempt.outcome import conclude_tracked
from strandline.run.attempt.phases.state import AttemptState, require
from strandline.run.insight.records import find_progress
from strandline.storage.outputs.names import name_output
from strandline_api.outcome.exit_codes import ExitCode

_SAMPLE = 200  # outputs that a run without work looks for


def conclude(state: AttemptState) -> AttemptState:
    """Set the result of the attempt.

    Precondition: all work has ended.
    """
    held, was_stopped = state.held, state.control.must_stop()
    with held.session.open() as store:
        result = conclude_tracked(
            state.config, state.source, require(state.ending), store, was_stopped=was_stopped
        )
        result = replace(
            result,
            attempt=held.attempt,
            output=held.location,
            remaining=find_progress(store, held.attempt).remaining,
            failures=tuple(islice(list_failures(store, held.attempt), FAILURES_KEPT)),
            failure_groups=group_failures(list_failures(store, held.attempt)),
        )
        if result.code is ExitCode.COMPLETE and not result.standing.finished:
            missing = _look_for_outputs(store, held.location)
            result = replace(result, incidents=(*result.incidents, *missing))
    # Check again: a stop may have been requested while the result was computed.
    return replace(state, result=result, was_stopped=state.control.must_stop())


def _look_for_outputs(store: Store, location: str) -> Iterator[str]:
    """Yield a sentence if some outputs of a sample are missing, unless they are in a store."""
    if is_url(location):
        return
    records = ((source, record.data) for source, _, record in store.list_records())
    names = (name_output(source, each) for source, outputs in records for each in outputs)
    sample = list(islice(names, _SAMPLE))
    missing = sum(not Path(location, name).exists() for name in sample)
    if missing:
        checked = f"{missing} of {len(sample)} checked output files are missing"
        yield f"{checked}; a run with `--missing` restores all missing outputs"
