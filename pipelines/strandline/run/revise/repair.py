"""Makes finished sources that have lost files unfinished, and releases sources from quarantine."""

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
    """Make sources with missing or damaged files unfinished, so that the next attempt repeats them.

    Args:
        location: folder or URL of the outputs.
        is_trial: only report the damage.

    Raises:
        LedgerError: if there is no ledger, or a driver is alive.
        VolumeError: if the ledger is not writable.
    """
    with opened_to_read(folder.ledger) as store:
        if is_trial:  # also possible on a read-only volume, and during a run
            return _find_damage(store, folder, location)[0]
    with written_alone(folder, make_claimant()) as store:
        return set_back_damage(store, folder, location)


def set_back_damage(store: Store, folder: PipelineFolder, location: str) -> Damage:
    """Make damaged sources unfinished in one transaction, under a lease that the caller holds."""
    damage, is_merged_hurt = _find_damage(store, folder, location)
    # A higher number of drops marks the merged files as invalid, so the next run rebuilds them.
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
    """Return the damage, and whether merged statistics are damaged."""
    hurt, is_merged_hurt = find_hurt(store, folder.shards)
    return find_damage(store, open_outputs(location), hurt), is_merged_hurt


def release_sources(folder: PipelineFolder, keys: Collection[str] | None) -> list[str]:
    """Release sources from quarantine, so that the next attempt treats them like new sources.

    Args:
        keys: keys of the sources, or None for all quarantined sources.

    Returns:
        The keys of the released sources, in order.

    Raises:
        UnknownSourceError: if some sources are not quarantined. In this case, no source is
            released.
        LedgerError: if there is no ledger, or a driver is alive.
        VolumeError: if the ledger is not writable.
    """
    require_ledger(folder.ledger)
    with written_alone(folder, make_claimant()) as store:
        return release(store, keys)
