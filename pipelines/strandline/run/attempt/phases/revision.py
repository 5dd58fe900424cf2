"""Revision: processes finished sources again.

Repair makes sources with missing or damaged files unfinished, a retrial processes dead letters
instead of sources, and redo replaces finished sources of older recipes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from strandline.ledger.access.lease import OnChange
from strandline.ledger.output_root import clean_up
from strandline.run.attempt.phases.state import AttemptState, require
from strandline.run.attempt.phases.work import run_engine
from strandline.run.revise.dead_letters.counts import expect_dead_letters
from strandline.run.revise.dead_letters.retrial import list_retried, plan_retrial
from strandline.run.revise.redo import RedoTools, replace_older
from strandline.run.revise.repair import set_back_damage
from strandline.storage.outputs.remote import open_outputs
from strandline_api.status.enums import Trigger


def redo(state: AttemptState) -> AttemptState:
    """Replace finished sources of older recipes.

    Precondition: the pipeline has `onChange: Redo`, and all other work has ended.
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


def prepare_dead_letters(state: AttemptState) -> AttemptState:
    """Make the ledger count dead letters. In a retrial, list the dead letters of the chosen stage.

    A retrial also gets another plan.

    Precondition: a stage writes dead letters, or the attempt is a retrial.
    """
    config, held = state.config, state.held
    keeps_letters = any(stage.on_error == "deadLetter" for stage in config.plan.stages)
    if not keeps_letters and config.dead_letters is None:
        return state  # do not open the ledger without need
    with held.session.open() as store:
        if keeps_letters:
            expect_dead_letters(store)
        if config.dead_letters is None:
            return state
        plan = plan_retrial(config.plan, config.dead_letters)
        mixes = config.on_change is OnChange.CONTINUE
        note, stage = state.control.note, config.dead_letters
        listing = list_retried(store, held.location, stage, note, mixes=mixes)
    return replace(state, plan=plan, listing=listing)


def repair(state: AttemptState) -> AttemptState:
    """Make sources with damaged files unfinished before any source is listed.

    Precondition: the trigger of the attempt is a repair.
    """
    if state.config.trigger is not Trigger.REPAIR:
        return state
    held, control = state.held, state.control
    with held.session.open() as store, control.heartbeat.trusting():
        damage = set_back_damage(store, held.folder, held.location)
        # The takeover has cleaned up before the damage was known, so clean up again.
        clean_up(store, open_outputs(held.location), control.heartbeat.note_progress)
    control.note(f"repair: {len(damage.again)} finished sources are processed again")
    return state
