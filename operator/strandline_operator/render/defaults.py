"""What a namespace gives, laid below what a pipeline says itself.

Pure, and done anew in each pass: what is stored stays as its user wrote it. This room must not know
where defaults are kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline_api.api_model import evolve
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.spec.namespace_defaults import RayDefaults, SpecDefaults
from strandline_api.spec.ray_cluster import RayCluster
from strandline_api.spec.storage import OutputStorage, Storage
from strandline_operator.model.view import PipelineView
from strandline_operator.render.pods.overlay import lay_over
from strandline_operator.render.rayjob import QUEUE_LABEL, QUEUE_PRIORITY_LABEL

NO_DEFAULTS = SpecDefaults()


def fill_in(pipeline: PipelineView, defaults: SpecDefaults) -> PipelineSpec | None:
    """Return the spec with the namespace's defaults where it says nothing; None for an invalid."""
    spec = pipeline.spec
    if spec is None or defaults == NO_DEFAULTS:
        return spec
    ray = _fill_ray(spec.ray, defaults.ray, pipeline.meta.labels)
    return evolve(spec, ray=ray, storage=_fill_storage(pipeline, spec, defaults.output))


def _fill_ray(ray: RayCluster, defaults: RayDefaults, labels: Mapping[str, str]) -> RayCluster:
    return evolve(
        ray,
        # The version speaks of one image, and so do the secrets that it is pulled with.
        image=ray.image or defaults.image,
        version=ray.version or (None if ray.image else defaults.version),
        image_pull_secrets=ray.image_pull_secrets
        or (() if ray.image else defaults.image_pull_secrets),
        pod_template=lay_over(dict(defaults.pod_template), dict(ray.pod_template)),
        # KubeRay's own options have no model here, so they are taken whole.
        auth_options=ray.auth_options or defaults.auth_options,
        tls_options=ray.tls_options or defaults.tls_options,
        gcs_fault_tolerance_options=ray.gcs_fault_tolerance_options
        or defaults.gcs_fault_tolerance_options,
        # A label of the pipeline itself says as much as its spec.
        queue_name=ray.queue_name or _unless(QUEUE_LABEL in labels, defaults.queue_name),
        queue_priority_class=ray.queue_priority_class
        or _unless(QUEUE_PRIORITY_LABEL in labels, defaults.queue_priority_class),
    )


def _fill_storage(pipeline: PipelineView, spec: PipelineSpec, defaults: OutputStorage) -> Storage:
    storage, meta = spec.storage, pipeline.meta
    is_given = spec.output_location is not None or storage.output.claim_name is not None
    if is_given or defaults == OutputStorage():
        return storage
    # A place has one owner, so each pipeline gets its own, as on a claim.
    url = f"{defaults.url.rstrip('/')}/{meta.namespace}/{meta.name}" if defaults.url else None
    output = OutputStorage(url=url, claim_name=defaults.claim_name)
    return evolve(storage, output=output)


def _unless(has_own: bool, value: str | None) -> str | None:  # noqa: FBT001 - reads as a sentence
    return None if has_own else value
