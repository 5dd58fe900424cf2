"""Makes records and outcomes of attempts, which tests of a run start from."""

from __future__ import annotations

from typing import Any

from strandline.run.insight.records import AttemptRecord
from strandline.storage.volume.locks import Process
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome, SourceCounts
from strandline_api.outcome.evidence import Evidence, read_exit
from strandline_api.status.enums import Trigger

BOOT = "boot-1"
DRIVER = Process(100, 1000)
# Manifest of a pipeline over the text files of a folder.
LETTERS = """
apiVersion: strandline.dev/v1alpha1
kind: CurationPipeline
metadata: {name: letters}
spec:
  source: {use: files, with: {paths: ["FOLDER/*.txt"]ON_REMOVED}}
  stages: [{use: read-files}]
  sink: {use: jsonl}
"""


def record_of(number: int, **changes: Any) -> AttemptRecord:
    """Return the record of a running attempt."""
    return AttemptRecord(
        number=number,
        run="first",
        trigger=Trigger.RUN,
        previous=number - 1 or None,
        ledger="ledger-id",
        boot=BOOT,
        pid=DRIVER.pid,
        process_started=DRIVER.started,
        started=1000.0 * number,
    ).model_copy(update=changes)


def outcome_of(
    code: int,
    attempt: int = 1,
    *,
    finished: int = 0,
    remaining: int | None = None,
    evidence: tuple[Evidence, ...] | None = None,
    message: str = "",
) -> DriverOutcome:
    """Return the outcome of an attempt whose driver ended with this exit code."""
    seen = tuple(filter(None, [read_exit(code)])) if evidence is None else evidence
    return DriverOutcome(
        exit_code=code,
        message=message or (seen[0].message if seen else "complete"),
        attempt=attempt,
        sources=SourceCounts(finished=finished),
        remaining=remaining,
        evidence=seen,
    )


def killed_for(cause: Cause, attempt: int = 1, **counts: int) -> DriverOutcome:
    """Return the outcome of an attempt that was killed for a cause."""
    evidence = (Evidence(cause, f"seen as {cause}", "test"),)
    return outcome_of(137, attempt, evidence=evidence, **counts)  # type: ignore[arg-type]
