"""Pushes a data set in one piece, while the ledger is held so that no run changes it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from strandline.ledger.session import require_ledger
from strandline.plan.packages import advise, list_missing
from strandline.plan.pipeline import PipelinePlan
from strandline.run.attempt.output_location import locate_outputs
from strandline.run.attempt.takeover import hold_by_command, make_claimant, written_alone
from strandline.run.handover.contents import Contents
from strandline.run.handover.errors import BadTargetError
from strandline.run.handover.folder import push_to_folder
from strandline.run.handover.reading import read_shipment
from strandline.run.handover.shipment import PushResult, Shipment
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import resolve_location

HUB = "hf://"
DELTA, ICEBERG, LANCE = "delta", "iceberg", "lance"
_AT_LOCATIONS = frozenset({DELTA, LANCE})


class PushClock(NamedTuple):
    """What tells the time, in seconds since the epoch, and what waits for seconds."""

    time: Callable[[], float]
    sleep: Callable[[float], None]


def push(
    plan: PipelinePlan,
    folder: PipelineFolder,
    target: str,
    card: Callable[[], bytes],
    clock: PushClock,
) -> PushResult:
    """Push what the last attempt of a pipeline has left.

    Args:
        target: `hf://datasets/ORG/NAME[@branch]`, `delta:` or `lance:` and the folder or
            URL of a table, `iceberg:CATALOG/NAMESPACE.TABLE`, or a folder or URL for files.
        card: makes the README of the data set.
        clock: is asked for the time of a commit, and waits where a server is busy.

    Raises:
        LedgerError: there is no ledger, or a run is alive.
        UnfitForPushError, RequirementsError: it is not what a complete run has left.
        BadTargetError, TargetRefusedError, VolumeError: the target.
    """
    require_ledger(folder.ledger)
    claimant, location = make_claimant(), locate_outputs(plan, folder)
    content = card()
    with written_alone(folder, claimant) as store:
        shipment = read_shipment(store, plan, folder, content)
        with hold_by_command(store, folder, claimant):
            return _ship(shipment, Contents(location), target, clock)


def _ship(shipment: Shipment, contents: Contents, target: str, clock: PushClock) -> PushResult:
    if target.startswith(HUB):
        _require(target, "huggingface_hub")
        # A library that only some targets need is loaded where one is pushed to.
        from strandline.run.handover.hub import parse_target, push_to_hub  # noqa: PLC0415

        return push_to_hub(shipment, contents, parse_target(target), clock.sleep)
    kind, _, rest = target.partition(":")
    if kind == ICEBERG:
        _require(target, "pyiceberg")
        from strandline.run.handover.tables.iceberg import push_to_iceberg  # noqa: PLC0415

        return push_to_iceberg(shipment, contents, rest)
    location = resolve_location(rest if kind in _AT_LOCATIONS else target)
    inside = f"{contents.location}/"
    if f"{location}/".startswith(inside) or inside.startswith(f"{location}/"):
        raise BadTargetError(f"{target}: the data set itself lies there; name another place")
    if kind == DELTA:
        _require(target, "deltalake")
        from strandline.run.handover.tables.delta import push_to_delta  # noqa: PLC0415

        return push_to_delta(shipment, contents, location, clock.time)
    if kind == LANCE:
        _require(target, "lance")
        from strandline.run.handover.tables.lance import push_to_lance  # noqa: PLC0415

        return push_to_lance(shipment, contents, location)
    return push_to_folder(shipment, contents, location)


def _require(target: str, module: str) -> None:
    """Refuse a target without its client on this machine."""
    if list_missing([module]):
        raise BadTargetError(f"{target}: needs a package that is not here; {advise(module)}")
