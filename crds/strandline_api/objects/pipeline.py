"""The `CurationPipeline`: a document that means the same on a laptop and on a cluster.

This module combines metadata, spec, and status. It must not depend on how a document was read, or
on how the pipeline runs.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from strandline_api.api_model import ApiModel, Label, ObjectName, keyed_by
from strandline_api.notation.quantities import (
    PositiveDuration,
    Quantity,
    parse_duration,
    parse_memory,
)
from strandline_api.objects.removed_engine import ENGINE_REMOVED, REMOVED_ENGINE
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
from strandline_api.spec.predecessors import (
    MAX_PREDECESSORS,
    Predecessors,
    Reference,
    find_references,
)
from strandline_api.spec.publishing import Publishing
from strandline_api.spec.ray_cluster import RayCluster
from strandline_api.spec.schedule import RunSchedule
from strandline_api.spec.storage import Storage
from strandline_api.spec.work import SinkWork, SourceWork, StageWork, name_conflicts
from strandline_api.status.pipeline_status import (
    MAX_ATTEMPTS,
    PipelineStatus,
    parse_status,
)

AFTER_ITSELF: Final = "a pipeline can't come after itself; name another one"
_TWO_RUNS = (
    "lists run '{run}' of a pipeline whose run '{known}' is also listed; list only one of them"
)


def _refuse_others(engine: object) -> object:
    if engine == REMOVED_ENGINE:
        raise PydanticCustomError("engine_removed", ENGINE_REMOVED)
    # A cluster can't run these engines, so a file with such an engine could not run everywhere.
    if engine in ("inline", "processes"):
        raise PydanticCustomError(
            "engine_of_one_machine",
            "must be 'ray'; choose another engine on the command line: "
            "`strandline run --engine {engine}`",
            {"engine": engine},
        )
    return engine


# The CRD keeps the removed value: an API server validates every update of a stored object, and
# objects from earlier releases must remain readable and deletable.
Engine = Annotated[
    Literal["ray"],
    BeforeValidator(_refuse_others),
    WithJsonSchema({"type": "string", "enum": ["ray", REMOVED_ENGINE]}),
]


class ObjectMeta(ApiModel):
    """The part of Kubernetes' metadata that a run reads. Other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    name: ObjectName = Field(description="Name of the pipeline, unique in its namespace.")
    namespace: Label = Field(default="default", description="Namespace of the pipeline.")
    labels: dict[str, str] = Field(default={}, description="Labels, which are copied to attempts.")
    annotations: dict[str, str] = Field(default={}, description="Annotations of other programs.")


class PipelineSpec(ApiModel):
    """What to curate, and how."""

    source: SourceWork = Field(
        description="The source: it lists the sources of the data set and reads them."
    )
    stages: tuple[StageWork, ...] = Field(
        default=(),
        strict=False,
        max_length=256,
        description="The stages that each source goes through, in this order.",
    )
    sink: SinkWork = Field(description="The sink, which writes the results.")
    code: Code = Field(
        default_factory=Code,
        description=(
            "Python modules and packages that the image lacks and that are added to the pods."
        ),
    )
    storage: Storage = Field(
        default_factory=Storage,
        description="The volumes on a cluster that hold the ledger and the results.",
    )
    checkpoint: Checkpoint = Field(
        default_factory=Checkpoint,
        description=(
            "How often the results of the run as a whole are published, and how many publications"
            " are kept."
        ),
    )
    # No default is stored, so older readers see this field only if it is used.
    publish: Publishing | None = Field(
        default=None,
        description=(
            "Requirements that a run must meet before 'latest' points to its results. When unset, "
            "'latest' follows each publication."
        ),
    )
    retry: RetryPolicy = Field(
        default_factory=RetryPolicy,
        description="The retry policy: whether and when another attempt follows a failed one.",
    )
    quarantine: Quarantine = Field(
        default_factory=Quarantine,
        description=(
            "When a source that keeps failing is quarantined, and how many such sources a run "
            "tolerates."
        ),
    )
    oom: OomPolicy = Field(
        default_factory=OomPolicy,
        description="How much more memory the next attempt gets after one that ran out of memory.",
    )
    on_change: OnChange = Field(
        default="Fail",
        description=(
            "What to do when the pipeline was changed in a way that changes its output, so that it "
            "no longer matches the ledger. 'Fail' refuses to run, 'Restart' starts from scratch, "
            "'Continue' keeps finished sources as they are, and 'Redo' processes them again one by "
            "one, starting at the last item with 'keep' before the change."
        ),
    )
    # No defaults are stored, so older readers see these fields only if they are used.
    keep: Literal["auto"] | None = Field(
        default=None,
        description=(
            "Whether the output of more items is kept than of those with 'keep': 'auto' keeps the "
            "output of the items that saves the most work per byte, as measured on the first "
            "sources. When unset, only items with 'keep' are kept."
        ),
    )
    keep_at_most: Quantity | None = Field(
        default=None,
        description=(
            "Largest total size of kept output, such as '200Gi'. 'keep: auto' requires it. The "
            "output that saves the least work is not kept. No limit when unset."
        ),
    )
    engine: Engine = Field(
        default="ray",
        description=(
            "The engine that runs the stages: 'ray'. When unset, 'strandline run' on one machine "
            "starts no Ray unless a stage needs it. 'ray-data' was removed; a pipeline that names "
            "it is invalid."
        ),
    )
    ray: RayCluster = Field(
        default_factory=RayCluster, description="The Ray cluster that is created for each attempt."
    )
    deadlines: Deadlines = Field(
        default_factory=Deadlines, description="Time limits of attempts and of the run."
    )
    # No default is stored, so older readers see this field only if it is used.
    after: Predecessors = Field(
        default_factory=tuple,
        strict=False,
        max_length=MAX_PREDECESSORS,
        json_schema_extra=keyed_by("name"),
        description=(
            "Pipelines of the same namespace that must have succeeded before a run begins. "
            "Pipelines referenced in parameters as '{pipeline: NAME}' need not be listed."
        ),
    )
    suspend: bool = Field(
        default=False,
        description=(
            "Suspend the pipeline: the current attempt is stopped, and none is started until this"
            " is false again. The run continues from there."
        ),
    )
    run_id: Label = Field(
        default="first",
        description=(
            "Name of the run. Set another name, such as 'second', to run a finished pipeline again."
        ),
    )
    schedule: RunSchedule | None = Field(
        default=None,
        description=(
            "Schedule of further runs, each with its own 'runId' in the status. The first run "
            "begins at once. No runs are scheduled when unset."
        ),
    )
    attempt_history_limit: int = Field(
        default=10,
        ge=1,
        le=MAX_ATTEMPTS,
        description="Number of ended CurationAttempt objects to keep. Older ones are deleted.",
    )
    ttl_after_finished: PositiveDuration | None = Field(
        default=None,
        description=(
            "Time after which ended CurationAttempt objects are deleted, such as '36h' or '7d'. "
            "The newest one is always kept. No limit when unset."
        ),
    )
    preflight: bool | None = Field(
        default=None,
        description=(
            "Whether a short Job of the runtime image checks stages and parameters before a Ray "
            "cluster is created, so that a misspelt parameter is reported within seconds. It runs "
            "once for each image and spec. When unset, the operator's setting applies."
        ),
    )
    hold_on_failure: PositiveDuration | None = Field(
        default=None,
        description=(
            "Time for which the pods of a run's last, failed attempt are kept for inspection, such "
            "as '30m'. This never delays an attempt: pods of an attempt that is retried are not "
            "kept, and a cancel, a retry, 'suspend' or another run ends the time. Not kept when "
            "unset."
        ),
    )
    on_worker_loss: WorkerLoss = Field(
        default_factory=WorkerLoss,
        description="Whether an attempt continues or is recreated when it loses a worker pod.",
    )

    @property
    def keep_at_most_bytes(self) -> int | None:
        """Maximum bytes of all kept intermediate results, or None for no limit."""
        return None if self.keep_at_most is None else parse_memory(self.keep_at_most)

    @property
    def items(self) -> dict[str, SourceWork]:
        """Source, stages, and sink in this order. Keys are paths below `spec`."""
        stages = {f"stages[{index}]": stage for index, stage in enumerate(self.stages)}
        return {"source": self.source, **stages, "sink": self.sink}

    @property
    def references(self) -> tuple[tuple[str, Reference], ...]:
        """References to other pipelines in parameters, with their paths below `spec`."""
        return tuple(
            found
            for path, item in self.items.items()
            for found in find_references(item.with_, f"{path}.with")
        )

    @property
    def predecessors(self) -> dict[str, str | None]:
        """The run that each preceding pipeline must have completed. None means the latest run."""
        read = [(reference.pipeline, reference.run) for _, reference in self.references]
        named = [*read, *((each.name, each.run_id) for each in self.after)]
        # If one reference to a pipeline names a run, all references to that pipeline mean that run.
        runs = {name: run for name, run in named if run}
        return {name: runs.get(name) for name, _ in named}

    @property
    def output_location(self) -> str | None:
        """Folder or URL of the outputs, or None if neither sink nor `storage.output` names it."""
        # Parameters may have any type here: only the sink validates types.
        path = self.sink.with_.get("path")
        return path if isinstance(path, str) else self.storage.output.url

    @property
    def ttl_after_finished_seconds(self) -> float | None:
        """Seconds after which ended attempts are deleted, or None to keep them."""
        return None if self.ttl_after_finished is None else parse_duration(self.ttl_after_finished)

    @property
    def hold_on_failure_seconds(self) -> float | None:
        """Seconds for which pods of a failed run are kept, or None to delete them immediately."""
        return None if self.hold_on_failure is None else parse_duration(self.hold_on_failure)

    @model_validator(mode="after")
    def _check_keeping(self) -> Self:
        if self.keep is not None and self.keep_at_most is None:
            raise PydanticCustomError(
                "no_bound",
                "'keep: auto' needs 'keepAtMost'; set it to the largest total size to keep, such "
                "as 200Gi",
                # The problem's path is this object's path, extended by `below`.
                {"below": "keepAtMost"},
            )
        return self

    @model_validator(mode="after")
    def _check_expectations(self) -> Self:
        names = {item.name for item in self.items.values()}
        expectations = () if self.publish is None else self.publish.require.expectations
        for at, expectation in enumerate(expectations):
            if expectation.stage not in names:
                raise PydanticCustomError(
                    "no_such_stage",
                    "'{stage}' is not a stage of this pipeline; name a stage that measures",
                    {
                        "stage": expectation.stage,
                        "below": f"publish.require.expectations[{at}].stage",
                    },
                )
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        conflict = name_conflicts(self.items)
        if conflict:
            raise PydanticCustomError(
                "name_taken",
                "'{name}' is already the name of {first}; give this item another 'name'",
                {**conflict, "below": f"{conflict['second']}.name"},
            )
        return self


class CurationPipeline(ApiModel):
    """A resumable data curation pipeline on Ray."""

    api_version: Literal["strandline.dev/v1alpha1"] = Field(
        description="API version of the object."
    )
    kind: Literal["CurationPipeline"] = Field(description="Kind of the object.")
    metadata: ObjectMeta = Field(description="Name, namespace, labels and annotations.")
    spec: PipelineSpec = Field(description="The desired pipeline: what to curate, and how.")
    status: Annotated[PipelineStatus, BeforeValidator(parse_status)] = Field(
        default_factory=PipelineStatus,
        description=(
            "The observed state of the pipeline, written by the operator. A run on one machine "
            "does not read it."
        ),
    )

    @model_validator(mode="after")
    def _refuse_circle(self) -> Self:
        name = self.metadata.name
        after = ((f"after[{at}].name", each.name) for at, each in enumerate(self.spec.after))
        read = ((path, reference.pipeline) for path, reference in self.spec.references)
        path = next((path for path, other in (*after, *read) if other == name), None)
        if path is not None:
            raise PydanticCustomError("after_itself", AFTER_ITSELF, {"below": f"spec.{path}"})
        return self

    @model_validator(mode="after")
    def _refuse_two_runs(self) -> Self:
        runs = {each.name: each.run_id for each in self.spec.after if each.run_id}
        for path, reference in self.spec.references:
            # A reference without a run means the run that another reference names.
            if not reference.run:
                continue
            known = runs.setdefault(reference.pipeline, reference.run)
            if known != reference.run:
                context = {"run": reference.run, "known": known, "below": f"spec.{path}"}
                raise PydanticCustomError("two_runs", _TWO_RUNS, context)
        return self
