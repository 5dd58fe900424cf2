"""Facts from the ledger for the summary of an attempt."""

from __future__ import annotations

from itertools import islice

from strandline.cli.app.ledger_access import looking
from strandline.cli.views.summary import Details, WrittenFiles
from strandline.ledger.checks.counts import count_data
from strandline.ledger.errors import LedgerError
from strandline.ledger.store.store import Store
from strandline.run.attempt.failures import group_failures, view_quarantined
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder

QUARANTINED_LISTED = 20
# With more sources, counting takes over a second.
COUNTED_AT_MOST = 100_000


def read_details(
    folder: PipelineFolder | None, attempt: int, *, is_packable: bool = False
) -> Details:
    """Return the sources that `attempt` quarantined, and the output's size if counting is fast.

    Args:
        folder: folder of the pipeline; None if there is no ledger.
        is_packable: see `PipelinePlan.is_packable`.
    """
    if folder is None:
        return Details()
    try:
        with looking(folder) as store:
            known = islice(store.list_quarantined(), COUNTED_AT_MOST)
            quarantined = [entry for _, entry in known if entry.attempt == attempt]
            return Details(
                _count_written(store),
                quarantined[:QUARANTINED_LISTED],
                group_failures(map(view_quarantined, quarantined)),
                is_packable,
            )
    except (LedgerError, VolumeError):  # a failed summary must not fail a successful attempt
        return Details()


def _count_written(store: Store) -> WrittenFiles | None:
    if store.count()["finished"] > COUNTED_AT_MOST:
        return None
    data = count_data(store)
    return WrittenFiles(data.files, data.size)
