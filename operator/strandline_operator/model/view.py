"""All inputs of one pass, immutable. Decisions depend on nothing else."""

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

# A driver is unreachable after this many unanswered requests over this many seconds.
FEWEST_QUESTIONS = 3
SHORTEST_SILENCE = 60.0


@dataclass(frozen=True, slots=True)
class PipelineView:
    """A pipeline.

    Attributes:
        spec: parsed spec; None if it is invalid.
        problems: problems of the spec, one sentence for each.
        has_status: whether the pipeline was processed before; a new or restored pipeline has no
            status.
        manifest: the stored pipeline: apiVersion, kind, metadata, spec.
        unknown: paths of fields that this operator does not support and ignores.
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
    """An attempt of a pipeline."""

    meta: Meta
    spec: AttemptSpec
    status: AttemptStatus


@dataclass(frozen=True, slots=True)
class Silence:
    """Consecutive unanswered requests of this process to a driver.

    Time before the first request is unknown, so it does not count.

    Attributes:
        questions: number of requests.
        seconds: time between the first and the last request, with long pauses shortened.
    """

    questions: int = 0
    seconds: float = 0.0

    @property
    def is_lasting(self) -> bool:
        """Return True if the failure is persistent, not a single lost packet."""
        return self.questions >= FEWEST_QUESTIONS and self.seconds >= SHORTEST_SILENCE

    def is_longer_than(self, limit: float) -> bool:
        """Return whether the silence exceeds a limit in seconds."""
        return self.is_lasting and self.seconds > limit

    def prolong(self, pause: float, longest: float) -> Silence:
        """Return the silence extended by one unanswered request.

        Args:
            pause: seconds since the previous request; any value if a clock was set.
            longest: maximum seconds that count for one request.
        """
        counted = min(max(0.0, pause), longest) if self.questions else 0.0
        return Silence(self.questions + 1, self.seconds + counted)


@dataclass(frozen=True, slots=True)
class DriverView:
    """Information from an attempt's driver, as of this pass.

    Attributes:
        attempt: name of the attempt.
        progress: latest progress; None if the driver could not be reached.
        outcome: final report; None if the driver has not ended, or can't be reached.
        log_outcome: outcome from the end of the submitter's log.
        log_tail: last lines of that log.
        latest: publication to which `latest` points; empty if there is none.
        log_file: file with its log on the volume; empty if there is none.
        redo_reason: why it processes finished sources again; empty if it does not do so.
        silence: current silence; empty if the driver answered.
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


# Kubernetes' message for a required admission webhook that is unavailable or too slow.
UNANSWERED_WEBHOOK = "failed calling webhook"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action of an earlier pass, or a read of this pass, that the API server refused.

    Attributes:
        what: kind of the object, as in `Resource`.
        name: name of the object; empty for all objects of a kind.
        status: HTTP status; 0 if the server was unreachable.
        message: the server's message.
        verb: for a read: `get`, `list` or `watch`.
    """

    what: str
    name: str
    status: int
    message: str
    verb: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether the cluster-wide rate limit permits another attempt.

    Attributes:
        opens_at: time when the limit permits the next attempt, in seconds since the epoch; None if
            never.
        spread: seconds until the limit has admitted all waiting pipelines.
    """

    is_open: bool = True
    opens_at: float | None = None
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class View:
    """All observations of one pass.

    Attributes:
        attempts: attempts by number.
        rayjobs, rayclusters, pods: objects with the pipeline's uid in their labels.
        gone_pods: last states of pods that were deleted while the operator watched.
        policy: retry policy with the defaults of namespace and operator merged in.
        claim: the ledger's claim; None if it does not exist.
        output: the claim for outputs; None if it does not exist, or none is configured.
        has_kuberay: whether the RayJob kind is served.
        turn: state of the cluster-wide rate limit for attempts.
        refusals: refusals of the last pass.
        unread: reads without permission; anything that depends on them is unknown.
        nodes: nodes with overdue pods, by name.
        marks: marks of the pods' nodes by pod uid, current or as of the pod's deletion.
        code: ConfigMap for the next attempt's code; None if it does not exist, or if this pass
            can't create an attempt.
        namesakes: running remains of a former pipeline of this name, by kind and name; read only if
            this pass may create an attempt.
        sizes: sizes of all nodes, if this pass needs them and they are readable; otherwise None.
        notices: events about objects that do not start, unordered.
        others: predecessors by name, before a new run also indirect ones; the value is None for a
            missing pipeline. None if no pending start depends on them.
        preflight: Job of the preflight check; None if it does not exist, or no check is due.
        cpu_rules: the namespace's rules for containers, if this pass may create some.
        queue: a scheduler's report on a waiting RayJob; None if none waits, or if unknown.
        lineage: results of pending reports to a lineage system, by attempt number.
        defaults: the namespace's defaults for fields that the pipeline does not set.
        defaults_problem: reason why the defaults are unknown; empty if they are known.
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
