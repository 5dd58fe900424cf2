"""Parses pipelines and attempts from their objects. Problems are returned, not raised.

Most objects are read again with an unchanged spec. Parsing the spec is the slowest part, so the
parsed spec is reused. This module must not depend on the meaning of a spec.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import ValidationError

from strandline_api.documents.problems import SpecError
from strandline_api.documents.stored import describe_unknown, parse_stored_pipeline
from strandline_api.objects.attempt import AttemptSpec, parse_attempt_status
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.status.pipeline_status import parse_status
from strandline_operator.cluster.api import Body
from strandline_operator.integrations.schedulers import list_annotations
from strandline_operator.model.objects import Meta
from strandline_operator.model.view import AttemptObject, PipelineView

_LOGGER = logging.getLogger(__name__)


class ReadSpec(NamedTuple):
    """A spec, or its problems as sentences, and the paths of ignored fields."""

    spec: PipelineSpec | None
    problems: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def read_pipeline(body: Body, before: PipelineView | None = None) -> PipelineView:
    """Return a pipeline from its object.

    Args:
        before: the pipeline as it was last read, or None.
    """
    meta, manifest = Meta.read(body), cut_manifest(body)
    if before is not None and before.manifest == manifest:
        manifest, spec = before.manifest, ReadSpec(before.spec, before.problems, before.unknown)
    else:
        spec = read_spec(manifest)
        _log_unknown(meta, spec.unknown)
    status = parse_status(body.get("status"))
    return PipelineView(
        meta=meta,
        spec=spec.spec,
        problems=spec.problems,
        unknown=spec.unknown,
        status=status,
        has_status=status.is_seen,
        manifest=manifest,
    )


def read_attempt(body: Body) -> AttemptObject | None:
    """Return an attempt from its object, or None if no Strandline operator can have created it."""
    try:
        spec = AttemptSpec.parse(body.get("spec"))
    except ValidationError:
        return None
    return AttemptObject(Meta.read(body), spec, parse_attempt_status(body.get("status")))


def cut_manifest(body: Body) -> Mapping[str, object]:
    """Return the part of a pipeline that attempts use, without fields that change during a run."""
    meta, stored = Meta.read(body), body.get("metadata")
    labels = stored.get("labels") if isinstance(stored, dict) else None
    metadata = {"name": meta.name, "namespace": meta.namespace, "labels": labels or {}}
    # Copy only some annotations to a RayJob. Other annotations belong to deployment tools, or
    # request retries.
    annotations = {
        name: meta.annotations[name] for name in list_annotations() if name in meta.annotations
    }
    return {
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "metadata": {**metadata, "annotations": annotations} if annotations else metadata,
        "spec": body.get("spec"),
    }


def read_spec(manifest: Mapping[str, object]) -> ReadSpec:
    """Parse the spec in a manifest with apiVersion, kind, metadata, and spec."""
    try:
        pipeline, unknown = parse_stored_pipeline(manifest)
    except SpecError as error:
        return ReadSpec(None, tuple(map(str, error.problems)))
    return ReadSpec(pipeline.spec, (), unknown)


def _log_unknown(meta: Meta, unknown: tuple[str, ...]) -> None:
    """Log ignored fields once per parsed spec, because users may overlook a condition."""
    if unknown:
        key = f"{meta.namespace}/{meta.name}"
        text = describe_unknown("this operator", unknown)
        _LOGGER.warning("%s", text, extra={"pipeline": key})
