"""Adopts outputs at another location: outputs that a user has moved, or outputs of a lost ledger.

Moved outputs are verified as complete before the ledger records the new location.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from strandline.ledger.access.commands import (
    hold_by_command,
    make_claimant,
    read_ledger_id,
    written_alone,
)
from strandline.ledger.access.lease import OnChange, refuse_changes
from strandline.ledger.access.output_location import (
    find_location,
    is_own,
    locate_outputs,
    make_claim,
)
from strandline.ledger.access.session import require_ledger
from strandline.ledger.checks.verification import VerificationResult, verify
from strandline.ledger.errors import LedgerError
from strandline.ledger.output_root import (
    find_other_changes,
    knows_location,
    name_old,
    record_location,
)
from strandline.ledger.records.entries import LISTED, Change
from strandline.plan.pipeline import PipelinePlan
from strandline.storage.access.refusals import CredentialsRefusedError
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.ownership import (
    Owner,
    PlaceTakenError,
    UnreadablePlaceError,
    claim_location,
    read_owner,
    refuse_other,
    release_location,
    take_over_location,
)
from strandline.storage.outputs.remote import open_outputs

# Errors to ignore at the old location, which may be deleted or unreachable.
_UNRELEASED = (VolumeError, PlaceTakenError, UnreadablePlaceError, CredentialsRefusedError)


class MoveResult(NamedTuple):
    """The result of a move.

    Attributes:
        old: the previous location, or None if the ledger's release did not record it.
        new: the location in the pipeline.
        verdict: verification of the outputs. The ledger is unchanged if there are problems.
    """

    old: str | None
    new: str
    verdict: VerificationResult


def move_outputs(
    plan: PipelinePlan, folder: PipelineFolder, *, reads_bytes: bool = True
) -> MoveResult:
    """Record the location in the plan as the location of the outputs, if the outputs are there.

    Args:
        reads_bytes: see `verify`.

    Raises:
        LedgerError: if there is no ledger, a driver is alive, or the pipeline has other changes
            too.
        PlaceTakenError: if another ledger owns the location.
        VolumeError: if the ledger is not writable, or the location is not readable.
    """
    require_ledger(folder.ledger)
    claimant, recorded = make_claimant(), find_location(plan, folder)
    with written_alone(folder, claimant) as store:
        # Reject the ledger of another pipeline first.
        refuse_changes(store, make_claim(plan, folder, OnChange.CONTINUE))
        changed = find_other_changes(store, plan.fingerprint, recorded)
        if changed:
            lines = "\n".join(f"  {line}" for line in changed)
            msg = f"the pipeline has other changes too:\n{lines}\nmove the outputs first"
            raise LedgerError(msg)
        with hold_by_command(store, folder, claimant):
            location, old = locate_outputs(plan, folder), name_old(store, recorded)
            owner = Owner(read_ledger_id(store), f"{plan.namespace}/{plan.name}")
            refuse_other(location, read_owner(location), owner, inherits=is_own(recorded))
            verdict = verify(
                store, open_outputs(location), reads_bytes=reads_bytes, judges_list=False
            )
            if not verdict.problems:
                store.require_lease()  # the next step is outside of any transaction
                # Claim the location first: after a crash between the two steps, the move can be
                # repeated.
                claim_location(location, owner, inherits=is_own(recorded))
                # Read the old location before the next line overwrites it.
                is_left = knows_location(store) and old not in {None, location}
                record_location(store, plan.fingerprint, recorded)
                store.write(Change(meta={LISTED: None}))  # the next run writes the list there
                if is_left:
                    with suppress(*_UNRELEASED):
                        release_location(str(old), owner)
    return MoveResult(old, location, verdict)


def seize_outputs(plan: PipelinePlan, folder: PipelineFolder) -> Owner | None:
    """Make the ledger the owner of the plan's location. Return the previous owner, if any.

    Raises:
        LedgerError: if there is no ledger, or a driver is alive.
        VolumeError: if the location or the ledger is not writable.
    """
    require_ledger(folder.ledger)
    location = locate_outputs(plan, folder)
    with written_alone(folder, make_claimant()) as store:
        refuse_changes(store, make_claim(plan, folder, OnChange.CONTINUE))  # see `move_outputs`
        owner = Owner(read_ledger_id(store), f"{plan.namespace}/{plan.name}")
        found = None
        with suppress(PlaceTakenError):  # the owner file may be unreadable
            found = read_owner(location)
        take_over_location(location, owner)
    return None if found == owner else found
