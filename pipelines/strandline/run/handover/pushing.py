"""Pushes a data set in one piece, while the ledger is held so that no run changes it meanwhile."""

from __future__ import annotations

from collections.abc import Callable

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
_CLIENT = "huggingface_hub"


def push(
    plan: PipelinePlan,
    folder: PipelineFolder,
    target: str,
    card: Callable[[], bytes],
    sleep: Callable[[float], None],
) -> PushResult:
    """Push what the last attempt of a pipeline has left.

    Args:
        target: `hf://datasets/ORG/NAME[@branch]`, a folder, or a URL of a store.
        card: makes the README of the data set.
        sleep: waits for seconds, where a server is busy.

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
            return _ship(shipment, Contents(location), target, sleep)


def _ship(
    shipment: Shipment, contents: Contents, target: str, sleep: Callable[[float], None]
) -> PushResult:
    if not target.startswith(HUB):
        location = resolve_location(target)
        inside = f"{contents.location}/"
        if f"{location}/".startswith(inside) or inside.startswith(f"{location}/"):
            raise BadTargetError(f"{target}: the data set itself lies there; name another place")
        return push_to_folder(shipment, contents, location)
    if list_missing([_CLIENT]):
        raise BadTargetError(f"{target}: needs a package that is not here; {advise(_CLIENT)}")
    # A library that only some targets need is loaded where one is pushed to.
    from strandline.run.handover.hub import parse_target, push_to_hub  # noqa: PLC0415

    return push_to_hub(shipment, contents, parse_target(target), sleep)
