"""Builds OpenLineage events for an attempt, with the classes of OpenLineage's client.

An attempt is an OpenLineage run, all attempts of a run share a parent run, and the pipeline is the
job. Only this module uses the client's classes, and it is imported only if lineage is enabled. This
module does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlsplit

import attr
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    RunFacet,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    processing_engine_run,
)

from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import StageCounts
from strandline.plan.stages.stage import Params
from strandline.run.insight.records import AttemptRecord
from strandline.storage.outputs.remote import resolve_location
from strandline_api.outcome.lineage import PRODUCER, name_attempt_run, name_end, name_parent_run

_SCHEMA = f"{PRODUCER}/schemas/openlineage-run-facet-1.json"
_WILDCARD = re.compile(r"[*?\[{]")


@attr.define
class StrandlineRunFacet(RunFacet):
    """Facts about an attempt and its sources. Counts are absent while the attempt is running."""

    attempt: int
    trigger: str
    ledger: str
    fingerprint: str
    cause: str | None = attr.field(default=None)
    sources: dict[str, int | None] = attr.field(factory=dict)
    stages: dict[str, dict[str, int]] = attr.field(factory=dict)

    @staticmethod
    def _get_schema() -> str:
        return _SCHEMA


class DataLocation(NamedTuple):
    """A data location in OpenLineage's notation."""

    namespace: str
    name: str


class AttemptEvents:
    """Builds the events of a pipeline's attempts.

    Args:
        plan: the plan of the pipeline.
        output: folder or URL of the outputs.
        engine: name of the engine.
        version: version of this distribution.
        named: scope and number that identify the attempt's run, or None to use the ledger's ID and
            the attempt's number.
    """

    def __init__(
        self,
        plan: PipelinePlan,
        output: str,
        engine: str,
        version: str,
        named: tuple[str, int] | None = None,
    ) -> None:
        self._plan, self._output = plan, output
        self._engine, self._version = engine, version
        self._named = named

    def make_start(self, record: AttemptRecord) -> RunEvent:
        """Return the event for the start of an attempt."""
        return self._make(record, RunState.START, record.started, {})

    def make_end(self, record: AttemptRecord, counts: Mapping[str, StageCounts]) -> RunEvent:
        """Return the event for the end of an attempt, regardless of which process recorded the end.

        Args:
            counts: counts of the attempt's stages, as far as known.
        """
        assert record.outcome is not None  # callers pass only ended attempts
        assert record.ended is not None
        state = RunState[name_end(record.cause)]
        return self._make(record, state, record.ended, counts)

    def _make(
        self,
        record: AttemptRecord,
        state: RunState,
        time: float,
        counts: Mapping[str, StageCounts],
    ) -> RunEvent:
        return RunEvent(
            eventTime=datetime.fromtimestamp(time, UTC).isoformat(),
            eventType=state,
            producer=PRODUCER,
            run=Run(self._name_run(record), self._describe_run(record, counts)),
            job=self._name_job(),
            inputs=[InputDataset(*location) for location in list_inputs(self._plan)],
            outputs=[self._describe_output(counts)],
        )

    def _name_run(self, record: AttemptRecord) -> str:
        scope, number = self._named or (record.ledger, record.number)
        return name_attempt_run(scope, record.run, number)

    def _name_parent(self, record: AttemptRecord) -> str:
        scope, _ = self._named or (record.ledger, record.number)
        return name_parent_run(scope, record.run)

    def _name_job(self) -> Job:
        kind = job_type_job.JobTypeJobFacet("BATCH", "STRANDLINE", "PIPELINE", producer=PRODUCER)
        return Job(self._plan.namespace, self._plan.name, {"jobType": kind})

    def _describe_run(
        self, record: AttemptRecord, counts: Mapping[str, StageCounts]
    ) -> dict[str, RunFacet]:
        parent = parent_run.ParentRunFacet(
            parent_run.Run(self._name_parent(record)),
            parent_run.Job(self._plan.namespace, self._plan.name),
            producer=PRODUCER,
        )
        engine = processing_engine_run.ProcessingEngineRunFacet(
            self._version, f"Strandline ({self._engine})", producer=PRODUCER
        )
        own = StrandlineRunFacet(
            attempt=record.number,
            trigger=record.trigger.value,
            ledger=record.ledger,
            fingerprint=self._plan.fingerprint.digest,
            cause=record.cause.value if record.cause else None,
            sources=record.outcome.sources.model_dump() if record.outcome else {},
            stages={name: _describe_stage(each) for name, each in counts.items()},
            producer=PRODUCER,
        )
        facets: dict[str, RunFacet] = {
            "parent": parent,
            "processing_engine": engine,
            "strandline": own,
        }
        if record.outcome is not None and record.outcome.exit_code:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                record.outcome.message, "PYTHON", producer=PRODUCER
            )
        return facets

    def _describe_output(self, counts: Mapping[str, StageCounts]) -> OutputDataset:
        location = name_location(self._output)
        written = counts.get(self._plan.stages[-1].name)
        if written is None:
            return OutputDataset(*location)
        facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=written.rows_in, fileCount=written.tasks_in - written.failed, producer=PRODUCER
        )
        return OutputDataset(*location, outputFacets={"outputStatistics": facet})


def list_inputs(plan: PipelinePlan) -> list[DataLocation]:
    """Return the locations that the source stage names. For a glob, return its folder."""
    params = plan.source.stage.params
    found = params.list_places() if isinstance(params, Params) else ()
    folders = [_find_folder(location) for _, location in found]
    return list(dict.fromkeys(name_location(folder) for folder in folders if folder))


def name_location(location: str) -> DataLocation:
    """Name a path or URL as OpenLineage does, without credentials."""
    parts = urlsplit(resolve_location(location))
    if not parts.netloc:
        return DataLocation("file", parts.path)
    # Remove the text before `@`, which may contain a password.
    host = parts.netloc.rpartition("@")[2]
    return DataLocation(f"{parts.scheme}://{host}", parts.path.strip("/") or "/")


def _find_folder(pattern: str) -> str:
    """Return a path, or for a pattern the folder that it searches; empty if the folder varies."""
    # Take the deepest folder without a wildcard: `a` for `a/b*.txt`.
    fixed, *rest = _WILDCARD.split(pattern, maxsplit=1)
    return fixed.rpartition("/")[0] if rest else fixed


def _describe_stage(counts: StageCounts) -> dict[str, int]:
    return {
        "tasksIn": counts.tasks_in,
        "tasksOut": counts.tasks_out,
        "filtered": counts.filtered,
        "failed": counts.failed,
        "rowsIn": counts.rows_in,
        "rowsOut": counts.rows_out,
    }
