"""Where a pipeline's outputs go, made absolute once; and the claim on a ledger that says so.

Whoever needs the place asks here, so that the driver, its workers and every command mean the same.
"""

from __future__ import annotations

import os

from strandline.ledger.lease import Claim, OnChange
from strandline.ledger.placing import Placing
from strandline.plan.pipeline import PipelinePlan
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import resolve_place


def place_outputs(plan: PipelinePlan, folder: PipelineFolder) -> str:
    """Folder or URL of the outputs, the same from every working directory."""
    return str(folder.output) if plan.output is None else resolve_place(plan.output)


def find_placing(plan: PipelinePlan, folder: PipelineFolder) -> Placing:
    """The place as the ledger in the pipeline's folder knows it."""
    place, own = place_outputs(plan, folder), str(folder.output)
    # The folder beside the ledger moves with it, however it is spelled.
    is_own = place in {own, os.path.realpath(own)}
    return Placing(None if is_own else place, own, f"{plan.stages[-1].name}.with.path")


def make_claim(
    plan: PipelinePlan, folder: PipelineFolder, on_change: OnChange = OnChange.FAIL
) -> Claim:
    """What the ledger in the pipeline's folder must fit."""
    name = f"{plan.namespace}/{plan.name}"
    return Claim(name, plan.run_id, plan.fingerprint, on_change, find_placing(plan, folder))


def is_own(placing: Placing) -> bool:
    """True for the folder beside the ledger: what lies there is its own, even if it is younger."""
    return placing.url is None
