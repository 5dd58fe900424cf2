"""Policies of a pipeline: reactions to failures, and what to keep.

This module defines the meaning of the fields, and returns numbers in base units. It must not depend
on the retry law, or on how the cause of an end is determined.
"""

import math
import re
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
)

from strandline_api.api_model import ApiModel, distinct
from strandline_api.notation.excerpts import shorten
from strandline_api.notation.quantities import (
    Duration,
    PositiveDuration,
    Quantity,
    parse_duration,
    parse_memory,
)
from strandline_api.outcome.causes import RETRYABLE_CAUSES, Cause, Treatment

OnChange = Literal["Fail", "Restart", "Continue", "Redo"]
OnLoss = Literal["Recreate", "Absorb"]
OnDisruption = Literal["Wait", "Allow"]

MAX_DELAY_CEILING_SECONDS = 86400.0
# Matches `0.1%` and `100%`, but not `100.5%` or `.5%`.
_PERCENT_PATTERN = r"^(100|[0-9]{1,2}(\.[0-9]{1,6})?)%$"


def _leave_defaults_to_the_cluster(schema: dict[str, Any]) -> None:
    # The API server would store a default from the CRD in every spec, so the namespace's default
    # would never apply.
    for field in schema["properties"].values():
        field.pop("default", None)


def _check_eligible(value: object) -> Cause:
    cause = next((cause for cause in Cause if cause == value), None)
    if cause is None:
        raise ValueError(
            f"must be a cause that can be retried, such as 'OOMKilled', not {shorten(value)}"
        )
    if cause.treatment is Treatment.NEVER:
        raise ValueError(f"'{cause}' is never retried; remove it from the list")
    return cause


def _check_tolerance(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError("must not be negative")
        return value
    if isinstance(value, str) and re.fullmatch(_PERCENT_PATTERN, value):
        return value
    raise ValueError(f"must be a whole number or a percentage such as '1%', not {shorten(value)}")


EligibleCause = Annotated[
    Cause,
    BeforeValidator(_check_eligible),
    WithJsonSchema({"type": "string", "enum": [cause.value for cause in RETRYABLE_CAUSES]}),
]
Tolerance = Annotated[
    int | str,
    PlainValidator(_check_tolerance),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": _PERCENT_PATTERN,
            "maxLength": 16,
        }
    ),
]


def count_tolerated(tolerance: int | str, total: int) -> int:
    """Return how many of `total` items a tolerance allows. Percentages are rounded down."""
    if isinstance(tolerance, int):
        return tolerance
    # A float could be slightly less than a whole number and would be rounded down by 1.
    return math.floor(Fraction(tolerance.removesuffix("%")) * total / 100)


class DisruptionPolicy(ApiModel):
    """Retries after disruptions, with their own budget."""

    model_config = ConfigDict(json_schema_extra=_leave_defaults_to_the_cluster)

    max_retries: int = Field(
        default=100,
        ge=0,
        description=(
            "Number of retries after a preemption, an eviction, a lost node, an interruption or a "
            "ledger in use, since the run last made progress. Defaults to 100."
        ),
    )


class RetryPolicy(ApiModel):
    """When another attempt follows a failed attempt.

    Unset fields come from the namespace's defaults, then from the operator's. `model_fields_set`
    has the names of the set fields.
    """

    model_config = ConfigDict(json_schema_extra=_leave_defaults_to_the_cluster)
    # Null means the longest possible wait, but an absent field has a shorter default.
    meaningful_nulls: ClassVar[frozenset[str]] = frozenset({"maxDelay", "max_delay"})

    max_retries: int = Field(
        default=3,
        ge=0,
        description=(
            "Number of retries since the run last made progress, not counting those after "
            "disruptions. Defaults to 3."
        ),
    )
    backoff: Literal["fixed", "exponential"] = Field(
        default="exponential",
        description=(
            "How the wait changes: 'fixed' is the same before each retry, 'exponential' grows by "
            "'multiplier'. Defaults to exponential."
        ),
    )
    delay: Duration = Field(
        default="60s",
        description="Wait before the first retry, such as '30s' or '5m'. Defaults to 60s.",
    )
    multiplier: float = Field(
        default=2,
        ge=1,
        description=(
            "Factor by which the wait grows with each retry if 'backoff' is exponential. Defaults"
            " to 2."
        ),
    )
    max_delay: Duration | None = Field(
        default="3600s",
        json_schema_extra={"nullable": True},
        description=(
            "Longest wait, before jitter is added, such as '1h'. At most 24h, which is also the "
            "meaning of null. Defaults to 3600s."
        ),
    )
    jitter: Literal["none", "deterministic", "random"] = Field(
        default="deterministic",
        description=(
            "Jitter that is added to the wait so that many retries do not start at once: 'none', "
            "'random', or 'deterministic', which is always the same for the same pipeline and "
            "retry. Defaults to deterministic."
        ),
    )
    jitter_ratio: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description=(
            "Largest jitter as a fraction of the wait, such as 0.25 for a quarter of it. Defaults"
            " to 0.25."
        ),
    )
    eligible_causes: Annotated[tuple[EligibleCause, ...], AfterValidator(distinct)] = Field(
        default=RETRYABLE_CAUSES,
        strict=False,
        max_length=64,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description=(
            "Causes of failure after which a retry may follow, such as 'OOMKilled'. Defaults to "
            "all that can be retried."
        ),
    )
    disruptions: DisruptionPolicy = Field(
        default_factory=DisruptionPolicy,
        description="Retries after disruptions, which do not count towards 'maxRetries'.",
    )
    reset_on_progress: bool = Field(
        default=True,
        description=(
            "Whether retries are counted from zero again after an attempt that finished at least "
            "1% of the remaining sources, and at least one. Defaults to true."
        ),
    )
    max_attempts: int = Field(
        default=1000,
        ge=1,
        description=(
            "Largest number of attempts of one run, regardless of how they ended. Attempts that a "
            "quota kept from starting are not counted. Defaults to 1000."
        ),
    )
    emit_retry_events: bool = Field(
        default=True,
        description="Whether a Kubernetes event is recorded for each retry. Defaults to true.",
    )

    @property
    def delay_seconds(self) -> float:
        """Seconds to wait before the first retry, without jitter."""
        return parse_duration(self.delay)

    @property
    def max_delay_seconds(self) -> float:
        """Longest wait in seconds, without jitter; at most 24 hours."""
        if self.max_delay is None:
            return MAX_DELAY_CEILING_SECONDS
        return min(parse_duration(self.max_delay), MAX_DELAY_CEILING_SECONDS)


class Quarantine(ApiModel):
    """When a source is quarantined, and how many quarantined sources a run tolerates."""

    after: int = Field(
        default=3,
        ge=1,
        description="Number of attempts in which a source has to fail before it is quarantined.",
    )
    tolerate: Tolerance = Field(
        default=0,
        description=(
            "Largest number of quarantined sources with which a run still succeeds, such as 10, or "
            "a percentage of all sources, such as '1%'."
        ),
    )

    def tolerated(self, total: int) -> int:
        """Return how many of `total` sources may be quarantined. Percentages are rounded down."""
        return count_tolerated(self.tolerate, total)


class OomPolicy(ApiModel):
    """How memory grows after an attempt that ran out of memory."""

    memory_factor: float = Field(
        default=1.5,
        ge=1,
        description=(
            "Factor by which the memory of the killed head or worker group grows, such as 1.5."
        ),
    )
    max_memory: Quantity | None = Field(
        default=None,
        description=(
            "Largest memory that a pod may grow to, such as '64Gi'. When unset, it is 90% of the "
            "memory of the largest node that the pod may use, or 8 times the requested memory if "
            "the operator finds no such node or may not list nodes."
        ),
    )

    @property
    def max_memory_bytes(self) -> int | None:
        """Maximum memory in bytes, or None for no limit."""
        return None if self.max_memory is None else parse_memory(self.max_memory)


class WorkerLoss(ApiModel):
    """How an attempt reacts to the loss of a worker pod."""

    oom: OnLoss = Field(
        default="Recreate",
        description=(
            "After a worker was killed for memory: 'Recreate' starts a new attempt with more "
            "memory, 'Absorb' continues without the worker."
        ),
    )
    disruption: OnLoss = Field(
        default="Absorb",
        description=(
            "After a worker was preempted, evicted or lost with its node: 'Recreate' starts a new"
            " attempt, 'Absorb' continues without the worker."
        ),
    )


class VoluntaryDisruptions(ApiModel):
    """Whether programs that remove nodes voluntarily have to wait for pods of an attempt."""

    model_config = ConfigDict(json_schema_extra=_leave_defaults_to_the_cluster)

    head: OnDisruption = Field(
        default="Wait",
        description=(
            "Whether Karpenter and the cluster autoscaler leave the nodes of the head and of the "
            "pod that submits the driver alone until the attempt has ended ('Wait'), or may take "
            "them ('Allow'), by annotations of the pods. Defaults to Wait."
        ),
    )
    workers: OnDisruption = Field(
        default="Allow",
        description=(
            "Whether Karpenter and the cluster autoscaler leave the nodes of workers alone "
            "('Wait'), or may take them ('Allow'). Defaults to Allow, because workers can be "
            "replaced."
        ),
    )
    pod_disruption_budget: bool = Field(
        default=False,
        description=(
            "Whether a PodDisruptionBudget also delays evictions of the pods set to 'Wait', such "
            "as those of 'kubectl drain'. Defaults to false."
        ),
    )


class Checkpoint(ApiModel):
    """How often the results of the whole run are published, and how many publications are kept."""

    interval: PositiveDuration = Field(
        default="60s", description="Time between two publications, such as '60s' or '10m'."
    )
    keep_last: int = Field(
        default=3,
        ge=1,
        description=(
            "Number of publications to keep. The one that 'latest' points to is always kept."
        ),
    )
    grace_period: Duration = Field(
        default="30s",
        description=(
            "Time to finish and save work after a request to stop, such as '30s'. Work that cannot "
            "finish in time is abandoned. When unset, only work that finishes within 5 seconds is "
            "awaited, because a node that is removed may leave only 15 seconds."
        ),
    )
    source_metrics: bool = Field(
        default=False,
        description=(
            "Whether rows, bytes and seconds of each stage are recorded with each finished "
            "source, for 'strandline ledger export --metrics'."
        ),
    )

    @property
    def interval_seconds(self) -> float:
        """Seconds between two publications."""
        return parse_duration(self.interval)

    @property
    def grace_period_seconds(self) -> float:
        """Seconds to finish and save work after a request to stop."""
        return parse_duration(self.grace_period)


class Deadlines(ApiModel):
    """Time limits of attempts and of the run."""

    attempt: PositiveDuration | None = Field(
        default=None,
        description="Longest time that one attempt may run, such as '12h'. No limit when unset.",
    )
    pre_running: PositiveDuration | None = Field(
        default=None,
        description=(
            "Longest time until the driver of an attempt runs, such as '30m'. It includes time "
            "without node capacity for the attempt's pods. When unset, the operator's setting "
            "applies, which excludes that time. For runs with `--address`: longest time until a "
            "stage with work has a worker; no limit when unset."
        ),
    )
    run: PositiveDuration | None = Field(
        default=None,
        description=(
            "Longest time of a run with all its attempts and waits, such as '7d'. Time in "
            "suspension, in a queue or without node capacity for its pods does not count. No "
            "limit when unset."
        ),
    )
    stall: PositiveDuration = Field(
        default="600s",
        description=(
            "Longest time without an answer from the driver, such as '600s', before the attempt "
            "ends as Stalled."
        ),
    )

    @property
    def attempt_seconds(self) -> float | None:
        """Maximum duration of an attempt in seconds, or None for no limit."""
        return None if self.attempt is None else parse_duration(self.attempt)

    @property
    def pre_running_seconds(self) -> float | None:
        """Maximum seconds until the driver runs, or None to use the operator's setting."""
        return None if self.pre_running is None else parse_duration(self.pre_running)

    @property
    def run_seconds(self) -> float | None:
        """Maximum duration of a run with all attempts in seconds, or None for no limit."""
        return None if self.run is None else parse_duration(self.run)

    @property
    def stall_seconds(self) -> float:
        """Maximum seconds without a sign of life from the driver."""
        return parse_duration(self.stall)
