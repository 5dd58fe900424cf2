"""Dead letters: the ledger counts them, and a retrial processes them instead of sources."""

from __future__ import annotations

from dataclasses import replace

from strandline.ledger.access.lease import OnChange
from strandline.run.attempt.phases.state import AttemptState
from strandline.run.redo.dead_letters.counts import expect_dead_letters
from strandline.run.redo.dead_letters.retrial import list_retried, plan_retrial


def prepare_dead_letters(state: AttemptState) -> AttemptState:
    """Have the ledger count dead letters; in a retrial, list those of its stage.

    Precondition: a stage writes dead letters, or the attempt is a retrial, which alone gets another
    plan and listing.
    """
    config, held = state.config, state.held
    keeps_letters = any(stage.on_error == "deadLetter" for stage in config.plan.stages)
    if not keeps_letters and config.dead_letters is None:
        return state  # without opening the ledger once more
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
