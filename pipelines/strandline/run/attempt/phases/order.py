"""The phases of an attempt, in order. A new phase is a function and a line in this module."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.run.attempt.phases.conclusion import conclude
from strandline.run.attempt.phases.publication import gather, list_files, publish
from strandline.run.attempt.phases.revision import prepare_dead_letters, redo, repair
from strandline.run.attempt.phases.schema import settle
from strandline.run.attempt.phases.shared_files import tidy
from strandline.run.attempt.phases.state import AttemptState, Phase
from strandline.run.attempt.phases.work import look_at_listing, try_cuts, work

# Statistics are gathered in the background while sources are processed.
WORKING: tuple[Phase, ...] = (
    repair,
    prepare_dead_letters,
    settle,
    try_cuts,
    look_at_listing,
    work,
    redo,
)
# The ledger stays open from the verdict to the publication. `deliver` is not in this list: an
# upload may take hours, and other commands may read the ledger in the meantime.
CLOSING: tuple[Phase, ...] = (conclude, tidy, gather, list_files, publish)


def advance(state: AttemptState, phases: Iterable[Phase]) -> AttemptState:
    """Return the state after running the phases in order."""
    for phase in phases:
        state = phase(state)
    return state
