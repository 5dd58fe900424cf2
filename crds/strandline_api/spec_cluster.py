"""What a pipeline asks of the cluster: claims for its data, and the Ray cluster of an attempt.

A run on a laptop reads the same fields and leaves these alone. This room must not know how a claim
or a Ray cluster is made.
"""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from strandline_api.quantities import Quantity, parse_memory
from strandline_api.spec_base import ApiModel, FreeObject, Label, ObjectName, distinct

DEFAULT_CLAIM_SIZE = "10Gi"


def _cel(*rules: tuple[str, str]) -> ConfigDict:
    """Say rules in the API server's language, each with the sentence for whoever breaks it."""
    spelled: JsonValue = [{"rule": rule, "message": message} for rule, message in rules]
    return ConfigDict(json_schema_extra={"x-kubernetes-validations": spelled})


def _keyed_by_name() -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


class LedgerStorage(ApiModel):
    """The claim that holds the ledger and the attempts' folders."""

    model_config = _cel(
        (
            "!has(self.claimName) || (!has(self.size) && !has(self.storageClassName))",
            (
                "give 'claimName' for a claim that exists, or 'size' and 'storageClassName' for "
                "one to make"
            ),
        ),
        (
            "self == oldSelf",
            "the ledger stays where it is; make another pipeline, or make the claim itself larger",
        ),
    )

    claim_name: ObjectName | None = Field(
        default=None,
        description="A claim that exists. Without it the operator makes one.",
    )
    size: Quantity | None = Field(
        default=None,
        description=f"Size of the claim to make. {DEFAULT_CLAIM_SIZE} when unset.",
    )
    storage_class_name: ObjectName | None = Field(
        default=None,
        description="Storage class of the claim to make. The cluster's default when unset.",
    )
    access_mode: Literal["ReadWriteOnce", "ReadWriteOncePod"] = Field(
        default="ReadWriteOnce", description="Access mode of the claim to make."
    )

    @property
    def claim_size(self) -> str:
        """Size of the claim to make, as it was written: `20Gi`."""
        return DEFAULT_CLAIM_SIZE if self.size is None else str(self.size)

    @model_validator(mode="after")
    def _check_one_claim(self) -> Self:
        if self.claim_name is not None and (self.size is not None or self.storage_class_name):
            raise ValueError(
                "give 'claimName' for a claim that exists, "
                "or 'size' and 'storageClassName' for a new one, not both",
            )
        return self


class OutputStorage(ApiModel):
    """Where all workers write results, unless the sink names a URL of its own."""

    model_config = _cel(("!has(self.url) || !has(self.claimName)", "give 'url' or 'claimName'"))

    url: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        default=None, description="A URL or folder, such as 's3://bucket/corpus'."
    )
    claim_name: ObjectName | None = Field(
        default=None, description="A claim that every worker can mount (ReadWriteMany)."
    )

    @model_validator(mode="after")
    def _check_one_place(self) -> Self:
        if self.url is not None and self.claim_name is not None:
            raise ValueError("give 'url' or 'claimName', not both")
        return self


class Storage(ApiModel):
    """Where the ledger and the results live on a cluster."""

    ledger: LedgerStorage = Field(
        default_factory=LedgerStorage,
        description="The claim that holds the ledger and the attempts' folders.",
    )
    output: OutputStorage = Field(
        default_factory=OutputStorage,
        description="Where workers write. On the ledger's claim, by the head, when unset.",
    )
    retention: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description="Whether a claim that the operator made outlives the pipeline.",
    )


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

    model_config = _cel(
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
        default=None, ge=0, description="Greatest number of pods. As minReplicas when unset."
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            raise ValueError(
                f"'maxReplicas' must be at least 'minReplicas', which is {self.min_replicas}, "
                f"not {self.max_replicas}",
            )
        return self


class PullSecret(ApiModel):
    """A secret that lets nodes pull the image."""

    name: ObjectName = Field(description="Name of the secret in the pipeline's namespace.")


Named = TypeVar("Named", WorkerGroup, PullSecret)


def _distinct_names(items: tuple[Named, ...]) -> tuple[Named, ...]:
    distinct(tuple(item.name for item in items))
    return items


class RayCluster(ApiModel):
    """The Ray cluster that one attempt runs on."""

    image: Annotated[str, Field(min_length=1, max_length=1024)] | None = Field(
        default=None, description="Image of all Ray pods. The operator's runtime image when unset."
    )
    version: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="Ray version in that image. The runtime image's when unset."
    )
    head: RayNode = Field(
        default_factory=RayNode, description="The head pod, which runs the driver."
    )
    worker_groups: Annotated[tuple[WorkerGroup, ...], AfterValidator(_distinct_names)] = Field(
        default=(),
        strict=False,
        max_length=64,
        json_schema_extra=_keyed_by_name(),
        description="The worker pods, by kind. With none, all work runs in the head pod.",
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
        json_schema_extra=_keyed_by_name(),
        description="Secrets that let nodes pull the image.",
    )
    submission_mode: Literal["K8sJobMode", "SidecarMode"] = Field(
        default="K8sJobMode", description="How KubeRay starts the driver."
    )
