"""Sets finished sources back that lost files, and quarantined sources that get another try."""

from __future__ import annotations

from collections.abc import Collection

from strandline.ledger.access.commands import make_claimant, written_alone
from strandline.ledger.access.session import opened_to_read, require_ledger
from strandline.ledger.checks.verification import Damage, find_damage
from strandline.ledger.gather.verification import find_hurt
from strandline.ledger.quarantine import release
from strandline.ledger.records.entries import LISTED, Change
from strandline.ledger.store.store import Store
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import open_outputs


def repair_outputs(folder: PipelineFolder, location: str, *, is_trial: bool = False) -> Damage:
    """Have the next attempt do again what is missing or hurt, in one transaction.

    Args:
        location: folder or URL of the outputs.
        is_trial: only tell what would be done.

    Raises:
        LedgerError: there is no ledger, or a driver is alive.
        VolumeError: the ledger can't be written.
    """
    with opened_to_read(folder.ledger) as store:
        if is_trial:  # a trial works where nothing can be written, and beside a run
            return _find_damage(store, folder, location)[0]
    with written_alone(folder, make_claimant()) as store:
        return set_back_damage(store, folder, location)


def set_back_damage(store: Store, folder: PipelineFolder, location: str) -> Damage:
    """Set back what is missing or hurt, in one transaction, under a lease that is held."""
    damage, is_merged_hurt = _find_damage(store, folder, location)
    # Merged files are made anew where something has been dropped since.
    meta: dict[str, int | None] = {}
    if is_merged_hurt:
        meta["drops"] = int(store.read_meta("drops") or 0) + 1
    if damage.is_list_hurt:
        meta[LISTED] = None
    marks = sorted(damage.again.items())
    rewrite = list(damage.lighter)
    store.write(Change(mark=marks, rewrite=rewrite, untidy=sorted(damage.untidy), meta=meta))
    outputs = open_outputs(location)
    for source in sorted(damage.orphans):
        outputs.remove_others(source, ())
    return damage


def _find_damage(store: Store, folder: PipelineFolder, location: str) -> tuple[Damage, bool]:
    """Return what is damaged, and whether what was merged of statistics is."""
    hurt, is_merged_hurt = find_hurt(store, folder.shards)
    return find_damage(store, open_outputs(location), hurt), is_merged_hurt


def release_sources(folder: PipelineFolder, keys: Collection[str] | None) -> list[str]:
    """Have the next attempt try quarantined sources anew, as if they had never failed.

    Args:
        keys: of the sources; None: all that are in quarantine.

    Returns:
        The keys that were released, in order.

    Raises:
        UnknownSourceError: some are not in quarantine; none is released.
        LedgerError: there is no ledger, or a driver is alive.
        VolumeError: the ledger can't be written.
    """
    require_ledger(folder.ledger)
    with written_alone(folder, make_claimant()) as store:
        return release(store, keys)
