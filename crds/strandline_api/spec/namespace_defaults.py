"""Defaults of a namespace for its pipelines, such as the image, the queue, and the output location.

No other program validates the defaults before the operator reads them, so validation is as strict
as for a pipeline. This module must not depend on where defaults are stored, or on how they are
merged into a spec.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from strandline_api.api_model import ApiModel, FreeObject, ObjectName
from strandline_api.spec.pod_paths import CONTAINERS
from strandline_api.spec.pods.templates import find_misfit
from strandline_api.spec.ray_cluster import PullSecret
from strandline_api.spec.storage import OutputStorage


class RayDefaults(ApiModel):
    """Defaults of a pipeline's `ray`."""

    image: Annotated[str, Field(min_length=1, max_length=1024)] | None = Field(
        default=None, description="Container image of all Ray pods."
    )
    version: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="Ray version in that image."
    )
    image_pull_secrets: tuple[PullSecret, ...] = Field(
        default=(),
        strict=False,
        max_length=16,
        description="Secrets that nodes use to pull the image.",
    )
    pod_template: FreeObject = Field(
        default={}, description="Pod template. The pipeline's own template is merged over it."
    )
    auth_options: FreeObject = Field(
        default={}, description="KubeRay's 'authOptions', such as 'mode: token'."
    )
    tls_options: FreeObject = Field(default={}, description="KubeRay's 'tlsOptions'.")
    gcs_fault_tolerance_options: FreeObject = Field(
        default={}, description="KubeRay's 'gcsFaultToleranceOptions'."
    )
    queue_name: ObjectName | None = Field(
        default=None, description="Name of the Kueue LocalQueue that admits the attempts."
    )
    queue_priority_class: ObjectName | None = Field(
        default=None, description="Name of the Kueue WorkloadPriorityClass of the attempts."
    )

    @model_validator(mode="after")
    def _check_template(self) -> Self:
        misfit = find_misfit(self.pod_template, CONTAINERS)
        if misfit is not None:
            raise ValueError(f"podTemplate.{misfit.path}: {misfit.message}")
        return self


class SpecDefaults(ApiModel):
    """Defaults for the fields that pipelines of a namespace leave unset."""

    ray: RayDefaults = Field(
        default_factory=RayDefaults, description="Defaults of the Ray cluster."
    )
    output: OutputStorage = Field(
        default_factory=OutputStorage,
        description="Location of results, with a folder for each pipeline.",
    )
