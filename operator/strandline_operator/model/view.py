"""All inputs of one pass, as immutable data. Decisions depend on nothing else."""

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

# Minimum number of unanswered requests, and of seconds, after which a driver counts as unreachable.
FEWEST_QUESTIONS = 3
SHORTEST_SILENCE = 60.0


@dataclass(frozen=True, slots=True)
class PipelineView:
    """A pipeline, as observed by one pass.

    Attributes:
        spec: parsed spec, or None if it is invalid.
        problems: problems of the spec, one sentence each.
        has_status: whether the operator has processed the pipeline before. A new or restored
            pipeline has no status.
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
    """Consecutive requests of this process to which a driver did not respond.

    Time before the first request is unknown, so it does not count.

    Attributes:
        questions: number of requests.
        seconds: seconds between the first and the last request; long pauses count in part.
    """

    questions: int = 0
    seconds: float = 0.0

    @property
    def is_lasting(self) -> bool:
        """Return True if the failure is persistent, not a single lost packet."""
        return self.questions >= FEWEST_QUESTIONS and self.seconds >= SHORTEST_SILENCE

    def is_longer_than(self, limit: float) -> bool:
        """Return True if the silence is longer than a limit in seconds."""
        return self.is_lasting and self.seconds > limit

    def prolong(self, pause: float, longest: float) -> Silence:
        """Return the silence extended by one more request without a response.

        Args:
            pause: seconds since the previous request; can be any value if a clock was set.
            longest: maximum seconds that one request adds.
        """
        counted = min(max(0.0, pause), longest) if self.questions else 0.0
        return Silence(self.questions + 1, self.seconds + counted)


@dataclass(frozen=True, slots=True)
class DriverView:
    """Information from an attempt's driver, as of this pass.

    Attributes:
        attempt: name of the attempt.
        progress: latest progress, or None if the driver was never reached.
        outcome: final report, or None if the driver has not ended or was not reached.
        log_outcome: outcome from the end of the submitter's log, or None.
        log_tail: last lines of that log.
        latest: publication to which `latest` points; empty if there is none.
        log_file: path of the driver's log on the volume; empty if there is none.
        redo_reason: why the driver reprocesses finished sources; empty if it does not.
        silence: current silence; empty if the driver responded.
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


# Part of Kubernetes' message about a required admission webhook that is unavailable or too slow.
UNANSWERED_WEBHOOK = "failed calling webhook"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action of an earlier pass, or a read of this pass, that the API server rejected.

    Attributes:
        what: kind of the object, as in `Resource`.
        name: name of the object; empty for all objects of a kind.
        status: HTTP status; 0 if the server was unreachable.
        message: the server's message.
        verb: `get`, `list`, or `watch` for a read; empty for an action.
    """

    what: str
    name: str
    status: int
    message: str
    verb: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether the rate limit of the cluster permits another attempt now.

    Attributes:
        is_open: whether an attempt is permitted now.
        opens_at: time at which the limit permits the next attempt, in seconds since the epoch, or
            None if never.
        spread: seconds until the limit has admitted all waiting pipelines.
    """

    is_open: bool = True
    opens_at: float | None = None
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class View:
    """All observations of one pass.

    Attributes:
        attempts: attempts in order of their numbers.
        rayjobs, rayclusters, pods: objects with the pipeline's uid in their labels.
        gone_pods: last states of pods that were deleted while the operator watched.
        policy: retry policy with the defaults of namespace and operator merged in.
        claim: the ledger's claim, or None if it does not exist.
        output: the claim for outputs, or None if it does not exist or is not configured.
        has_kuberay: whether the server serves the RayJob kind.
        turn: state of the cluster-wide rate limit for attempts.
        refusals: requests of the last pass that the server rejected.
        unread: reads without permission. Their results are unknown, not empty.
        nodes: states of nodes with overdue pods, by name.
        marks: marks of the pods' nodes by pod uid, current or as of the pod's deletion.
        code: ConfigMap with the code for the next attempt, or None if it does not exist or this
            pass can't create an attempt.
        namesakes: kinds and names of objects of an earlier pipeline with this name that may still
            run; read only if this pass may create an attempt.
        sizes: sizes of all nodes, or None if this pass does not need them or can't read them.
        notices: events about objects that do not start, unordered.
        others: predecessors by name; before a new run, also indirect predecessors. A missing
            pipeline has the value None. None if no start is pending that depends on them.
        preflight: Job of the preflight check, or None if it does not exist or is not needed.
        cpu_rules: the namespace's CPU rules, if this pass may create containers.
        queue: a scheduler's report on a waiting RayJob, or None.
        lineage: results of pending reports to a lineage system, by attempt number.
        defaults: the namespace's defaults for fields that the pipeline does not set.
        defaults_problem: why the defaults are unknown; empty if they are known.
        defaults_name: name of the ConfigMap with the defaults.
        defaults_digest: digest of that ConfigMap's data; empty if it is missing or unreadable.
        defaults_before: another pipeline's record of the defaults, for a pipeline without a status,
            or None if there is no record or the ConfigMap exists.
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
