"""The phases of an attempt, in order. To add a phase, write a function and list it here."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.run.attempt.phases.conclusion import conclude
from strandline.run.attempt.phases.publication import gather, list_files, publish
from strandline.run.attempt.phases.revision import prepare_dead_letters, redo, repair
from strandline.run.attempt.phases.schema import settle
from strandline.run.attempt.phases.shared_files import tidy
from strandline.run.attempt.phases.state import AttemptState, Phase
from strandline.run.attempt.phases.work import look_at_listing, try_cuts, work

# There is no phase for gathering here: gathering runs in the background while sources are
# processed.
WORKING: tuple[Phase, ...] = (
    repair,
    prepare_dead_letters,
    settle,
    try_cuts,
    look_at_listing,
    work,
    redo,
)
# During these phases, the ledger stays open. `deliver` is not in this list, because an upload may
# take hours, and other commands may need the ledger in the meantime.
CLOSING: tuple[Phase, ...] = (conclude, tidy, gather, list_files, publish)


def advance(state: AttemptState, phases: Iterable[Phase]) -> AttemptState:
    """Return the state after running the phases in order."""
    for phase in phases:
        state = phase(state)
    return state
