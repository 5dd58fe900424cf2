"""Applies a namespace's defaults to fields that a pipeline does not set.

The module is pure, and each pass applies the defaults again, so the stored pipeline stays as its
user wrote it. Only the output location is recorded with the first attempt, because later defaults
must not move outputs. The module must not depend on where defaults are stored.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline_api.api_model import evolve
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.spec.namespace_defaults import RayDefaults, SpecDefaults
from strandline_api.spec.ray_cluster import RayCluster
from strandline_api.spec.storage import Storage
from strandline_api.status.defaults import DefaultOutput, DefaultsRecord
from strandline_operator.integrations.schedulers import names_priority, names_queue
from strandline_operator.model.view import PipelineView
from strandline_operator.render.pods.overlay import lay_over

NO_DEFAULTS = SpecDefaults()


def fill_in(pipeline: PipelineView, defaults: SpecDefaults) -> PipelineSpec | None:
    """Return the spec with the namespace's defaults, or None if the spec is invalid."""
    spec = pipeline.spec
    if spec is None:
        return None
    storage = _fill_storage(pipeline, spec.storage, find_default_output(pipeline, defaults))
    if defaults.ray == NO_DEFAULTS.ray and storage is spec.storage:
        return spec
    ray = _fill_ray(spec.ray, defaults.ray, pipeline.meta.labels)
    return evolve(spec, ray=ray, storage=storage)


def find_default_output(pipeline: PipelineView, defaults: SpecDefaults) -> DefaultOutput | None:
    """Return the recorded default location of outputs, or else the current default.

    Return None if the pipeline names its own location, or is invalid.
    """
    spec, record = pipeline.spec, pipeline.status.defaults
    if spec is None or spec.output_location is not None or spec.storage.output.claim_name:
        return None
    # Later defaults must not move the outputs of earlier attempts.
    if record is not None and record.output is not None:
        return record.output
    output = defaults.output
    return DefaultOutput(url=output.url or "", claim_name=output.claim_name or "")


def record_output(
    record: DefaultsRecord | None, output: DefaultOutput | None
) -> DefaultsRecord | None:
    """Return the record of defaults with the output location that the attempts use.

    Return None if there is nothing to record.
    """
    after = evolve(record or DefaultsRecord(), output=output)
    return None if after == DefaultsRecord() else after


def _fill_ray(ray: RayCluster, defaults: RayDefaults, labels: Mapping[str, str]) -> RayCluster:
    return evolve(
        ray,
        # Version and pull secrets belong to an image, so use these defaults only with the default
        # image.
        image=ray.image or defaults.image,
        version=ray.version or (None if ray.image else defaults.version),
        image_pull_secrets=ray.image_pull_secrets
        or (() if ray.image else defaults.image_pull_secrets),
        pod_template=lay_over(dict(defaults.pod_template), dict(ray.pod_template)),
        # The operator does not model KubeRay's own options, so use the pipeline's or the defaults,
        # not a mixture.
        auth_options=ray.auth_options or defaults.auth_options,
        tls_options=ray.tls_options or defaults.tls_options,
        gcs_fault_tolerance_options=ray.gcs_fault_tolerance_options
        or defaults.gcs_fault_tolerance_options,
        # If a label of the pipeline names a queue, the default queue does not apply.
        queue_name=ray.queue_name or _unless(names_queue(labels), defaults.queue_name),
        queue_priority_class=ray.queue_priority_class
        or _unless(names_priority(labels), defaults.queue_priority_class),
    )


def _fill_storage(
    pipeline: PipelineView, storage: Storage, output: DefaultOutput | None
) -> Storage:
    # Without a default location, outputs stay on the ledger's claim.
    if output is None or output == DefaultOutput():
        return storage
    meta = pipeline.meta
    # Pipelines must not share a location, so add namespace and name, as on a claim.
    url = f"{output.url.rstrip('/')}/{meta.namespace}/{meta.name}" if output.url else None
    # Do not validate: the name may make a long location too long, which must not abort the pass.
    location = evolve(storage.output, url=url, claim_name=output.claim_name or None)
    return evolve(storage, output=location)


def _unless(has_own: bool, value: str | None) -> str | None:  # noqa: FBT001 - reads as a sentence
    return None if has_own else value
