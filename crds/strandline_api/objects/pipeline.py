"""The `CurationPipeline`: one document that means the same on a laptop and on a cluster.

This room puts the parts together. It must not know how a document was read, nor what runs it.
"""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from strandline_api.api_model import ApiModel, Label, ObjectName
from strandline_api.quantities import PositiveDuration, parse_duration
from strandline_api.spec.code import Code
from strandline_api.spec.policy import (
    Checkpoint,
    Deadlines,
    OnChange,
    OomPolicy,
    Quarantine,
    RetryPolicy,
    WorkerLoss,
)
from strandline_api.spec.ray_cluster import RayCluster
from strandline_api.spec.storage import Storage
from strandline_api.spec.work import SinkWork, SourceWork, StageWork, name_conflicts
from strandline_api.status.pipeline_status import MAX_ATTEMPTS, PipelineStatus, parse_status


class ObjectMeta(ApiModel):
    """The part of Kubernetes' metadata that a run reads; the rest is ignored."""

    model_config = ConfigDict(extra="ignore")

    name: ObjectName = Field(description="Name of the pipeline, unique in its namespace.")
    namespace: Label = Field(default="default", description="Namespace of the pipeline.")
    labels: dict[str, str] = Field(default={}, description="Labels, handed on to attempts.")
    annotations: dict[str, str] = Field(default={}, description="Notes of other programs.")


class PipelineSpec(ApiModel):
    """What to curate, and how."""

    source: SourceWork = Field(description="Lists and reads the sources.")
    stages: tuple[StageWork, ...] = Field(
        default=(),
        strict=False,
        max_length=256,
        description="What happens to each source, in this order.",
    )
    sink: SinkWork = Field(description="Writes the results.")
    code: Code = Field(
        default_factory=Code, description="Modules and packages that the image does not have."
    )
    storage: Storage = Field(
        default_factory=Storage, description="Where the ledger and the results live on a cluster."
    )
    checkpoint: Checkpoint = Field(
        default_factory=Checkpoint,
        description="How often results of the run as a whole are published.",
    )
    retry: RetryPolicy = Field(
        default_factory=RetryPolicy,
        description="When another attempt follows one that ended badly.",
    )
    quarantine: Quarantine = Field(
        default_factory=Quarantine, description="When a source that keeps failing is parked."
    )
    oom: OomPolicy = Field(
        default_factory=OomPolicy, description="What follows an attempt that ran out of memory."
    )
    on_change: OnChange = Field(
        default="Fail",
        description=(
            "What to do when the pipeline no longer is the one the ledger belongs to: refuse to "
            "run, start from scratch, or keep what is finished."
        ),
    )
    engine: Literal["ray", "ray-data"] = Field(
        default="ray",
        description=(
            "What runs the stages: Strandline's own engine, or Ray Data's operators. The results "
            "are the same, and either goes on with what the other has begun."
        ),
    )
    ray: RayCluster = Field(
        default_factory=RayCluster, description="The Ray cluster that one attempt runs on."
    )
    deadlines: Deadlines = Field(default_factory=Deadlines, description="How long things may take.")
    suspend: bool = Field(default=False, description="Stop the current attempt and start no other.")
    run_id: Label = Field(
        default="first",
        description="Name of the run. Give a new one to run a finished pipeline again.",
    )
    attempt_history_limit: int = Field(
        default=10, ge=1, le=MAX_ATTEMPTS, description="Ended attempts that are kept as objects."
    )
    ttl_after_finished: PositiveDuration | None = Field(
        default=None,
        description="Time after which ended attempts are deleted. Never when unset.",
    )
    on_worker_loss: WorkerLoss = Field(
        default_factory=WorkerLoss, description="What the loss of a worker pod means."
    )

    @property
    def items(self) -> dict[str, SourceWork]:
        """Source, stages and sink in this order, by their path below `spec`."""
        stages = {f"stages[{index}]": stage for index, stage in enumerate(self.stages)}
        return {"source": self.source, **stages, "sink": self.sink}

    @property
    def ttl_after_finished_seconds(self) -> float | None:
        """Time after which ended attempts are deleted; None for never."""
        return None if self.ttl_after_finished is None else parse_duration(self.ttl_after_finished)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        conflict = name_conflicts(self.items)
        if conflict:
            raise PydanticCustomError(
                "name_taken",
                "'{name}' is the name of {first} already; give this one another 'name'",
                {**conflict, "below": f"{conflict['second']}.name"},
            )
        return self


class CurationPipeline(ApiModel):
    """A resumable data curation pipeline on Ray."""

    api_version: Literal["strandline.dev/v1alpha1"] = Field(
        description="Version of this kind of object."
    )
    kind: Literal["CurationPipeline"] = Field(description="Kind of object.")
    metadata: ObjectMeta = Field(description="Name, namespace, labels and annotations.")
    spec: PipelineSpec = Field(description="What to curate, and how.")
    status: Annotated[PipelineStatus, BeforeValidator(parse_status)] = Field(
        default_factory=PipelineStatus,
        description="What the operator reports; a run on one machine does not read it.",
    )
