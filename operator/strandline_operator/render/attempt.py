"""Renders the attempt object, and the claim for a pipeline's ledger."""

from __future__ import annotations

from typing import Any

from strandline_api.names import API_VERSION, ATTEMPT, PIPELINE, name_attempt, name_claim
from strandline_api.objects.attempt import AttemptSpec
from strandline_operator.model.plan import Manifest
from strandline_operator.model.view import PipelineView
from strandline_operator.render.order import label_attempt, label_pipeline


def render_attempt(pipeline: PipelineView, spec: AttemptSpec) -> Manifest:
    """Render a CurationAttempt, which is deleted together with its pipeline."""
    meta = pipeline.meta
    return {
        "apiVersion": API_VERSION,
        "kind": ATTEMPT.name,
        "metadata": {
            "name": name_attempt(meta.name, spec.number),
            "namespace": meta.namespace,
            "labels": label_attempt(meta.name, meta.uid, spec.number),
            "ownerReferences": [render_owner(pipeline)],
        },
        "spec": spec.to_json(),
    }


def render_claim(pipeline: PipelineView) -> Manifest:
    """Render the ledger's claim. It is deleted with the pipeline only if the spec requests it."""
    assert pipeline.spec is not None  # no claim is created for an invalid pipeline
    meta, storage = pipeline.meta, pipeline.spec.storage
    metadata: dict[str, Any] = {
        "name": name_claim(meta.name),
        "namespace": meta.namespace,
        "labels": label_pipeline(meta.name, meta.uid),
    }
    if storage.retention == "Delete":
        metadata["ownerReferences"] = [render_owner(pipeline)]
    spec: dict[str, Any] = {
        "accessModes": [storage.ledger.access_mode],
        "resources": {"requests": {"storage": storage.ledger.claim_size}},
    }
    if storage.ledger.storage_class_name is not None:
        spec["storageClassName"] = storage.ledger.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
    }


def render_owner(pipeline: PipelineView) -> dict[str, Any]:
    """Render the owner reference to the pipeline, for objects to be deleted with the pipeline."""
    return render_pipeline_owner(pipeline.meta.name, pipeline.meta.uid)


def render_pipeline_owner(name: str, uid: str) -> dict[str, Any]:
    """Render the owner reference from the pipeline's name and uid."""
    return {
        "apiVersion": API_VERSION,
        "kind": PIPELINE.name,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
