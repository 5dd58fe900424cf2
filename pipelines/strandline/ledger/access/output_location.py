"""Where a pipeline's outputs go, made absolute once; and the claim on a ledger that says so.

All that need the place ask here, so that the driver, its workers and every command mean the same.
"""

from __future__ import annotations

import os

from strandline.ledger.access.lease import Claim, OnChange
from strandline.ledger.output_root import OutputRoot
from strandline.plan.pipeline import PipelinePlan
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import resolve_location


def locate_outputs(plan: PipelinePlan, folder: PipelineFolder) -> str:
    """Return folder or URL of the outputs, the same from every working directory."""
    return str(folder.output) if plan.output is None else resolve_location(plan.output)


def find_location(plan: PipelinePlan, folder: PipelineFolder) -> OutputRoot:
    """Return the place as the ledger in the pipeline's folder knows it."""
    location, own = locate_outputs(plan, folder), str(folder.output)
    # The folder beside the ledger moves with it, however it is spelled.
    is_own = location in {own, os.path.realpath(own)}
    return OutputRoot(None if is_own else location, own, f"{plan.stages[-1].name}.with.path")


def make_claim(
    plan: PipelinePlan,
    folder: PipelineFolder,
    on_change: OnChange = OnChange.FAIL,
    rejoins: str | None = None,
) -> Claim:
    """Return what the ledger in the pipeline's folder must fit; `rejoins` as in `Claim`."""
    name = f"{plan.namespace}/{plan.name}"
    location = find_location(plan, folder)
    dropping = tuple(stage.name for stage in plan.stages if stage.on_error == "drop")
    return Claim(name, plan.run_id, plan.fingerprint, on_change, location, dropping, rejoins)


def is_own(location: OutputRoot) -> bool:
    """Return whether it is the folder beside the ledger: what lies there is its own."""
    return location.url is None
