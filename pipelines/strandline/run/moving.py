"""Outputs whose place was changed by hand: moved, or taken from a ledger that is gone.

What was moved is proved to be all there before the ledger believes it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from strandline.ledger.errors import LedgerError
from strandline.ledger.lease import OnChange, refuse_changes
from strandline.ledger.placing import find_other_changes, knows_place, name_old, record_place
from strandline.ledger.store.store import Store
from strandline.ledger.verification import Verdict, verify
from strandline.plan.pipeline import PipelinePlan
from strandline.run.attempt.placing import find_placing, is_own, make_claim, place_outputs
from strandline.run.attempt.takeover import (
    held_by_hand,
    make_claimant,
    read_ledger_id,
    written_alone,
)
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.ownership import (
    Owner,
    PlaceTakenError,
    UnreadablePlaceError,
    read_owner,
    refuse_other,
    release_place,
    seize_place,
    take_place,
)
from strandline.storage.outputs.remote import open_outputs


class Moved(NamedTuple):
    """What became of a move.

    Attributes:
        old: where the outputs were; None where the ledger is of a release that did not keep it.
        new: where the pipeline says they are.
        verdict: of what is there; where it found problems, the ledger stays as it was.
    """

    old: str | None
    new: str
    verdict: Verdict


def move_outputs(plan: PipelinePlan, folder: PipelineFolder, *, reads_bytes: bool = True) -> Moved:
    """Have the ledger know that its outputs are where the plan says, if they are.

    Args:
        reads_bytes: see `verify`.

    Raises:
        LedgerError: there is no ledger, a driver is alive, or more has changed than the place.
        PlaceTakenError: the place is another ledger's.
        VolumeError: the ledger can't be written, or the place can't be read.
    """
    Store(folder.ledger, readonly=True).close()  # or one would be made where there is none
    claimant, placing = make_claimant(), find_placing(plan, folder)
    with written_alone(folder, claimant) as store:
        refuse_changes(store, make_claim(plan, folder, OnChange.CONTINUE))  # of its owner alone
        changed = find_other_changes(store, plan.fingerprint, placing)
        if changed:
            lines = "\n".join(f"  {line}" for line in changed)
            msg = f"the pipeline has changed otherwise too:\n{lines}\nmove the outputs first"
            raise LedgerError(msg)
        with held_by_hand(store, claimant):
            place, old = place_outputs(plan, folder), name_old(store, placing)
            owner = Owner(read_ledger_id(store), f"{plan.namespace}/{plan.name}")
            refuse_other(place, read_owner(place), owner, inherits=is_own(placing))
            verdict = verify(store, open_outputs(place), reads_bytes=reads_bytes)
            if not verdict.problems:
                store.require_lease()  # no transaction can do the next step
                take_place(place, owner, inherits=is_own(placing))
                is_left = knows_place(store) and old not in {None, place}
                record_place(store, plan.fingerprint, placing)
                if is_left:
                    # It may be gone altogether, or its store not be there to be asked.
                    with suppress(VolumeError, PlaceTakenError, UnreadablePlaceError):
                        release_place(str(old), owner)
    return Moved(old, place, verdict)


def seize_outputs(plan: PipelinePlan, folder: PipelineFolder) -> Owner | None:
    """Make the plan's place of outputs its ledger's, whoever's it was; that one, if any.

    Raises:
        LedgerError: there is no ledger, or a driver is alive.
        VolumeError: the place or the ledger can't be written to.
    """
    Store(folder.ledger, readonly=True).close()  # see above
    place = place_outputs(plan, folder)
    with written_alone(folder, make_claimant()) as store:
        refuse_changes(store, make_claim(plan, folder, OnChange.CONTINUE))  # see above
        owner = Owner(read_ledger_id(store), f"{plan.namespace}/{plan.name}")
        found = None
        with suppress(PlaceTakenError):  # a file that says nothing
            found = read_owner(place)
        seize_place(place, owner)
    return None if found == owner else found
