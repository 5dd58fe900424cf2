"""Reads the shipment of a push from the ledger, and rejects outputs of incomplete runs."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from strandline.data.files.opening import open_binary
from strandline.data.shipments.shipment import (
    RequirementsError,
    Shipment,
    ShippedFile,
    UnfitForPushError,
)
from strandline.ledger.access.commands import read_ledger_id
from strandline.ledger.access.lease import find_changes
from strandline.ledger.access.output_location import locate_outputs, make_claim
from strandline.ledger.checks.completeness import find_gaps
from strandline.ledger.errors import LedgerError
from strandline.ledger.records.entries import LISTED
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.run.insight.records import find_last
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.hashing import DIGEST_BYTES
from strandline.storage.outputs.names import INDEX, name_output, name_shared
from strandline.storage.outputs.remote import open_outputs
from strandline_api.outcome.exit_codes import ExitCode


def read_shipment(
    store: Store, plan: PipelinePlan, folder: PipelineFolder, card: bytes, attempt: int
) -> Shipment:
    """Return the outputs of a pipeline's attempt, which must have ended.

    Args:
        store: the ledger, without other writers.
        card: README of the data set.
        attempt: number of the last attempt.

    Raises:
        LedgerError: if another pipeline wrote the ledger.
        UnfitForPushError: if the data set is incomplete according to the ledger or its files.
    """
    changes = find_changes(store, make_claim(plan, folder))
    if changes:
        raise LedgerError(f"the pipeline is not the one that wrote this data set: {changes[0]}")
    location = locate_outputs(plan, folder)
    gap = next(find_gaps(store, open_outputs(location)).list_sentences(), None)
    if gap is not None:
        raise UnfitForPushError(f"the data set is not complete: {gap}")
    files = tuple(sorted(_list_files(store)))
    return Shipment(
        pipeline=f"{plan.namespace}/{plan.name}",
        run=plan.run_id,
        fingerprint=plan.fingerprint.digest,
        ledger=read_ledger_id(store),
        attempt=attempt,
        files=files,
        card=card,
        index=_read_index(store, location),
        recipe=plan.fingerprint.parts,
    )


def _read_index(store: Store, location: str) -> bytes | None:
    """Return the index next to the files, or None if there is no index.

    Check it against the ledger.
    """
    listed = store.read_meta(LISTED) or {}
    if "index" not in listed:
        return None
    try:
        with open_binary(f"{location.rstrip('/')}/{INDEX}") as file:
            content = file.read()
    except FileNotFoundError:
        raise UnfitForPushError(f"{INDEX} is missing; run the pipeline again") from None
    if blake2b(content, digest_size=DIGEST_BYTES).hexdigest() != listed["index"]:
        raise UnfitForPushError(f"{INDEX} has changed since it was written; `verify` shows details")
    return content


def require_complete(folder: PipelineFolder) -> int:
    """Return the number of the last attempt, which must be complete.

    Raises:
        RequirementsError: if the attempt did not meet the requirements for publishing.
        UnfitForPushError: if the attempt did not complete.
    """
    last = find_last(folder)
    if last is None:
        raise UnfitForPushError("the pipeline has not run yet, so there is nothing to push")
    outcome = last.outcome
    if outcome is not None and outcome.exit_code == ExitCode.REQUIREMENTS_NOT_MET:
        raise RequirementsError(f"attempt {last.number} is {outcome.message}")
    if outcome is None or outcome.exit_code != ExitCode.COMPLETE:
        why = "has not ended" if outcome is None else f"ended with {outcome.outcome}"
        raise UnfitForPushError(
            f"attempt {last.number} {why}, so the data set may be incomplete; run the pipeline to "
            "its end"
        )
    return last.number


def _list_files(store: Store) -> Iterator[ShippedFile]:
    for source, _, record in store.list_records():
        for output in record.data:
            if output.part is None:
                name = name_output(source, output)
                yield ShippedFile(name, output.size, output.digest, output.rows)
    for file, facts in store.list_shared():
        if facts.live != facts.rows:
            raise UnfitForPushError(
                f"{name_shared(file, facts.suffix)} has rows that belong to no source; run the "
                "pipeline again"
            )
        rows = facts.live
        for suffix, size, digest in facts.list_files():
            yield ShippedFile(name_shared(file, suffix), size, digest, rows)
            rows = 0  # count the rows once, for the first file of a part
