"""All that one pass has read, frozen. Decisions see this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strandline_api.objects.attempt import AttemptSpec, AttemptStatus
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.spec.namespace_defaults import SpecDefaults
from strandline_api.spec.policy import RetryPolicy
from strandline_api.status.defaults import DefaultsRecord
from strandline_api.status.enums import LineageState
from strandline_api.status.pipeline_status import PipelineStatus, Progress
from strandline_operator.model.code import CodeFiles
from strandline_operator.model.cpu_rules import CpuRules
from strandline_operator.model.nodes.capacity import NodeSize
from strandline_operator.model.nodes.marks import NodeMarks, NodeView
from strandline_operator.model.notices import Notice, QueueState
from strandline_operator.model.objects import Meta, Pod, RayClusterState, RayJob, VolumeClaim
from strandline_operator.model.preflight import PreflightJob

# A driver counts as unreachable after so many questions, over so many seconds.
FEWEST_QUESTIONS = 3
SHORTEST_SILENCE = 60.0


@dataclass(frozen=True, slots=True)
class PipelineView:
    """The pipeline.

    Attributes:
        spec: None where it is invalid.
        problems: why, a sentence each.
        has_status: it was seen before; a new or restored one has none.
        manifest: the pipeline as it is stored: apiVersion, kind, metadata, spec.
        unknown: paths of fields that this operator does not know and ignores.
    """

    meta: Meta
    spec: PipelineSpec | None
    problems: tuple[str, ...]
    status: PipelineStatus
    has_status: bool
    manifest: Mapping[str, object]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AttemptObject:
    """One attempt of it."""

    meta: Meta
    spec: AttemptSpec
    status: AttemptStatus


@dataclass(frozen=True, slots=True)
class Silence:
    """Questions in a row that a driver has not answered, as this process has asked them.

    What was before it began to ask is not known to it, and so counts for nothing.

    Attributes:
        questions: how many.
        seconds: between the first and the last of them, long pauses cut short.
    """

    questions: int = 0
    seconds: float = 0.0

    @property
    def is_lasting(self) -> bool:
        """Return whether it is more than a packet that was lost."""
        return self.questions >= FEWEST_QUESTIONS and self.seconds >= SHORTEST_SILENCE

    def is_longer_than(self, limit: float) -> bool:
        """Return whether a limit of so many seconds is over."""
        return self.is_lasting and self.seconds > limit

    def prolong(self, pause: float, longest: float) -> Silence:
        """Return the same with one question more.

        Args:
            pause: seconds since the one before; of any size and sign where clocks are set.
            longest: seconds that one question may count for at most.
        """
        counted = min(max(0.0, pause), longest) if self.questions else 0.0
        return Silence(self.questions + 1, self.seconds + counted)


@dataclass(frozen=True, slots=True)
class DriverView:
    """What was heard from an attempt's driver in this pass.

    Attributes:
        attempt: name of the attempt.
        progress: None where it could not be asked.
        outcome: None where it has not ended, or can't be asked.
        log_outcome: from the tail of the submitter's log.
        log_tail: its last lines.
        latest: the publication that `latest` leads to; empty where there is none.
        log_file: what keeps its log on the volume; empty where nothing does.
        redo_reason: why it does finished sources again; empty where it does none.
        silence: how long it has not answered; none where it has.
    """

    attempt: str
    progress: Progress | None = None
    outcome: DriverOutcome | None = None
    log_outcome: DriverOutcome | None = None
    log_tail: tuple[str, ...] = ()
    latest: str = ""
    log_file: str = ""
    redo_reason: str = ""
    silence: Silence = Silence()


# Kubernetes' words where a webhook that has to let an object in is away, or too slow.
UNANSWERED_WEBHOOK = "failed calling webhook"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action of an earlier pass that the API server refused, or a read of this one.

    Attributes:
        what: the kind of object, as in `Resource`.
        name: of the object; empty for all of a kind.
        status: HTTP status; 0 where the server could not be reached.
        message: the server's sentence.
        verb: of a read: `get`, `list` or `watch`.
    """

    what: str
    name: str
    status: int
    message: str
    verb: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether the limit on attempts across the cluster lets another one be made.

    Attributes:
        opens_at: when it does again, in seconds since the epoch; None: never, as it is set.
        spread: seconds that those who wait need to pass it all.
    """

    is_open: bool = True
    opens_at: float | None = None
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class View:
    """The world as one pass sees it.

    Attributes:
        attempts: by number.
        rayjobs, rayclusters, pods: whatever carries the pipeline's uid as a label.
        gone_pods: last bodies of pods that were deleted while the operator watched.
        policy: retry policy with the defaults of namespace and operator merged in.
        claim: the ledger's; None where there is none.
        output: the claim for outputs; None where there is none, or none is named.
        has_kuberay: the RayJob kind is served.
        turn: what the limit on attempts across the cluster says.
        refusals: of the last pass.
        unread: what could not be read for want of rights; what depends on it is not known.
        nodes: those with overdue pods, by name.
        marks: of the nodes of pods, by uid of the pod: as they are, or were when the pod went.
        code: what the ConfigMap holds that the next attempt brings; None where there is none, or
            this pass can't make an attempt.
        namesakes: what may still run of a former pipeline of this name, by kind and name; looked
            for where this pass may make an attempt.
        sizes: of all nodes, where this pass may need them and they may be read; else None.
        notices: events about what does not get to start, in no order.
        others: pipelines that it comes after, by name, and where a run begins those before them;
            None for one that is not there. None in all: nothing begins that they have a say in.
        preflight: the Job that checks it before it runs; None where there is none, or nothing is
            to be checked.
        cpu_rules: what the namespace demands of containers, where this pass may make some.
        queue: the report of a scheduler about a waiting RayJob; None if none waits, or if unknown.
        lineage: what became of pending reports to a lineage system, by number of the attempt.
        defaults: what the namespace gives where the pipeline says nothing.
        defaults_problem: why its values are unknown; empty where they are known.
        defaults_name: name of their ConfigMap.
        defaults_digest: digest of their ConfigMap's data; empty if it is missing or unreadable.
        defaults_before: record of another pipeline in the namespace, for a pipeline without a
            status; None if there is none, or the ConfigMap exists.
    """

    pipeline: PipelineView
    attempts: tuple[AttemptObject, ...] = ()
    rayjobs: tuple[RayJob, ...] = ()
    rayclusters: tuple[RayClusterState, ...] = ()
    pods: tuple[Pod, ...] = ()
    gone_pods: tuple[Pod, ...] = ()
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    claim: VolumeClaim | None = None
    output: VolumeClaim | None = None
    driver: DriverView | None = None
    has_kuberay: bool = True
    turn: Turn = field(default_factory=Turn)
    refusals: tuple[Refusal, ...] = ()
    unread: tuple[Refusal, ...] = ()
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    marks: Mapping[str, NodeMarks] = field(default_factory=dict)
    code: CodeFiles | None = None
    namesakes: tuple[str, ...] = ()
    sizes: tuple[NodeSize, ...] | None = None
    notices: tuple[Notice, ...] = ()
    others: Mapping[str, PipelineView | None] | None = None
    defaults: SpecDefaults = field(default_factory=SpecDefaults)
    defaults_problem: str = ""
    defaults_name: str = "strandline-defaults"
    defaults_digest: str = ""
    defaults_before: DefaultsRecord | None = None
    preflight: PreflightJob | None = None
    cpu_rules: CpuRules = field(default_factory=CpuRules)
    queue: QueueState | None = None
    lineage: Mapping[int, LineageState] = field(default_factory=dict)
