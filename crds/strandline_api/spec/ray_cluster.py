"""The Ray cluster of a pipeline: its pods, their sizes, and the queue that admits them.

A run on a laptop parses the same fields and ignores them. This module must not depend on how a Ray
cluster is created.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator
from pydantic_core import PydanticCustomError

from strandline_api.api_model import (
    ApiModel,
    FreeObject,
    Label,
    ObjectName,
    distinct,
    keyed_by,
    validated_by,
)
from strandline_api.notation.quantities import Quantity, parse_memory
from strandline_api.spec.pod_paths import HEAD_CONTAINER, SUBMITTER_CONTAINER, WORKER_CONTAINER
from strandline_api.spec.pods.templates import Spot, find_misfit
from strandline_api.spec.pods.variables import Variables, VariableSource
from strandline_api.spec.pods.volumes import (
    MOUNTS_HAVE_VOLUMES,
    NO_VOLUME,
    VolumeMounts,
    Volumes,
    find_homeless,
)
from strandline_api.spec.policy import VoluntaryDisruptions


class PodResources(ApiModel):
    """Resources that a pod of the Ray cluster requests."""

    cpu: float = Field(default=2, ge=0, description="CPU cores, such as 2. 0.5 is half a core.")
    memory: Quantity = Field(
        default="4Gi", description="Memory, such as '4Gi'. It is both the request and the limit."
    )
    gpu: int = Field(default=0, ge=0, description="Number of whole GPUs.")

    @property
    def memory_bytes(self) -> int:
        """Memory of the pod in bytes."""
        return parse_memory(self.memory)


class RayNode(ApiModel):
    """A kind of pod in the Ray cluster."""

    resources: PodResources = Field(
        default_factory=PodResources, description="Resources that each such pod requests."
    )
    ray_start_params: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default={},
        max_length=64,
        description="Options of 'ray start' as text, such as 'num-cpus: \"0\"'.",
    )
    pod_template: FreeObject = Field(
        default={},
        description="Kubernetes pod template that is merged over the generated one.",
    )
    # No default is stored, so older readers see this field only if it is used.
    spot: Spot | None = Field(
        default=None,
        description=(
            "Spot nodes for such pods, and when to use on-demand nodes instead. When unset, pods "
            "run on any node, but the head uses on-demand nodes if a worker group has spot nodes."
        ),
    )


_HEADS_NAME = "a worker group can't be called 'head': that is the head pod's name"


class WorkerGroup(RayNode):
    """A group of identical worker pods."""

    model_config = validated_by(
        (
            (
                "!has(self.maxReplicas) || "
                "self.maxReplicas >= (has(self.minReplicas) ? self.minReplicas : 1)"
            ),
            "'maxReplicas' must be at least 'minReplicas', which defaults to 1",
        ),
        ("self.name != 'head'", _HEADS_NAME),
    )

    name: Label = Field(
        description="Name of the worker group, unique in the pipeline, such as 'gpu'."
    )
    min_replicas: int = Field(default=1, ge=0, description="Smallest number of pods.")
    max_replicas: int | None = Field(
        default=None,
        ge=0,
        description=(
            "Largest number of pods. If it is more than 'minReplicas', the group grows while work"
            " waits and shrinks when pods are idle. The same as 'minReplicas' when unset."
        ),
    )

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        # The head's memory and spot state are stored under the group name 'head'.
        if name == "head":
            raise ValueError(_HEADS_NAME)
        return name

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            raise ValueError(
                f"'maxReplicas' must be at least 'minReplicas', which is {self.min_replicas}, "
                f"not {self.max_replicas}",
            )
        return self


# Kubernetes rejects greater user and group IDs.
_Id = Annotated[int, Field(ge=0, le=2**31 - 1)]


class PodSecurity(ApiModel):
    """Users and groups of pods. The image and the cluster decide about unset fields."""

    run_as_user: _Id | None = Field(
        default=None, description="User id of all containers, such as 1000."
    )
    run_as_group: _Id | None = Field(
        default=None, description="Group id of all containers, such as 1000."
    )
    fs_group: _Id | None = Field(
        default=None, description="Group id that owns the files of mounted volumes."
    )
    fs_group_change_policy: Literal["Always", "OnRootMismatch"] | None = Field(
        default=None,
        description=(
            "When the files of a volume are assigned to 'fsGroup': always, or only if the top "
            "folder belongs to another group."
        ),
    )
    supplemental_groups: tuple[_Id, ...] | None = Field(
        default=None,
        strict=False,
        max_length=32,
        description="Additional group ids of all containers.",
    )


class PullSecret(ApiModel):
    """A secret that nodes use to pull the image."""

    name: ObjectName = Field(description="Name of the secret in the pipeline's namespace.")


Named = TypeVar("Named", WorkerGroup, PullSecret)


def _distinct_names(items: tuple[Named, ...]) -> tuple[Named, ...]:
    distinct(tuple(item.name for item in items))
    return items


class RayCluster(ApiModel):
    """The Ray cluster of an attempt."""

    model_config = validated_by((MOUNTS_HAVE_VOLUMES, NO_VOLUME))

    image: Annotated[str, Field(min_length=1, max_length=1024)] | None = Field(
        default=None,
        description=(
            "Container image of all Ray pods, such as 'registry.example.org/team/curation:1.4'. "
            "The operator's runtime image when unset."
        ),
    )
    version: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description=(
            "Ray version in the image, such as '2.60.0', which KubeRay requires. Not needed for "
            "the operator's runtime image."
        ),
    )
    head: RayNode = Field(
        default_factory=RayNode, description="The head pod, in which the driver runs."
    )
    worker_groups: Annotated[tuple[WorkerGroup, ...], AfterValidator(_distinct_names)] = Field(
        default=(),
        strict=False,
        max_length=64,
        json_schema_extra=keyed_by("name"),
        description="Groups of worker pods. Without any, all work runs in the head pod.",
    )
    # No defaults are stored for these four fields, so older readers see them only if they are used.
    env: Variables = Field(
        default_factory=tuple,
        strict=False,
        max_length=256,
        json_schema_extra=keyed_by("name"),
        description=(
            "Environment variables of the head and the workers, as in a Kubernetes container."
        ),
    )
    env_from: tuple[VariableSource, ...] = Field(
        default_factory=tuple,
        strict=False,
        max_length=64,
        description=(
            "Secrets and ConfigMaps whose keys become environment variables of the head and the "
            "workers."
        ),
    )
    volumes: Volumes = Field(
        default_factory=tuple,
        strict=False,
        max_length=64,
        json_schema_extra=keyed_by("name"),
        description="Volumes of the head and the workers, as in a Kubernetes pod.",
    )
    volume_mounts: VolumeMounts = Field(
        default_factory=tuple,
        strict=False,
        max_length=64,
        json_schema_extra=keyed_by("mountPath"),
        description="Where the volumes are mounted in the head and the workers.",
    )
    security_context: PodSecurity | None = Field(
        default=None,
        description=(
            "Users and groups of all Ray pods. With '{}' the cluster chooses them, as OpenShift "
            "does. The operator's setting 'podSecurity' applies when unset."
        ),
    )
    pod_template: FreeObject = Field(
        default={},
        description=(
            "Kubernetes pod template for all Ray pods. The templates of the head and of worker "
            "groups are merged over it."
        ),
    )
    # The CRD stores no defaults for these KubeRay fields, because some KubeRay versions lack them.
    auth_options: FreeObject = Field(
        default_factory=dict,
        description=(
            "KubeRay's 'authOptions' of the RayCluster, such as 'mode: token': Ray accepts only "
            "clients with the cluster's token."
        ),
    )
    tls_options: FreeObject = Field(
        default_factory=dict,
        description="KubeRay's 'tlsOptions' of the RayCluster: Ray's own traffic is encrypted.",
    )
    gcs_fault_tolerance_options: FreeObject = Field(
        default_factory=dict,
        description=(
            "KubeRay's 'gcsFaultToleranceOptions' of the RayCluster: where Ray stores the state of "
            "its head."
        ),
    )
    voluntary_disruptions: VoluntaryDisruptions | None = Field(
        default=None,
        description=(
            "Whether drains and consolidations wait for pods. When unset, they wait for the head, "
            "but not for workers."
        ),
    )
    queue_name: ObjectName | None = Field(
        default=None,
        description="Name of the Kueue LocalQueue that admits the attempts. No queue when unset.",
    )
    queue_priority_class: ObjectName | None = Field(
        default=None,
        description=(
            "Name of the Kueue WorkloadPriorityClass of the attempts. The queue's default when "
            "unset."
        ),
    )
    priority_class_name: ObjectName | None = Field(
        default=None,
        description="Name of the PriorityClass of all Ray pods. The cluster's default when unset.",
    )
    service_account_name: ObjectName | None = Field(
        default=None,
        description=(
            "Name of the service account of all Ray pods. The namespace's default when unset."
        ),
    )
    image_pull_secrets: Annotated[tuple[PullSecret, ...], AfterValidator(_distinct_names)] = Field(
        default=(),
        strict=False,
        max_length=16,
        json_schema_extra=keyed_by("name"),
        description="Secrets that nodes use to pull the image.",
    )
    submission_mode: Literal["K8sJobMode", "SidecarMode"] = Field(
        default="K8sJobMode",
        description=(
            "How KubeRay starts the driver: 'K8sJobMode' from a pod of its own, 'SidecarMode' "
            "from a container in the head pod."
        ),
    )

    @model_validator(mode="after")
    def _check_mounts(self) -> Self:
        if find_homeless(self.volumes, self.volume_mounts) is not None:
            raise ValueError(NO_VOLUME)
        return self

    @model_validator(mode="after")
    def _check_templates(self) -> Self:
        for path, template, fitting in self._list_templates():
            misfit = find_misfit(template, fitting)
            if misfit is not None:
                raise PydanticCustomError(
                    "misfit", "{said}", {"said": misfit.message, "below": f"{path}.{misfit.path}"}
                )
        return self

    def _list_templates(self) -> Iterator[tuple[str, Mapping[str, JsonValue], tuple[str, ...]]]:
        """Yield each pod template with its path and the generated containers that it may change."""
        # In the other mode, KubeRay creates the submitter's container itself.
        submitter = (SUBMITTER_CONTAINER,) if self.submission_mode == "K8sJobMode" else ()
        everywhere = (HEAD_CONTAINER, WORKER_CONTAINER, *submitter)
        yield "podTemplate", self.pod_template, everywhere
        yield "head.podTemplate", self.head.pod_template, (HEAD_CONTAINER,)
        for at, group in enumerate(self.worker_groups):
            yield f"workerGroups[{at}].podTemplate", group.pod_template, (WORKER_CONTAINER,)
