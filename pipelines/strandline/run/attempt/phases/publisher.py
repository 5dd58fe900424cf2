"""Publishes an attempt's progress and the counts of its stages.

If the pipeline has requirements, readers see only complete runs that meet them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from strandline.engine.core.ports import RunProgress
from strandline.ledger.checks.completeness import find_gaps
from strandline.ledger.store.store import Store
from strandline.plan.receipt import StageCounts
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.folder.sampler import Sampler
from strandline.run.attempt.folder.takeover import TakenFolder
from strandline.run.attempt.outcome import AttemptResult, refuse_publishing
from strandline.run.release.gate.measures import measure_run
from strandline.run.release.gate.requirements import list_unmet
from strandline.run.release.gatherer import Artifacts, Gatherer
from strandline.storage.outputs.remote import open_outputs
from strandline.storage.volume.publications import publish, retain
from strandline_api.outcome.exit_codes import ExitCode

METRICS, RECIPE = "metrics.json", "recipe.json"  # names of published files
UNJUDGED = "the run is not complete, so the requirements of `publish.require` were not checked"


@dataclass(slots=True)
class Publisher:
    """Publishes an attempt's state in its folder, and keeps only the newest publications.

    Attributes:
        config: configuration of the attempt, with the interval and the number of publications to
            keep.
        held: folder of the pipeline.
        gatherer: provides the statistics of stages, which are published too.
        now: monotonic clock, in seconds.
        time: wall clock, in seconds since the epoch.
    """

    config: AttemptConfig
    held: TakenFolder
    gatherer: Gatherer
    now: Callable[[], float]
    time: Callable[[], float]
    _due: float = field(init=False)

    def __post_init__(self) -> None:
        self._due = self.now() + self.config.checkpoint.interval_seconds

    def publish_due(
        self, sources: Callable[[], dict[str, Any]], counts: dict[str, StageCounts]
    ) -> None:
        """Publish if the interval since the last publication is over.

        Args:
            sources: returns the source counts that the ledger has confirmed.

        Raises:
            VolumeError: if the volume is not writable. Earlier publications stay.
        """
        if self.now() < self._due or not self.gatherer.is_ready():
            return
        self._publish(sources(), counts, lambda _: self._withhold(), is_final=False)
        # Start the interval at the end of the publication: if a publication on a slow volume took
        # longer than the interval, the next would otherwise start immediately.
        self._due = self.now() + self.config.checkpoint.interval_seconds

    def publish_end(self, result: AttemptResult, store: Store) -> AttemptResult:
        """Publish the result of the attempt. If a requirement is unmet, return an adjusted result.

        Raises:
            LedgerError, VolumeError: if a file can't be read or written. Earlier publications stay.
        """
        unmet: list[str] = []

        def judge(artifacts: Artifacts) -> list[str]:
            require = self.config.publishing
            # If the merge failed, the statistics are outdated or missing.
            is_whole = result.code is ExitCode.COMPLETE and self.gatherer.failure is None
            if require is None or not is_whole:
                return list(self._withhold())
            unmet.extend(self._judge(result, store, artifacts))
            return unmet

        sources = result.sources.model_dump()
        self._publish(sources, result.counts, judge, is_final=True)
        return refuse_publishing(result, unmet) if unmet else result

    def _judge(self, result: AttemptResult, store: Store, artifacts: Artifacts) -> list[str]:
        assert self.config.publishing is not None
        require, held = self.config.publishing.require, self.held
        measured = measure_run(require, store, held.location, held.folder.shards, artifacts)
        # If the files are verified, missing files are reported anyway, so do not look for them
        # here.
        gaps = find_gaps(store, None if require.verified else open_outputs(held.location))
        measured = replace(measured, listed=result.total or 0, quarantined=gaps.quarantined)
        return [*gaps.list_sentences(), *list_unmet(require, measured)]

    def _withhold(self) -> tuple[str, ...]:
        return () if self.config.publishing is None else (UNJUDGED,)

    def _publish(
        self,
        sources: dict[str, Any],
        counts: dict[str, StageCounts],
        judge: Callable[[Artifacts], Sequence[str]],
        *,
        is_final: bool,
    ) -> None:
        plan, folder, attempt = self.config.plan, self.held.folder, self.held.attempt
        stages = {name: asdict(each) for name, each in counts.items()}
        metrics = json.dumps({"sources": sources, "stages": stages}, indent=1).encode()
        facts: dict[str, JsonValue] = {
            "pipeline": f"{plan.namespace}/{plan.name}",
            "run": plan.run_id,
            "fingerprint": plan.fingerprint.digest,
            "attempt": attempt,
            "time": self.time(),
            "isFinal": is_final,
            "sources": sources,
        }
        with self.gatherer.artifacts() as artifacts, self.gatherer.heartbeat.trusting():
            recipe = json.dumps(plan.fingerprint.parts).encode()
            files: dict[str, bytes | Path] = {METRICS: metrics, RECIPE: recipe, **artifacts}
            made = publish(folder, attempt, files, facts, judge(artifacts))
            retain(folder, self.config.checkpoint.keep_last, made)


def report_publishing(
    report: Callable[[RunProgress], None], publisher: Publisher, sampler: Sampler
) -> Callable[[RunProgress], None]:
    """Return a report function that also takes samples and publishes at intervals."""

    def report_and_keep(progress: RunProgress) -> None:
        report(progress)
        sampler.report(progress)
        publisher.publish_due(lambda: _render_sources(progress), progress.flow.counts)

    return report_and_keep


def _render_sources(progress: RunProgress) -> dict[str, Any]:
    """Return source counts during an attempt.

    Finished sources are counted only after the ledger has committed them.
    """
    return {
        "total": progress.listed if progress.is_listed else None,
        "finished": progress.finished,
        "failed": progress.failed,
        "skipped": progress.skipped,
    }
