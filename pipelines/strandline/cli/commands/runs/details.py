"""Reads from a closed attempt's ledger what its summary adds to the engine's own counts."""

from __future__ import annotations

from itertools import islice

from strandline.cli.app.ledger_access import looking
from strandline.cli.views.summary import Details, Written
from strandline.ledger.errors import LedgerError
from strandline.ledger.store.store import Store
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder

FAILURES_LISTED = 20
COUNTED_AT_MOST = 100_000


def read_details(folder: PipelineFolder, attempt: int) -> Details:
    """What failed in `attempt`, and what lies in the output where that is quickly told."""
    try:
        with looking(folder) as store:
            failures = (entry for _, entry in store.list_failures() if entry.attempt == attempt)
            parked = (entry for _, entry in store.list_parked() if entry.attempt == attempt)
            return Details(
                tuple(islice(failures, FAILURES_LISTED)),
                _count_written(store),
                tuple(islice(parked, FAILURES_LISTED)),
            )
    except (LedgerError, VolumeError):  # the attempt has ended well; its summary must not fail it
        return Details()


def _count_written(store: Store) -> Written | None:
    if store.count()["finished"] > COUNTED_AT_MOST:
        return None
    outputs = [output for _, _, record in store.list_records() for output in record.outputs]
    return Written(len(outputs), sum(output.size for output in outputs))
