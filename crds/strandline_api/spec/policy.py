"""How a pipeline behaves when things go wrong, and what it keeps.

This room says what the fields mean and gives their numbers in base units. It must not know the
retry law, nor how to find out why an attempt ended.
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
from strandline_api.outcome.causes import RETRYABLE_CAUSES, Cause, Treatment
from strandline_api.quantities import (
    Duration,
    PositiveDuration,
    Quantity,
    parse_duration,
    parse_memory,
    shorten,
)

OnChange = Literal["Fail", "Restart", "Continue"]
OnLoss = Literal["Recreate", "Absorb"]

MAX_DELAY_CEILING_SECONDS = 86400.0
_PERCENT_PATTERN = r"^(100|[0-9]{1,2}(\.[0-9]{1,6})?)%$"


def _leave_defaults_to_the_cluster(schema: dict[str, Any]) -> None:
    # A default in the CRD would be stored in every spec, and the namespace's own could never win.
    for field in schema["properties"].values():
        field.pop("default", None)


def _check_eligible(value: object) -> Cause:
    cause = next((cause for cause in Cause if cause == value), None)
    if cause is None:
        raise ValueError(
            f"must be a cause that can be retried, such as 'OOMKilled', not {shorten(value)}"
        )
    if cause.treatment is Treatment.NEVER:
        raise ValueError(f"'{cause}' is never retried; leave it out")
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


class DisruptionPolicy(ApiModel):
    """Retries after disruptions, which have a budget of their own."""

    model_config = ConfigDict(json_schema_extra=_leave_defaults_to_the_cluster)

    max_retries: int = Field(
        default=100,
        ge=0,
        description=(
            "Retries after preemption, eviction, a lost node, an interruption, a quota without "
            "room or a ledger in use. Defaults to 100."
        ),
    )


class RetryPolicy(ApiModel):
    """When another attempt follows one that ended badly.

    A field that is not given is taken from the namespace's defaults, then from the operator's;
    `model_fields_set` tells which ones are given.
    """

    model_config = ConfigDict(json_schema_extra=_leave_defaults_to_the_cluster)
    meaningful_nulls: ClassVar[frozenset[str]] = frozenset({"maxDelay", "max_delay"})

    max_retries: int = Field(
        default=3,
        ge=0,
        description="Retries since the last progress, disruptions apart. Defaults to 3.",
    )
    backoff: Literal["fixed", "exponential"] = Field(
        default="exponential",
        description="Whether the wait grows from retry to retry. Defaults to exponential.",
    )
    delay: Duration = Field(
        default="60s", description="Wait before the first retry. Defaults to 60s."
    )
    multiplier: float = Field(
        default=2,
        ge=1,
        description="Growth of the wait per retry, where backoff is exponential. Defaults to 2.",
    )
    max_delay: Duration | None = Field(
        default="3600s",
        json_schema_extra={"nullable": True},
        description="Longest wait before jitter, at most 24h; null means 24h. Defaults to 3600s.",
    )
    jitter: Literal["none", "deterministic", "random"] = Field(
        default="deterministic",
        description=(
            "What is added to the wait so that many retries do not start at once. "
            "Defaults to deterministic."
        ),
    )
    jitter_ratio: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="Greatest jitter as a share of the wait, from 0 to 1. Defaults to 0.25.",
    )
    eligible_causes: Annotated[tuple[EligibleCause, ...], AfterValidator(distinct)] = Field(
        default=RETRYABLE_CAUSES,
        strict=False,
        max_length=64,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description="Causes after which a retry may follow. Defaults to all that can be retried.",
    )
    disruptions: DisruptionPolicy = Field(
        default_factory=DisruptionPolicy,
        description="Retries after disruptions, which never use up maxRetries.",
    )
    reset_on_progress: bool = Field(
        default=True,
        description=(
            "Count retries anew after an attempt that finished at least 1% of the sources that "
            "were left, and at least one. Defaults to true."
        ),
    )
    max_attempts: int = Field(
        default=1000,
        ge=1,
        description="Attempts of one run, whatever they ended with. Defaults to 1000.",
    )
    emit_retry_events: bool = Field(
        default=True,
        description="Record a Kubernetes event for each retry. Defaults to true.",
    )

    @property
    def delay_seconds(self) -> float:
        """Wait before the first retry, without jitter."""
        return parse_duration(self.delay)

    @property
    def max_delay_seconds(self) -> float:
        """Longest wait before jitter; never more than 24 hours."""
        if self.max_delay is None:
            return MAX_DELAY_CEILING_SECONDS
        return min(parse_duration(self.max_delay), MAX_DELAY_CEILING_SECONDS)


class Quarantine(ApiModel):
    """When a source is parked, and how many parked ones a run may have."""

    after: int = Field(
        default=3, ge=1, description="Attempts in which a source failed before it is parked."
    )
    tolerate: Tolerance = Field(
        default=0,
        description="Parked sources with which a run still succeeds: a number or '1%' of all.",
    )

    def tolerated(self, total: int) -> int:
        """Count the parked sources that are fine among `total`; a percentage is rounded down."""
        if isinstance(self.tolerate, int):
            return self.tolerate
        return math.floor(Fraction(self.tolerate.removesuffix("%")) * total / 100)


class OomPolicy(ApiModel):
    """What follows an attempt that ran out of memory."""

    memory_factor: float = Field(
        default=1.5, ge=1, description="Growth of the memory of what was killed, per kill."
    )
    max_memory: Quantity | None = Field(
        default=None,
        description="Limit of that growth, such as '64Gi'. When unset, nine tenths of what the "
        "largest node that is there has for such a pod, if nodes may be listed.",
    )

    @property
    def max_memory_bytes(self) -> int | None:
        """Limit of the growth in bytes; None without one."""
        return None if self.max_memory is None else parse_memory(self.max_memory)


class WorkerLoss(ApiModel):
    """What the loss of a worker pod means for the attempt."""

    oom: OnLoss = Field(
        default="Recreate",
        description="After a kill for memory: start the attempt anew, or go on without the worker.",
    )
    disruption: OnLoss = Field(
        default="Absorb",
        description="After a disruption: start the attempt anew, or go on without the worker.",
    )


class Checkpoint(ApiModel):
    """How often results of the run as a whole are published, and how many are kept."""

    interval: PositiveDuration = Field(
        default="60s", description="Time from one publication to the next."
    )
    keep_last: int = Field(
        default=3, ge=1, description="Publications kept; the one 'latest' names always is."
    )
    grace_period: Duration = Field(
        default="30s", description="Time to finish and save work after a request to stop."
    )
    source_metrics: bool = Field(
        default=False,
        description="Keep with each finished source the rows, bytes and seconds of each stage, "
        "for 'strandline ledger export --metrics'. The engine 'ray-data' keeps none.",
    )

    @property
    def interval_seconds(self) -> float:
        """Time from one publication to the next."""
        return parse_duration(self.interval)

    @property
    def grace_period_seconds(self) -> float:
        """Time to finish and save work after a request to stop."""
        return parse_duration(self.grace_period)


class Deadlines(ApiModel):
    """How long things may take before they count as failed."""

    attempt: PositiveDuration | None = Field(
        default=None, description="Longest time of one attempt. No limit when unset."
    )
    pre_running: PositiveDuration | None = Field(
        default=None,
        description="Longest time until an attempt's driver runs. The operator's when unset.",
    )
    run: PositiveDuration | None = Field(
        default=None, description="Longest time of all attempts of a run. No limit when unset."
    )
    stall: PositiveDuration = Field(
        default="600s", description="Longest time without a sign of life of the driver."
    )

    @property
    def attempt_seconds(self) -> float | None:
        """Longest time of one attempt; None without a limit."""
        return None if self.attempt is None else parse_duration(self.attempt)

    @property
    def pre_running_seconds(self) -> float | None:
        """Longest time until the driver runs; None where the operator decides."""
        return None if self.pre_running is None else parse_duration(self.pre_running)

    @property
    def run_seconds(self) -> float | None:
        """Longest time of all attempts of a run; None without a limit."""
        return None if self.run is None else parse_duration(self.run)

    @property
    def stall_seconds(self) -> float:
        """Longest time without a sign of life."""
        return parse_duration(self.stall)
