"""All that one pass has read, frozen. Decisions see this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strandline_api.attempt import AttemptSpec, AttemptStatus
from strandline_api.outcomes import DriverOutcome
from strandline_api.pipeline import PipelineSpec
from strandline_api.spec_policy import RetryPolicy
from strandline_api.status import PipelineStatus, Progress
from strandline_operator.model.nodes import NodeView
from strandline_operator.model.objects import Claim, Meta, Pod, RayCluster, RayJob


@dataclass(frozen=True, slots=True)
class PipelineView:
    """The pipeline.

    Attributes:
        spec: None where it is invalid.
        problems: why, a sentence each.
        has_status: it was seen before; a new or restored one has none.
        text: the manifest for the driver, as YAML would be read: apiVersion, kind, metadata, spec.
    """

    meta: Meta
    spec: PipelineSpec | None
    problems: tuple[str, ...]
    status: PipelineStatus
    has_status: bool
    manifest: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One attempt of it."""

    meta: Meta
    spec: AttemptSpec
    status: AttemptStatus


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
    """

    attempt: str
    progress: Progress | None = None
    outcome: DriverOutcome | None = None
    log_outcome: DriverOutcome | None = None
    log_tail: tuple[str, ...] = ()
    latest: str = ""


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
        taken: RayJobs of a name that we want and that others own, by name.
        policy: retry policy with the defaults of namespace and operator merged in.
        claim: the ledger's; None where there is none.
        has_kuberay: the RayJob kind is served.
        turn: what the limit on attempts across the cluster says.
        refusals: of the last pass.
        unread: what could not be read for want of rights; what depends on it is not known.
        nodes: those whose pods are overdue, by name.
    """

    pipeline: PipelineView
    attempts: tuple[AttemptView, ...] = ()
    rayjobs: tuple[RayJob, ...] = ()
    rayclusters: tuple[RayCluster, ...] = ()
    pods: tuple[Pod, ...] = ()
    gone_pods: tuple[Pod, ...] = ()
    taken: frozenset[str] = frozenset()
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    claim: Claim | None = None
    driver: DriverView | None = None
    has_kuberay: bool = True
    turn: Turn = field(default_factory=Turn)
    refusals: tuple[Refusal, ...] = ()
    unread: tuple[Refusal, ...] = ()
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
