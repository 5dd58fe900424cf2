"""The phases of an attempt, in their order. A new phase is a function and a line here."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.run.attempt.phases.conclusion import conclude
from strandline.run.attempt.phases.publication import gather, list_files, publish
from strandline.run.attempt.phases.revision import prepare_dead_letters, redo, repair
from strandline.run.attempt.phases.schema import settle
from strandline.run.attempt.phases.shared_files import tidy
from strandline.run.attempt.phases.state import AttemptState, Phase
from strandline.run.attempt.phases.work import look_at_listing, try_cuts, work

# While sources are processed, statistics are gathered beside them.
WORKING: tuple[Phase, ...] = (
    repair,
    prepare_dead_letters,
    settle,
    try_cuts,
    look_at_listing,
    work,
    redo,
)
# The ledger stays open from the verdict to the publication. `deliver` follows: an upload may take
# hours, and other commands may read meanwhile.
CLOSING: tuple[Phase, ...] = (conclude, tidy, gather, list_files, publish)


def advance(state: AttemptState, phases: Iterable[Phase]) -> AttemptState:
    """Return the state after some phases."""
    for phase in phases:
        state = phase(state)
    return state
