"""Reads the facts of a card: the ledger's records of files, and the facts of a report.

The module changes nothing.
"""

from __future__ import annotations

from itertools import islice

from strandline.cli.app.ledger_access import looking
from strandline.cli.card.facts import NAMED, CardFacts
from strandline.cli.report.reading import read_facts
from strandline.ledger.access.lease import find_changes
from strandline.ledger.access.output_location import make_claim
from strandline.ledger.checks.counts import count_sources
from strandline.ledger.errors import LedgerError
from strandline.ledger.output_root import list_out
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.run.revise.cuts.auto_cuts import read_choice
from strandline.storage.layout import PipelineFolder


def read_card(
    plan: PipelinePlan, folder: PipelineFolder, time: float, title: str, license_id: str | None
) -> CardFacts:
    """Return all facts for the card of a pipeline's data set.

    Args:
        time: current time, in seconds since the epoch.
        title: title of the data set.
        license_id: license of the data set, or None.

    Raises:
        LedgerError: the ledger is missing or unreadable, or another pipeline wrote it.
        VolumeError: the folder can't be read.
    """
    with looking(folder) as store:
        # Reject a pipeline that was edited after the rows were written, because the card would list
        # parameters that did not produce the rows.
        changes = find_changes(store, make_claim(plan, folder))
        if changes:
            msg = (
                "the pipeline is not the one that wrote this data set; `strandline plan` shows "
                f"what has changed: {changes[0]}"
            )
            raise LedgerError(msg)
        ledger, names = str(store.read_meta("id") or ""), _name_files(store)
        cuts = tuple(cut.stage for cut in read_choice(store).judged if cut.is_kept)
    return CardFacts(title, license_id, ledger, read_facts(plan, folder, time), cuts, names)


def _name_files(store: Store) -> tuple[str, ...] | None:
    """Return the file names if the folder may also contain files of unfinished sources, or None."""
    states = count_sources(store)
    if not (states["failed"] or states["inflight"] or states["quarantined"]):
        return None
    # Read one more name than a card can list, so that the card detects the excess.
    return tuple(output.name for output in islice(list_out(store), NAMED + 1))
