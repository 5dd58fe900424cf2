"""Reports the start and the end of attempts to a lineage system. Errors never fail an attempt.

Reports are built from the attempt's folder, so the next attempt can report the end of a killed
driver. An operator that reports lineage reports such ends itself. OpenLineage's own environment
variables configure whether and where to report.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, NamedTuple

from strandline.plan.pipeline import PipelinePlan
from strandline.run.insight.lineage.marker import BEGUN, ENDED, read_marker, write_marker
from strandline.run.insight.records import AttemptRecord, read_record
from strandline.run.insight.samples import read_samples
from strandline.storage.layout import PipelineFolder
from strandline_api.names import ATTEMPT_VARIABLE, LINEAGE_VARIABLE
from strandline_api.outcome.lineage import is_wanted, keeping_variables

LISTENER_SECONDS = 10.0  # seconds that a listener may delay the end of an attempt
Begin = Callable[[int, str], None]


class ClusterAttempt(NamedTuple):
    """Name that the operator gives an attempt, if the operator reports lineage too.

    The operator counts attempts that never started a driver, so its numbers differ from the numbers
    in the folder.
    """

    pipeline_uid: str
    number: int


def read_cluster_attempt(environment: Mapping[str, str]) -> ClusterAttempt | None:
    """Return the operator's name of the attempt, or None if no operator reports lineage."""
    uid, number = environment.get(LINEAGE_VARIABLE, ""), environment.get(ATTEMPT_VARIABLE, "")
    return ClusterAttempt(uid, int(number)) if uid and number.isdecimal() else None


@contextmanager
def reporting(
    plan: PipelinePlan,
    folder: PipelineFolder,
    engine: str,
    environment: Mapping[str, str],
    note: Callable[[str], None],
) -> Iterator[Begin]:
    """Report an attempt that starts in the block, and report its end when the block ends.

    Args:
        note: receives a sentence if reporting fails.

    Yields:
        A callback that takes the attempt's number and the location of its outputs.
    """
    if not is_wanted(environment):
        yield lambda _number, _output: None
        return
    reporter = LineageReporter(plan, folder, engine, note, read_cluster_attempt(environment))
    try:
        yield reporter.begin
    finally:
        reporter.end()


class LineageReporter:
    """Sends events in order, each from a thread of its own.

    Args:
        note: receives a sentence if reporting fails.
        cluster: the operator's name of the attempt, or None if no operator reports lineage.
    """

    def __init__(
        self,
        plan: PipelinePlan,
        folder: PipelineFolder,
        engine: str,
        note: Callable[[str], None],
        cluster: ClusterAttempt | None = None,
    ) -> None:
        self._plan, self._folder, self._engine = plan, folder, engine
        self._note, self._cluster = note, cluster
        self._number: int | None = None
        self._output = ""
        self._threads: list[threading.Thread] = []

    def begin(self, number: int, output: str) -> None:
        """Report the start of an attempt. Also report the end of the previous attempt if needed."""
        self._number, self._output = number, output
        self._start(self._report_begin)

    def end(self) -> None:
        """Report the end of the attempt. Wait for the listener, but at most `LISTENER_SECONDS`."""
        if self._number is None:
            return
        self._start(self._report_end)
        self._threads[-1].join(LISTENER_SECONDS)
        if self._threads[-1].is_alive():
            after = "the operator" if self._cluster else "the next attempt"
            self._note(
                f"lineage: the lineage system does not respond; {after} reports the end of "
                "this attempt"
            )

    def _start(self, report: Callable[[], None]) -> None:
        before = self._threads[-1] if self._threads else None

        def work() -> None:
            if before is not None:
                before.join()
            try:
                report()
            except ImportError:
                self._note(
                    "lineage: the client that the environment requests is missing; install "
                    "strandline[lineage]"
                )
            except Exception as error:  # noqa: BLE001 - whatever a listener does, the run goes on
                self._note(f"lineage: reporting failed: {type(error).__name__}: {error}")

        # Use a daemon thread, so that a hanging listener does not keep the process alive.
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _report_begin(self) -> None:
        assert self._number is not None
        record = read_record(self._folder, self._number)
        assert record is not None  # the attempt writes its record before it calls `begin`
        # If an operator reports lineage, it has already reported the previous end, with its cause.
        before = None if self._cluster else record.previous
        if before is not None and read_marker(self._folder, before) == BEGUN:
            self._send_end(before)
        self._send(self._events().make_start(record))
        write_marker(self._folder, self._number, BEGUN)

    def _report_end(self) -> None:
        assert self._number is not None
        self._send_end(self._number)

    def _send_end(self, number: int) -> None:
        record = read_record(self._folder, number)
        if record is None or record.outcome is None or record.ended is None:
            return
        self._send(self._events().make_end(record, self._read_counts(record)))
        write_marker(self._folder, number, ENDED)

    def _read_counts(self, record: AttemptRecord) -> dict[str, Any]:
        samples = read_samples(self._folder, record.number)
        return samples.counts if samples else {}

    def _events(self) -> Any:  # noqa: ANN401 - a class of an extra that may be missing
        from strandline.run.insight.lineage.events import (  # noqa: PLC0415 - it needs the extra
            AttemptEvents,
        )

        return AttemptEvents(
            self._plan, self._output, self._engine, version("strandline"), self._cluster
        )

    def _send(self, event: Any) -> None:  # noqa: ANN401 - the same
        client = _make_client()
        try:
            client.emit(event)
        finally:
            client.close(LISTENER_SECONDS)


def _make_client() -> Any:  # noqa: ANN401 - a class of an extra that may be missing
    from openlineage.client import OpenLineageClient  # noqa: PLC0415 - it needs the extra

    with keeping_variables(os.environ):
        return OpenLineageClient()
