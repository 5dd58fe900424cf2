"""When an attempt publishes, and what: how far it is and what went through each stage."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from strandline.engine.core.ports import RunProgress
from strandline.plan.receipt import StageCounts
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.gather import Gatherer
from strandline.run.attempt.takeover import TakenFolder
from strandline.run.history.sampling import Sampler
from strandline.storage.volume.publications import publish, retain


@dataclass(slots=True)
class Publisher:
    """Publishes an attempt's state in its folder, and keeps the newest publications.

    Attributes:
        config: of the attempt; its `checkpoint` says how often, and how many are kept.
        held: its folder.
        gatherer: what stages gather is published too.
        now: seconds from any fixed point.
        time: wall clock, seconds since the epoch.
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
        """Publish if the interval is over.

        Args:
            sources: gives how the sources stand, by what the ledger has confirmed.
        """
        if self.now() < self._due or not self.gatherer.is_ready():
            return
        self.publish(sources(), counts, is_final=False)
        self._due = self.now() + self.config.checkpoint.interval_seconds

    def publish(
        self, sources: dict[str, Any], counts: dict[str, StageCounts], *, is_final: bool
    ) -> None:
        """Publish now.

        Raises:
            VolumeError: the volume can't be written to; what was published before stays.
        """
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
            files: dict[str, bytes | Path] = {"metrics.json": metrics, **artifacts}
            made = publish(folder, attempt, files, facts)
            retain(folder, self.config.checkpoint.keep_last, made)


def report_publishing(
    report: Callable[[RunProgress], None], publisher: Publisher, sampler: Sampler
) -> Callable[[RunProgress], None]:
    """Return a report that also takes samples and publishes, every so often."""

    def report_and_keep(progress: RunProgress) -> None:
        report(progress)
        sampler.report(progress)
        publisher.publish_due(lambda: _render_sources(progress), progress.flow.counts)

    return report_and_keep


def _render_sources(progress: RunProgress) -> dict[str, Any]:
    """Return how the sources stand in the middle of an attempt.

    Finished ones as the ledger says.
    """
    return {
        "total": progress.listed if progress.is_listed else None,
        "finished": progress.finished,
        "failed": len(progress.flow.failed),
        "skipped": progress.skipped,
    }
