"""Pushes a data set as a whole, and locks the ledger so that no run changes the data meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from strandline.data.shipments.contents import Contents
from strandline.data.shipments.shipment import Author, BadTargetError, PushResult, Shipment
from strandline.data.tables.formats.changes import TablePush, require_parquet
from strandline.data.tables.formats.registry import (
    FORMATS,
    find_kind,
    load_format,
    locate_table,
    push_to_table,
)
from strandline.data.tables.formats.table_state import require_fit
from strandline.ledger.access.commands import hold_by_command, make_claimant, written_alone
from strandline.ledger.access.output_location import locate_outputs
from strandline.ledger.access.session import LedgerSession, opened_to_read, require_ledger
from strandline.plan.errors import StrandlineError
from strandline.plan.packages import advise, list_missing
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stages.columns import trace_columns
from strandline.run.release.push.folder import push_to_folder
from strandline.run.release.push.reading import read_shipment, require_complete
from strandline.storage.access.protocols import find_lack
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import resolve_location

HUB = "hf://"


class PushClock(NamedTuple):
    """Clock of a push: returns the time in seconds since the epoch, and waits for seconds."""

    time: Callable[[], float]
    sleep: Callable[[float], None]


def push(
    plan: PipelinePlan,
    folder: PipelineFolder,
    target: str,
    card: Callable[[], bytes],
    clock: PushClock,
    *,
    takes_over: bool = False,
) -> PushResult:
    """Push the outputs of a pipeline's last attempt.

    Args:
        target: `hf://datasets/ORG/NAME[@branch]`, `delta:` or `lance:` and the folder or
            URL of a table, `iceberg:CATALOG/NAMESPACE.TABLE`, or a folder or URL for files.
        card: renders the README of the data set.
        clock: returns the time of a commit, and waits while a server is busy.
        takes_over: see `Author`.

    Raises:
        LedgerError: if there is no ledger, or a run is alive.
        UnfitForPushError, RequirementsError: if the outputs are not those of a complete run.
        BadTargetError, TargetRefusedError, VolumeError: if the target is invalid or not writable.
    """
    require_ledger(folder.ledger)
    claimant, location = make_claimant(), locate_outputs(plan, folder)
    content = card()
    with written_alone(folder, claimant) as store:
        shipment = read_shipment(store, plan, folder, content, require_complete(folder))
        shipment = replace(shipment, takes_over=takes_over)
        with hold_by_command(store, folder, claimant):
            return _ship(shipment, Contents(location), target, clock, store.require_lease)


def make_delivery(
    plan: PipelinePlan,
    folder: PipelineFolder,
    target: str,
    card: Callable[[], bytes],
    clock: PushClock,
) -> Callable[[LedgerSession], str]:
    """Return a function that pushes the outputs at the end of an attempt, under its lease.

    Raises:
        BadTargetError, TargetRefusedError: if the target can't be used, regardless of the outputs.
    """
    location = locate_outputs(plan, folder)
    check_target(target, location)
    kind = find_kind(target)
    if kind is not None:
        _check_table(kind, target, plan, folder)

    def deliver(session: LedgerSession) -> str:
        content = card()
        with session.open() as store:
            shipment = read_shipment(store, plan, folder, content, session.attempt)
            # If the attempt has lost its lease, it must not publish beside the new lease holder.
            fence = store.require_lease
            return _ship(shipment, Contents(location), target, clock, fence).describe()

    return deliver


def check_target(target: str, outputs: str) -> None:
    """Reject a target that can't receive the data set.

    Args:
        outputs: folder or URL of the data set itself.

    Raises:
        BadTargetError: if the target overlaps with the data set, its package is missing, or its
            protocol is unknown.
    """
    kind = find_kind(target)
    if target.startswith(HUB):
        _require(target, "huggingface_hub")
        return
    if kind is not None:
        _require(target, FORMATS[kind].package)
        if not FORMATS[kind].is_location:
            return
    lack = find_lack(target if kind is None else locate_table(target))
    if lack is not None:
        raise BadTargetError(f"{target}: {lack.message}; {lack.hint}")
    # Compare with a final slash, because `/data2` is not inside `/data`.
    location, inside = _locate(kind, target), f"{outputs.rstrip('/')}/"
    if f"{location}/".startswith(inside) or inside.startswith(f"{location}/"):
        raise BadTargetError(
            f"{target}: this is the location of the data set itself; name another target"
        )


def _check_table(kind: str, target: str, plan: PipelinePlan, folder: PipelineFolder) -> None:
    """Reject a table that, according to a check before the run, can't receive the outputs."""
    require_parquet(target, plan.sink.suffix)
    module = load_format(kind)
    try:
        state = module.inspect(locate_table(target))
    except StrandlineError:
        raise
    except Exception:  # noqa: BLE001 - catalogues and stores have errors of their own
        # If the catalog is unavailable now, it may be available at the end of the run.
        return
    if state is not None:
        stages = ((each.name, each.stage) for each in (plan.source, *plan.stages))
        *_, sink = trace_columns(stages)
        author = Author(f"{plan.namespace}/{plan.name}", _find_ledger_id(folder))
        require_fit(state, author, sink.before, plan.fingerprint.digest)


def _find_ledger_id(folder: PipelineFolder) -> str:
    """Return the ID of a pipeline's ledger, or an empty string if there is no ledger yet."""
    if not folder.ledger.exists():
        return ""
    with opened_to_read(folder.ledger) as store:
        return str(store.read_meta("id") or "")


def _locate(kind: str | None, target: str) -> str:
    return resolve_location(target) if kind is None else locate_table(target)


def _ship(
    shipment: Shipment,
    contents: Contents,
    target: str,
    clock: PushClock,
    fence: Callable[[], None],
) -> PushResult:
    check_target(target, contents.location)
    kind = find_kind(target)
    if kind is not None:
        name = locate_table(target)
        return push_to_table(kind, TablePush(shipment, contents, name, clock.time, fence))
    if target.startswith(HUB):
        # Only some targets need this library, so import it late.
        from strandline.run.release.push.hub import parse_target, push_to_hub  # noqa: PLC0415

        return push_to_hub(shipment, contents, parse_target(target), clock.sleep, fence)
    return push_to_folder(shipment, contents, resolve_location(target), fence)


def _require(target: str, module: str) -> None:
    """Reject a target whose client is not installed."""
    if list_missing([module]):
        raise BadTargetError(f"{target}: needs a package that is not installed; {advise(module)}")
