"""A pipeline that may run, as data: what drivers and workers of every engine read.

A worker loads it with its stage, so it must not know how manifests are read and checked.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strandline.plan.fingerprint import Fingerprint
from strandline.plan.stages.ends import EndStage, SharingSink, SinkStage, SourceStage
from strandline.plan.stages.stage import Shape, Stage, StatefulFilter

if TYPE_CHECKING:  # a worker need not load what a manifest may say
    from strandline_api.spec.work import OnError


_OURS = frozenset({"strandline", "strandline_api", "strandline_packs"})
TRIES = 4  # that a task may take as long as one of it, where its rows may fail alone


@dataclass(frozen=True, slots=True)
class BroughtCode:
    """What was brought beside the image, or beside what is installed.

    Attributes:
        parts: of the fingerprint, by path: digests, and packages with their versions.
        hint: where a module is looked for, in words for a user that names one that is not there.
    """

    parts: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage of a checked pipeline.

    Attributes:
        name: unique in the pipeline.
        use: the registered name or `module:Class` it came from.
        stage: the parsed stage, not yet set up; workers get a copy.
        cpu, gpu, memory, custom: what one worker asks for (cores, GPUs, bytes, units).
        min_workers, max_workers: bounds of the pool; None leaves the upper one to the engine.
        batch_size: tasks handed to one call at most.
        group: children of one fan-out that are joined into one task; None: no joining.
        runtime_env: Ray's runtime environment of the workers.
        max_age, max_memory: seconds and bytes after which a worker is replaced; None: no limit.
        timeout: seconds that one task may take; None: no limit.
        is_metered: its work is measured for each source. Without that, only changes of the
            number of rows are reported.
        is_first: it takes the root tasks of sources.
        streams: what it yields travels on before its answer has ended.
        isolate: no other stage runs in its workers.
        on_error: what follows where a row raises an error.
        tolerates: dead letters of it with which a source still finishes, a number or a percentage
            of the rows that came to it; None: any number.
        stores: how the stores of the pipeline's source are asked; see `Params.list_stores`.
        has_cut: a cut keeps what it hands on, so that a later run can go on from there.
        is_lenient: what can't be kept is handed on, where it would fail its source.
        cut_of: the stage whose cut it writes, and nothing else; empty: it is no such stage.
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
        """Return whether a class of the user's own or another library does the work."""
        return ":" in self.use or type(self.stage).__module__.partition(".")[0] not in _OURS

    @property
    def writes(self) -> bool:
        """Return whether it writes beside the outputs, or is what writes them."""
        return self.shape is Shape.SINK or bool(self.cut_of)

    @property
    def shape(self) -> Shape:
        """Return how its answer stands to its input."""
        if isinstance(self.stage, SourceStage):
            return Shape.SOURCE
        if isinstance(self.stage, SinkStage):
            return Shape.SINK
        if self.group is not None:
            return Shape.GROUP
        return Shape.BATCH if self.overrides("process_batch") else Shape.TASK

    @property
    def may_fan_out(self) -> bool:
        """Return whether the stage says that one task may become several."""
        if self.shape is Shape.BATCH:
            return self.stage.fans_out_in_batch()
        return self.shape in {Shape.TASK, Shape.GROUP} and self.stage.fans_out()

    def overrides(self, method: str) -> bool:
        """Return whether the stage has a method of its own."""
        return getattr(type(self.stage), method) is not getattr(Stage, method)

    def limit_call(self, tasks: int) -> float | None:
        """Return the seconds that a call of so many tasks may take; None: no limit."""
        if self.timeout is None:
            return None
        # A task of which rows fail is worked on again: in halves, and then without those rows.
        tries = 1 if self.on_error == "fail" else TRIES
        return self.timeout * tries * (1 if self.group is not None else tasks)

    @property
    def target_bytes(self) -> int | None:
        """Return the bytes of files that sources share; None: none of its files is shared."""
        return self.stage.target_bytes if isinstance(self.stage, SharingSink) else None

    @property
    def splits(self) -> bool:
        """Return whether rows that fail are found by working on parts of a task."""
        is_task = self.shape in {Shape.TASK, Shape.BATCH, Shape.GROUP}
        # Parts that a generator yielded may have travelled on when it fails.
        is_whole = not inspect.isgeneratorfunction(type(self.stage).process)
        return is_task and is_whole and not self.stage.mixes_rows

    @property
    def gathers(self) -> bool:
        """Return whether it keeps state; see `StatefulFilter`."""
        return isinstance(self.stage, StatefulFilter)


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """A pipeline that may run: one source stage, stages in order with the sink last.

    Attributes:
        output: folder or URL of the output; None means the pipeline's own folder on the volume.
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
        """The sink, last of `stages`."""
        stage = self.stages[-1].stage
        assert isinstance(stage, SinkStage)  # checked when the plan was built
        return stage

    @property
    def deletes_removed(self) -> bool:
        """Return whether the source says `onRemoved: Delete`."""
        stage = self.source.stage
        assert isinstance(stage, SourceStage)  # checked when the plan was built
        return stage.deletes_removed

    @property
    def is_packable(self) -> bool:
        """Return whether the source could pack small files into `buckets`, and does not."""
        return getattr(self.source.stage.params, "buckets", 0) is None

    @property
    def partitioned_by(self) -> dict[str, EndStage]:
        """The source and the sink, by name, where they say which sources share storage."""
        return {
            plan.name: plan.stage
            for plan in (self.source, self.stages[-1])
            if isinstance(plan.stage, EndStage) and plan.stage.is_partitioned
        }

    @property
    def tolerances(self) -> tuple[tuple[str, int | str], ...]:
        """The stages that say how many dead letters a source may have, each with that."""
        return tuple(
            (stage.name, stage.tolerates) for stage in self.stages if stage.tolerates is not None
        )

    @property
    def gathering(self) -> dict[str, StatefulFilter]:
        """The stages that gather something, by name."""
        return {
            stage.name: stage.stage
            for stage in self.stages
            if isinstance(stage.stage, StatefulFilter)
        }
