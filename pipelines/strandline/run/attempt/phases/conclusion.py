"""Concludes an attempt: derives its result from the engine's ending and the ledger."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from strandline.engine.flow.flow import FAILURES_KEPT
from strandline.ledger.store.rows import list_failures
from strandline.run.attempt.failures import group_failures
from strandline.run.attempt.outcome import conclude_tracked
from strandline.run.attempt.phases.state import AttemptState, require
from strandline.run.insight.records import find_progress


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
    # Check again: a stop may have been requested while the result was computed.
    return replace(state, result=result, was_stopped=state.control.must_stop())
