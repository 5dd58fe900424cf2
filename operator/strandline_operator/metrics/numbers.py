"""Counters, histograms, and gauges, and the page that serves them.

Label values are bounded: names of pipelines or pods are never used. One label has namespaces with
pipelines as values, because an alert must name the namespace of a failed run. This module must not
depend on why a value is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.work_lost import WorkLost
from strandline_api.status.pipeline_status import Progress
from strandline_api.status.reasons import Reason
from strandline_operator.metrics.listening import Page
from strandline_operator.model.plan import Count, CounterName, HistogramName, MetricName

PREFIX = "strandline_"
# Upper bounds of buckets in seconds, from a minute to two weeks. Buckets for waits start at one
# second.
_DURATIONS = (60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 259200, 604800, 1209600)
_WAITS = (1, 5, 15, 30, 60, 120, 300, 900, 1800, 3600, 14400, 86400)
_DELAYS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300)
_PASSES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_COUNTERS: dict[CounterName, str] = {
    "attempts": "Ended attempts, by cause.",
    "retry_scheduled": "Scheduled retries, by cause of the previous attempt's end.",
    "retry_exhausted": "Runs that ended because no retry was left, by the last cause.",
    "retry_succeeded": "Successful retries, by cause of the previous attempt's end.",
    "workers_lost": "Workers lost while their attempt continued, by cause.",
    "work_lost_seconds": "Seconds of repeated work, by reason of the loss.",
    "status_refused": "Status writes that the API server rejected.",
}
_HISTOGRAMS: dict[HistogramName, tuple[str, tuple[float, ...]]] = {
    "attempt_seconds": ("Duration of attempts, by cause.", _DURATIONS),
    "retry_wait_seconds": ("Wait before a retry, by cause of the previous attempt's end.", _WAITS),
    "recovery_seconds": ("Time from an attempt's end until the driver of its retry runs.", _WAITS),
    "attempt_delay_seconds": (
        "Time from an attempt's due time to the creation of its object.",
        _DELAYS,
    ),
}
_PLAIN = frozenset({"status_refused"})  # counters without a cause label
COMPLETED = "Completed"  # value of the cause label for an attempt that succeeded
_SOURCE_STATES = ("finished", "failed", "quarantined", "unfinished")
_REASONS = frozenset(reason.value for reason in Reason) - {Reason.COMPLETED.value}
_CAUSES = frozenset({COMPLETED, *(cause.value for cause in Cause)})


class Numbers:
    """All metrics of one operator."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._counters: dict[MetricName, Counter] = {
            name: self._count(name, documentation, *(() if name in _PLAIN else ("cause",)))
            for name, documentation in _COUNTERS.items()
        }
        self._histograms: dict[MetricName, Histogram] = {
            name: Histogram(
                PREFIX + name, documentation, ["cause"], buckets=buckets, registry=self.registry
            )
            for name, (documentation, buckets) in _HISTOGRAMS.items()
        }
        self._passes = Histogram(
            PREFIX + "reconcile_duration_seconds",
            "Duration of a pass over one pipeline, by outcome.",
            ["outcome"],
            buckets=_PASSES,
            registry=self.registry,
        )
        self._errors = self._count("reconcile_errors", "Failed passes.")
        self._ends = self._count(
            "lineage_events",
            "Reports of attempts to a lineage system, by outcome: sent, failed or dropped.",
            "outcome",
        )
        self._requests = self._count(
            "api_requests",
            "Requests to the API server, by verb, kind and HTTP status (0: no response).",
            "verb",
            "resource",
            "code",
        )
        self._sources = self._gauge("sources", "Sources of active runs by state.", "state")
        self._waiting = self._gauge(
            "pipelines",
            "Pipelines with an unfinished run, by reason of their condition Succeeded.",
            "reason",
        )
        self._over = self._gauge(
            "pipelines_over",
            "Pipelines with a finished run, by namespace, and by cause or Completed.",
            "pipeline_namespace",
            "result",
        )
        self._refused = self._gauge(
            "namespace_refused",
            "1 for a watched namespace in which the operator may not list pipelines.",
            "watched_namespace",
        )
        self._queue = self._gauge("queue_depth", "Pipelines that wait for a pass.")
        self._lag = self._gauge(
            "queue_lag_seconds", "Longest time that a due pass has been waiting."
        )
        self._ages = self._gauge(
            "watch_age_seconds", "Seconds since the last event of a watch.", "resource"
        )
        self._progress: dict[str, Progress] = {}
        self._reasons: dict[str, str] = {}
        self._results: dict[str, tuple[str, str]] = {}

    def note(self, count: Count) -> None:
        """Record one count of a metric, as in a plan."""
        labels = WorkLost.model_fields if count.name == "work_lost_seconds" else _CAUSES
        cause = count.cause if count.cause in labels else ""
        if count.name in self._histograms:
            self._histograms[count.name].labels(cause).observe(max(0.0, count.value))
        elif count.name in _PLAIN:
            self._counters[count.name].inc(count.value)
        else:
            self._counters[count.name].labels(cause).inc(count.value)

    def note_pass(self, seconds: float, outcome: str) -> None:
        """Count a pass, which ended as `done`, `again`, or `failed`."""
        self._passes.labels(outcome).observe(max(0.0, seconds))
        if outcome == "failed":
            self._errors.inc()

    def note_request(self, verb: str, resource: str, code: int) -> None:
        """Count a completed request to the API server."""
        self._requests.labels(verb, resource, str(code)).inc()

    def note_lineage(self, outcome: str) -> None:
        """Count an attempt's end that was `sent`, has `failed`, or was `dropped` unsent.

        Any thread may call this method.
        """
        self._ends.labels(outcome).inc()

    def note_progress(self, pipeline: str, progress: Progress | None) -> None:
        """Set a run's progress, or None if the run has ended or its pipeline was deleted."""
        if progress is None:
            self._progress.pop(pipeline, None)
        else:
            self._progress[pipeline] = progress

    def note_reason(self, pipeline: str, reason: str) -> None:
        """Set the reason of a run's condition `Succeeded`; empty if no run is active."""
        if reason:
            self._reasons[pipeline] = reason if reason in _REASONS else ""
        else:
            self._reasons.pop(pipeline, None)

    def note_result(self, pipeline: str, namespace: str, result: str) -> None:
        """Set a pipeline's last result; empty if a run is active or the pipeline is gone."""
        before = self._results.pop(pipeline, None)
        if result:
            self._results[pipeline] = (namespace, result if result in _CAUSES else "")
        for labels in {each for each in (before, self._results.get(pipeline)) if each is not None}:
            number = list(self._results.values()).count(labels)
            self._over.labels(*labels).set(number)
            if not number:  # otherwise, values of deleted namespaces would remain
                self._over.remove(*labels)

    def note_refused(self, namespace: str, is_refused: bool) -> None:  # noqa: FBT001 - one of two values
        """Record whether the operator lacks access to a watched namespace."""
        self._refused.labels(namespace).set(is_refused)

    def watch_queue(self, depth: Callable[[], float], lag: Callable[[], float]) -> None:
        """Register functions that provide the queue's gauges whenever the page is requested."""
        self._queue.set_function(depth)
        self._lag.set_function(lag)
        for state in _SOURCE_STATES:
            self._sources.labels(state).set_function(partial(self._sum, state))
        for reason in _REASONS:
            self._waiting.labels(reason).set_function(partial(self._number, reason))

    def watch_age(self, resource: str, age: Callable[[], float]) -> None:
        """Register a function that provides the age of a watch's last event."""
        self._ages.labels(resource).set_function(age)

    @property
    def page(self) -> Page:
        """The page that serves all metrics."""
        page: Page = make_wsgi_app(self.registry)
        return page

    def _sum(self, state: str) -> float:
        return float(sum(getattr(progress, state) for progress in list(self._progress.values())))

    def _number(self, reason: str) -> float:
        return float(list(self._reasons.values()).count(reason))

    def _count(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, documentation, labels, registry=self.registry)

    def _gauge(self, name: str, documentation: str, *labels: str) -> Gauge:
        return Gauge(PREFIX + name, documentation, labels, registry=self.registry)
