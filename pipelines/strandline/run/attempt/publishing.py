"""When an attempt publishes, and what: how far it is and what went through each stage."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Counts
from strandline.run.attempt.gather import Gatherer
from strandline.run.attempt.takeover import Held
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.publications import publish, retain
from strandline_api.spec.policy import Checkpoint


@dataclass(slots=True)
class Publisher:
    """Publishes an attempt's state in its folder, and keeps the newest publications.

    Attributes:
        interval: seconds from one publication to the next.
        keep_last: publications to keep.
        gatherer: what stages gather is published too.
        now: seconds from any fixed point.
        time: wall clock, seconds since the epoch.
    """

    folder: PipelineFolder
    attempt: int
    plan: PipelinePlan
    interval: float
    keep_last: int
    gatherer: Gatherer
    now: Callable[[], float]
    time: Callable[[], float]
    _due: float = field(init=False)

    def __post_init__(self) -> None:
        self._due = self.now() + self.interval

    def publish_due(self, sources: Callable[[], dict[str, Any]], counts: dict[str, Counts]) -> None:
        """Publish if the interval is over.

        Args:
            sources: gives how the sources stand, by what the ledger has confirmed.
        """
        if self.now() < self._due or not self.gatherer.is_ready():
            return
        self.publish(sources(), counts, is_final=False)
        self._due = self.now() + self.interval

    def publish(
        self, sources: dict[str, Any], counts: dict[str, Counts], *, is_final: bool
    ) -> None:
        """Publish now.

        Raises:
            VolumeError: the volume can't be written to; what was published before stays.
        """
        stages = {name: asdict(each) for name, each in counts.items()}
        metrics = json.dumps({"sources": sources, "stages": stages}, indent=1).encode()
        facts: dict[str, JsonValue] = {
            "pipeline": f"{self.plan.namespace}/{self.plan.name}",
            "run": self.plan.run_id,
            "fingerprint": self.plan.fingerprint.digest,
            "attempt": self.attempt,
            "time": self.time(),
            "isFinal": is_final,
            "sources": sources,
        }
        with self.gatherer.artifacts() as artifacts, self.gatherer.heart.trusting():
            files: dict[str, bytes | Path] = {"metrics.json": metrics, **artifacts}
            made = publish(self.folder, self.attempt, files, facts)
            retain(self.folder, self.keep_last, made)


def make_publisher(
    plan: PipelinePlan,
    checkpoint: Checkpoint,
    held: Held,
    gatherer: Gatherer,
    now: Callable[[], float],
    time: Callable[[], float],
) -> Publisher:
    """The publisher of an attempt."""
    interval, keep_last = checkpoint.interval_seconds, checkpoint.keep_last
    return Publisher(held.folder, held.attempt, plan, interval, keep_last, gatherer, now, time)
