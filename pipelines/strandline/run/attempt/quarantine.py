"""Taking sources out of quarantine by hand, between two attempts.

What is in quarantine and what a release does to it is the ledger's to know; this room sees to it
that nobody else writes meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection

from strandline.ledger.quarantine import release
from strandline.ledger.store.store import Store
from strandline.run.attempt.takeover import make_claimant, written_alone
from strandline.storage.layout import PipelineFolder


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
    Store(folder.ledger, readonly=True).close()  # or one would be made where there is none
    with written_alone(folder, make_claimant()) as store:
        return release(store, keys)
