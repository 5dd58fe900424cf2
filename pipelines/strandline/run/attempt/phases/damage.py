"""Repair: sources with missing or damaged files are processed again."""

from __future__ import annotations

from strandline.run.attempt.phases.state import AttemptState
from strandline.run.revise.repair import set_back_damage
from strandline_api.status.enums import Trigger


def repair(state: AttemptState) -> AttemptState:
    """Set back sources with damaged files, before any source is listed.

    Precondition: the attempt was started to repair.
    """
    if state.config.trigger is not Trigger.REPAIR:
        return state
    held, control = state.held, state.control
    with held.session.open() as store, control.heartbeat.trusting():
        damage = set_back_damage(store, held.folder, held.location)
    control.note(f"repair: {len(damage.again)} finished sources are done again")
    return state
