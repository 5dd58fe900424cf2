"""The Ray cluster that a pipeline asks for: its pods, their size, and who admits them.

A run on a laptop reads the same fields and leaves these alone. This room must not know how a Ray
cluster is made.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from strandline_api.api_model import (
    ApiModel,
    FreeObject,
    Label,
    ObjectName,
    distinct,
    validated_by,
)
from strandline_api.quantities import Quantity, parse_memory
from strandline_api.spec.pod_places import HEAD_CONTAINER, SUBMITTER_CONTAINER, WORKER_CONTAINER
from strandline_api.spec.pod_templates import find_misfit
from strandline_api.spec.variables import Variables, VariableSource
from strandline_api.spec.volumes import (
    MOUNTS_HAVE_VOLUMES,
    NO_VOLUME,
    VolumeMounts,
    Volumes,
    find_homeless,
)


def _keyed_by(key: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class PodResources(ApiModel):
    """What one pod of the Ray cluster requests."""

    cpu: float = Field(default=2, ge=0, description="CPU cores; 0.5 is half a core.")
    memory: Quantity = Field(default="4Gi", description="Memory, request and limit alike.")
    gpu: int = Field(default=0, ge=0, description="Whole GPUs.")

    @property
    def memory_bytes(self) -> int:
        """Memory of the pod in bytes."""
        return parse_memory(self.memory)


class RayNode(ApiModel):
    """One kind of pod in the Ray cluster."""

    resources: PodResources = Field(
        default_factory=PodResources, description="What one such pod requests."
    )
    ray_start_params: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default={}, max_length=64, description="Options of 'ray start', such as 'num-cpus: \"0\"'."
    )
    pod_template: FreeObject = Field(
        default={},
        description="Kubernetes pod template that is laid over the generated one.",
    )


class WorkerGroup(RayNode):
    """Worker pods that are alike."""

    model_config = validated_by(
        (
            (
                "!has(self.maxReplicas) || "
                "self.maxReplicas >= (has(self.minReplicas) ? self.minReplicas : 1)"
            ),
            "'maxReplicas' must be at least 'minReplicas', which defaults to 1",
        )
    )

    name: Label = Field(description="Name of the group, unique in the pipeline.")
    min_replicas: int = Field(default=1, ge=0, description="Least number of pods.")
    max_replicas: int | None = Field(
        default=None,
        ge=0,
        description=(
            "Greatest number of pods; where it is more than minReplicas, the group grows while "
            "work waits, and shrinks when pods are idle. As minReplicas when unset."
        ),
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            raise ValueError(
                f"'maxReplicas' must be at least 'minReplicas', which is {self.min_replicas}, "
                f"not {self.max_replicas}",
            )
        return self


_Id = Annotated[int, Field(ge=0, le=2**31 - 1)]


class PodSecurity(ApiModel):
    """Users and groups of pods; what is not given is left to the image and the cluster."""

    run_as_user: _Id | None = Field(default=None, description="User of all containers.")
    run_as_group: _Id | None = Field(default=None, description="Group of all containers.")
    fs_group: _Id | None = Field(default=None, description="Group that owns what is mounted.")
    fs_group_change_policy: Literal["Always", "OnRootMismatch"] | None = Field(
        default=None, description="When files of a volume change their group."
    )
    supplemental_groups: tuple[_Id, ...] | None = Field(
        default=None, strict=False, max_length=32, description="More groups of all containers."
    )


class PullSecret(ApiModel):
    """A secret that lets nodes pull the image."""

    name: ObjectName = Field(description="Name of the secret in the pipeline's namespace.")


Named = TypeVar("Named", WorkerGroup, PullSecret)


def _distinct_names(items: tuple[Named, ...]) -> tuple[Named, ...]:
    distinct(tuple(item.name for item in items))
    return items


class RayCluster(ApiModel):
    """The Ray cluster that one attempt runs on."""

    model_config = validated_by((MOUNTS_HAVE_VOLUMES, NO_VOLUME))

    image: Annotated[str, Field(min_length=1, max_length=1024)] | None = Field(
        default=None, description="Image of all Ray pods. The operator's runtime image when unset."
    )
    version: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="Ray version in that image, for KubeRay. Not told when unset; of the runtime "
        "image it is known.",
    )
    head: RayNode = Field(
        default_factory=RayNode, description="The head pod, which runs the driver."
    )
    worker_groups: Annotated[tuple[WorkerGroup, ...], AfterValidator(_distinct_names)] = Field(
        default=(),
        strict=False,
        max_length=64,
        json_schema_extra=_keyed_by("name"),
        description="The worker pods, by kind. With none, all work runs in the head pod.",
    )
    # No default is stored for these four, so that who does not use them has nothing new to read.
    env: Variables = Field(
        default_factory=tuple,
        strict=False,
        max_length=256,
        json_schema_extra=_keyed_by("name"),
        description="Environment variables of head and workers, as in a Kubernetes container.",
    )
    env_from: tuple[VariableSource, ...] = Field(
        default_factory=tuple,
        strict=False,
        max_length=64,
        description="Secrets and ConfigMaps whose keys are variables of head and workers.",
    )
    volumes: Volumes = Field(
        default_factory=tuple,
        strict=False,
        max_length=64,
        json_schema_extra=_keyed_by("name"),
        description="Volumes of head and workers, as in a Kubernetes pod.",
    )
    volume_mounts: VolumeMounts = Field(
        default_factory=tuple,
        strict=False,
        max_length=64,
        json_schema_extra=_keyed_by("mountPath"),
        description="Where head and workers find those volumes.",
    )
    security_context: PodSecurity | None = Field(
        default=None,
        description=(
            "Users and groups of all Ray pods; with '{}' the cluster chooses them, as OpenShift "
            "does. The operator's 'podSecurity' when unset."
        ),
    )
    pod_template: FreeObject = Field(
        default={},
        description="Kubernetes pod template for all Ray pods, under those of head and groups.",
    )
    queue_name: ObjectName | None = Field(
        default=None, description="Kueue queue that admits the attempts. No queue when unset."
    )
    queue_priority_class: ObjectName | None = Field(
        default=None,
        description="Kueue WorkloadPriorityClass of the attempts. The queue's own when unset.",
    )
    priority_class_name: ObjectName | None = Field(
        default=None, description="Priority class of all Ray pods. The cluster's when unset."
    )
    service_account_name: ObjectName | None = Field(
        default=None, description="Service account of all Ray pods. The namespace's when unset."
    )
    image_pull_secrets: Annotated[tuple[PullSecret, ...], AfterValidator(_distinct_names)] = Field(
        default=(),
        strict=False,
        max_length=16,
        json_schema_extra=_keyed_by("name"),
        description="Secrets that let nodes pull the image.",
    )
    submission_mode: Literal["K8sJobMode", "SidecarMode"] = Field(
        default="K8sJobMode", description="How KubeRay starts the driver."
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
                    "misfit", "{said}", {"said": misfit.said, "below": f"{path}.{misfit.path}"}
                )
        return self

    def _list_templates(self) -> Iterator[tuple[str, Mapping[str, JsonValue], tuple[str, ...]]]:
        """Each pod template with its path and the containers of ours that it may speak of."""
        # In the other mode KubeRay makes the submitter's container itself.
        submitter = (SUBMITTER_CONTAINER,) if self.submission_mode == "K8sJobMode" else ()
        everywhere = (HEAD_CONTAINER, WORKER_CONTAINER, *submitter)
        yield "podTemplate", self.pod_template, everywhere
        yield "head.podTemplate", self.head.pod_template, (HEAD_CONTAINER,)
        for at, group in enumerate(self.worker_groups):
            yield f"workerGroups[{at}].podTemplate", group.pod_template, (WORKER_CONTAINER,)
