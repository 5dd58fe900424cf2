"""All that one pass has read, frozen. Decisions see this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strandline_api.attempt import AttemptSpec, AttemptStatus
from strandline_api.outcomes import DriverOutcome
from strandline_api.pipeline import PipelineSpec
from strandline_api.spec_policy import RetryPolicy
from strandline_api.status import PipelineStatus, Progress
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
    """

    attempt: str
    progress: Progress | None = None
    outcome: DriverOutcome | None = None
    log_outcome: DriverOutcome | None = None
    log_tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action of an earlier pass that the API server refused.

    Attributes:
        what: the kind of object, as in `Resource`.
        name: of the object.
        status: HTTP status; 0 where the server could not be reached.
        message: the server's sentence.
    """

    what: str
    name: str
    status: int
    message: str


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
        may_dispatch: the limit on attempts across the cluster allows another one now.
        refusals: of the last pass.
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
    may_dispatch: bool = True
    refusals: tuple[Refusal, ...] = ()
