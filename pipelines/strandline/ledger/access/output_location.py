"""Resolves the absolute location of a pipeline's outputs, and claims the ledger with it.

The driver, its workers, and every command resolve the location here, so they always agree.
"""

from __future__ import annotations

import os

from strandline.ledger.access.lease import Claim, OnChange
from strandline.ledger.output_root import OutputRoot
from strandline.plan.pipeline import PipelinePlan
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import resolve_location


def locate_outputs(plan: PipelinePlan, folder: PipelineFolder) -> str:
    """Return the folder or URL of the outputs, independent of the working directory."""
    return str(folder.output) if plan.output is None else resolve_location(plan.output)


def find_location(plan: PipelinePlan, folder: PipelineFolder) -> OutputRoot:
    """Return the location of the outputs in the form that the ledger records."""
    location, own = locate_outputs(plan, folder), str(folder.output)
    # Record no path for the folder beside the ledger, because that folder moves with the ledger.
    # Compare real paths, because the path may have several spellings.
    is_own = location in {own, os.path.realpath(own)}
    return OutputRoot(None if is_own else location, own, f"{plan.stages[-1].name}.with.path")


def make_claim(
    plan: PipelinePlan,
    folder: PipelineFolder,
    on_change: OnChange = OnChange.FAIL,
    rejoins: str | None = None,
) -> Claim:
    """Return the claim on the ledger in the pipeline's folder. For `rejoins`, see `Claim`."""
    name = f"{plan.namespace}/{plan.name}"
    location = find_location(plan, folder)
    dropping = tuple(stage.name for stage in plan.stages if stage.on_error == "drop")
    return Claim(name, plan.run_id, plan.fingerprint, on_change, location, dropping, rejoins)


def is_own(location: OutputRoot) -> bool:
    """Return True if the outputs are in the folder beside the ledger, which owns all its files."""
    return location.url is None
