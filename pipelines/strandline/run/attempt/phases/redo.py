"""Redo: finished sources of an older recipe are replaced."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from strandline.ledger.access.lease import OnChange
from strandline.run.attempt.phases.state import AttemptState, require
from strandline.run.attempt.phases.work import run_engine
from strandline.run.redo.phases import RedoTools, replace_older


def redo(state: AttemptState) -> AttemptState:
    """Replace finished sources of older recipes.

    Precondition: the pipeline asks for it (`onChange: Redo`), and all other work has ended.
    """
    if state.config.on_change is not OnChange.REDO or state.is_retrial:
        return state
    held, control = state.held, state.control
    tools = RedoTools(
        held.session.open,
        state.list_sources,
        held.location,
        partial(run_engine, state),
        control.must_stop,
        control.note,
        require(state.cuts),
    )
    return replace(state, ending=replace_older(state.plan, require(state.ending), tools))
