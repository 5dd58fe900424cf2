"""Locates another pipeline's outputs in pods, and records that pipeline's state.

This module must not depend on the order of pipelines, or on when they are read.
"""

from __future__ import annotations

from strandline_api.names import name_claim
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.spec.namespace_defaults import SpecDefaults
from strandline_api.spec.pod_paths import INPUTS
from strandline_api.spec.predecessors import Reference
from strandline_api.status.inputs import InputRecord
from strandline_operator.model.view import PipelineView
from strandline_operator.render.defaults import fill_in
from strandline_operator.render.order import Input


def record_input(other: PipelineView, defaults: SpecDefaults) -> InputRecord:
    """Record another pipeline's state and output location, which is empty for an invalid spec."""
    spec, meta, status = fill_in(other, defaults), other.meta, other.status
    locations = {} if spec is None else _list_locations(spec, meta.namespace, meta.name)
    return InputRecord(
        pipeline=meta.name,
        uid=meta.uid,
        run=status.run,
        generation=meta.generation,
        published=status.latest,
        **locations,
    )


def _list_locations(spec: PipelineSpec, namespace: str, name: str) -> dict[str, str]:
    ledger = spec.storage.ledger.claim_name or name_claim(name)
    location = spec.output_location
    # A relative path is local to a pod, so other pods can't read it.
    if location is not None:
        return {"ledger_claim": ledger, "output": location if is_shared(location) else ""}
    claim = spec.storage.output.claim_name or ledger
    folder = f"{INPUTS}/{claim}/{namespace}/{name}"
    # On a claim for outputs, the outputs are directly in the pipeline's folder.
    output = folder if claim != ledger else f"{folder}/output"
    return {"ledger_claim": ledger, "output": output, "output_claim": claim}


def is_shared(location: str) -> bool:
    """Return True if a location is the same in all pods, judging by its form."""
    return "://" in location or location.startswith("/")


def locate_input(reference: Reference, record: InputRecord, namespace: str) -> Input:
    """Return the location of a reference, as pods see it."""
    if not reference.artifact:
        return Input(record.output, record.output_claim)
    folder = f"{INPUTS}/{record.ledger_claim}/{namespace}/{record.pipeline}"
    return Input(f"{folder}/latest/artifacts", record.ledger_claim)
