"""Builds OpenLineage events for the end of an attempt, with the classes of its client.

Only this module uses those classes, and it is imported only if events are sent. Run, parent, and
job match the driver's own events. The module is pure, and must not depend on which ends are
reported.
"""

from __future__ import annotations

from datetime import UTC, datetime

import attr
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    error_message_run,
    job_type_job,
    parent_run,
)

from strandline_api.notation.times import format_time
from strandline_api.outcome.lineage import (
    PRODUCER,
    name_attempt_run,
    name_end,
    name_parent_run,
)
from strandline_operator.model.plan import AttemptEnd

# Must differ from the driver's facet `strandline`, which this facet would otherwise replace.
FACET = "strandline_operator"
_SCHEMA = f"{PRODUCER}/schemas/openlineage-operator-run-facet-1.json"


@attr.define
class OperatorRunFacet(RunFacet):
    """The operator's information about an attempt.

    Attributes:
        attempt: name of the CurationAttempt.
        started: time at which its RayJob was created, or left its queue.
        retries, disruptions: retries that the run has used since its last progress, by budget.
        sources: number of sources by state, as last reported by the driver.
    """

    attempt: str
    number: int
    started: str | None = attr.field(default=None)
    cause: str | None = attr.field(default=None)
    retries: int | None = attr.field(default=None)
    disruptions: int | None = attr.field(default=None)
    sources: dict[str, int | None] = attr.field(factory=dict)

    @staticmethod
    def _get_schema() -> str:
        return _SCHEMA


def make_end(end: AttemptEnd, now: float) -> RunEvent:
    """Return the event for the end of an attempt.

    Args:
        now: current time in seconds since the epoch, used if the end has no time.
    """
    status = end.status
    end_time = now if status.end_time is None else status.end_time
    run = name_attempt_run(end.pipeline_uid, end.run, end.number)
    kind = job_type_job.JobTypeJobFacet("BATCH", "STRANDLINE", "PIPELINE", producer=PRODUCER)
    facets: dict[str, JobFacet] = {"jobType": kind}
    return RunEvent(
        eventTime=datetime.fromtimestamp(end_time, UTC).isoformat(),
        eventType=RunState[name_end(status.cause)],
        producer=PRODUCER,
        run=Run(run, _describe_run(end)),
        job=Job(end.namespace, end.pipeline, facets),
    )


def _describe_run(end: AttemptEnd) -> dict[str, RunFacet]:
    status = end.status
    facets: dict[str, RunFacet] = {
        "parent": parent_run.ParentRunFacet(
            parent_run.Run(name_parent_run(end.pipeline_uid, end.run)),
            parent_run.Job(end.namespace, end.pipeline),
            producer=PRODUCER,
        ),
        FACET: _describe_attempt(end),
    }
    if status.cause is not None:
        message = f"{status.cause}: {status.message}"
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message, "PYTHON", producer=PRODUCER
        )
    return facets


def _describe_attempt(end: AttemptEnd) -> OperatorRunFacet:
    status, retries = end.status, end.retries
    return OperatorRunFacet(
        attempt=end.name,
        number=end.number,
        started=None if status.start_time is None else format_time(status.start_time),
        cause=status.cause.value if status.cause else None,
        retries=retries.retries if retries else None,
        disruptions=retries.disruptions if retries else None,
        sources=_count_sources(end),
        producer=PRODUCER,
    )


def _count_sources(end: AttemptEnd) -> dict[str, int | None]:
    progress = end.status.progress
    if progress is None:
        return {}
    return {
        "total": progress.total,
        "finished": progress.finished,
        "failed": progress.failed,
        "quarantined": progress.quarantined,
        "skipped": progress.skipped,
        "unfinished": progress.unfinished,
    }
