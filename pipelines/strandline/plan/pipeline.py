"""A checked pipeline as data, for drivers and workers of every engine.

Workers load this module with their stage, so the module must not import the code that reads and
checks manifests.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strandline.plan.fingerprint import Fingerprint
from strandline.plan.stages.ends import EndStage, SharingSink, SinkStage, SourceStage
from strandline.plan.stages.stage import Shape, Stage, StatefulFilter

if TYPE_CHECKING:  # workers do not need the models of manifests
    from strandline_api.spec.work import OnError


_OURS = frozenset({"strandline", "strandline_api", "strandline_packs"})
TRIES = 4  # factor on a task's time limit if failing rows cause retries


@dataclass(frozen=True, slots=True)
class BroughtCode:
    """User code that the pipeline brings in addition to the image or the installation.

    Attributes:
        parts: fingerprint parts by path: file digests, and packages with their versions.
        hint: where modules are searched, for messages about missing modules.
    """

    parts: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A stage of a checked pipeline.

    Attributes:
        name: name of the stage, unique in the pipeline.
        use: the stage's name in a pack, or `module:Class`.
        stage: the parsed stage before its setup; workers get a copy.
        cpu, gpu, memory, custom: resources of a worker (cores, GPUs, bytes, units).
        min_workers, max_workers: bounds of the worker pool. If the upper bound is None, the engine
            chooses.
        batch_size: maximum number of tasks in a call.
        group: number of children of a fan-out that are joined into one task, or None.
        runtime_env: Ray's runtime environment of the workers.
        max_age, max_memory: seconds and bytes after which a worker is replaced, or None.
        timeout: time limit of a task in seconds, or None.
        is_metered: whether work is measured for each source. Otherwise only changes of the row
            count are reported.
        is_first: whether the stage gets the root tasks of sources.
        streams: whether yielded tasks are passed on before the call ends.
        isolate: whether the stage has separate workers.
        on_error: how rows that raise an error are treated.
        tolerates: maximum number of dead letters with which a source still finishes: a count, a
            percentage of the stage's input rows, or None for no limit.
        stores: store options of the pipeline's source; see `Params.list_stores`.
        has_cut: whether a cut stores the stage's output, so that a later run can start there.
        is_lenient: whether a task that cannot be stored in the cut is passed on instead of failing
            the source.
        cut_of: for a stage that only writes a cut, the name of the previous stage; empty otherwise.
    """

    name: str
    use: str
    stage: Stage
    cpu: float = 1.0
    gpu: float = 0.0
    memory: int | None = None
    custom: dict[str, float] = field(default_factory=dict)
    min_workers: int = 1
    max_workers: int | None = None
    batch_size: int = 1
    group: int | None = None
    runtime_env: dict[str, Any] = field(default_factory=dict)
    max_age: float | None = None
    max_memory: int | None = None
    timeout: float | None = None
    is_metered: bool = False
    is_first: bool = False
    streams: bool = False
    isolate: bool = False
    on_error: OnError = "fail"
    tolerates: int | str | None = None
    stores: Mapping[str, Any] = field(default_factory=dict)
    has_cut: bool = False
    is_lenient: bool = False
    cut_of: str = ""

    @property
    def is_foreign(self) -> bool:
        """Return whether the stage, or a function among its parameters, is not Strandline's."""
        if ":" in self.use or type(self.stage).__module__.partition(".")[0] not in _OURS:
            return True
        return self.function is not None

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function among the parameters, or None; a function that YAML names is a text."""
        return next(filter(callable, vars(self.stage.params).values()), None)

    @property
    def writes(self) -> bool:
        """Return whether the stage writes outputs, or files next to outputs."""
        return self.shape is Shape.SINK or bool(self.cut_of)

    @property
    def shape(self) -> Shape:
        """The shape of the stage: how its output relates to its input."""
        if isinstance(self.stage, SourceStage):
            return Shape.SOURCE
        if isinstance(self.stage, SinkStage):
            return Shape.SINK
        if self.group is not None:
            return Shape.GROUP
        return Shape.BATCH if self.overrides("process_batch") else Shape.TASK

    @property
    def may_fan_out(self) -> bool:
        """Return whether one task may become several."""
        if self.shape is Shape.BATCH:
            return self.stage.fans_out_in_batch()
        return self.shape in {Shape.TASK, Shape.GROUP} and self.stage.fans_out()

    def overrides(self, method: str) -> bool:
        """Return whether the stage class overrides a method."""
        return getattr(type(self.stage), method) is not getattr(Stage, method)

    def limit_call(self, tasks: int) -> float | None:
        """Return the time limit of a call with this number of tasks in seconds, if any."""
        if self.timeout is None:
            return None
        # A task with failing rows is retried: in halves, and then without the failing rows.
        tries = 1 if self.on_error == "fail" else TRIES
        # The tasks of a group are joined into a single task.
        return self.timeout * tries * (1 if self.group is not None else tasks)

    @property
    def target_bytes(self) -> int | None:
        """Target size of shared files in bytes, or None if the stage writes no shared files."""
        return self.stage.target_bytes if isinstance(self.stage, SharingSink) else None

    @property
    def splits(self) -> bool:
        """Return whether the runtime finds failing rows by retrying parts of a task."""
        is_task = self.shape in {Shape.TASK, Shape.BATCH, Shape.GROUP}
        # A generator may have passed tasks on before the failure, so parts can't be retried.
        is_whole = not inspect.isgeneratorfunction(type(self.stage).process)
        return is_task and is_whole and not self.stage.mixes_rows

    @property
    def gathers(self) -> bool:
        """Return whether the stage gathers state; see `StatefulFilter`."""
        return isinstance(self.stage, StatefulFilter)


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """A checked pipeline: one source stage, then the other stages in order, with the sink last.

    Attributes:
        output: folder or URL of the output; None for the pipeline's own folder on the volume.
    """

    namespace: str
    name: str
    source: StagePlan
    stages: tuple[StagePlan, ...]
    fingerprint: Fingerprint
    run_id: str = "first"
    output: str | None = None

    @property
    def sink(self) -> SinkStage:
        """The sink: the last of `stages`."""
        stage = self.stages[-1].stage
        assert isinstance(stage, SinkStage)  # checked when the plan was built
        return stage

    @property
    def deletes_removed(self) -> bool:
        """Return whether the source has `onRemoved: Delete`."""
        stage = self.source.stage
        assert isinstance(stage, SourceStage)  # checked when the plan was built
        return stage.deletes_removed

    @property
    def is_packable(self) -> bool:
        """Return whether the source could pack small files into `buckets` but does not."""
        # The default 0 stands for a source without the parameter; None means that the parameter is
        # unset.
        return getattr(self.source.stage.params, "buckets", 0) is None

    @property
    def partitioned_by(self) -> dict[str, EndStage]:
        """The source and the sink by stage name, if they declare that sources share storage."""
        return {
            plan.name: plan.stage
            for plan in (self.source, self.stages[-1])
            if isinstance(plan.stage, EndStage) and plan.stage.is_partitioned
        }

    @property
    def tolerances(self) -> tuple[tuple[str, int | str], ...]:
        """The names of the stages that limit dead letters per source, each with the limit."""
        return tuple(
            (stage.name, stage.tolerates) for stage in self.stages if stage.tolerates is not None
        )

    @property
    def gathering(self) -> dict[str, StatefulFilter]:
        """The stages that gather state, by name."""
        return {
            stage.name: stage.stage
            for stage in self.stages
            if isinstance(stage.stage, StatefulFilter)
        }
