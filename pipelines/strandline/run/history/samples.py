"""How an attempt went over time: a bounded series of counts, coarsened as it grows.

Counts only grow, so a point that is left out costs detail and no work: what was done between two
points that are kept is their difference. Pure; when to look and where to keep it is `sampling`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from strandline.engine.core.ports import Progress
from strandline.plan.receipt import Counts
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.whole_files import show_whole

LIMIT = 500  # even, so that halving one more than this keeps both ends
INTERVAL = 2.0

Point = TypeVar("Point")


class StagePoint(NamedTuple):
    """What went into a stage so far: tasks, and rows of their tables."""

    tasks: int
    rows: int


class Sample(NamedTuple):
    """An attempt at one moment.

    Attributes:
        seconds: since it began.
        finished, failed: sources so far.
        stages: in pipeline order.
    """

    seconds: float
    finished: int
    failed: int
    stages: tuple[StagePoint, ...]


class Samples(BaseModel):
    """What is kept of an attempt; later versions may say more.

    Attributes:
        begun: seconds since the epoch.
        stages: their names, in the order of each sample's.
        samples: with growing seconds and counts.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    begun: float
    stages: tuple[str, ...]
    samples: tuple[Sample, ...] = Field(max_length=LIMIT)


class Series:
    """Takes samples, and keeps at most `LIMIT` of them.

    Attributes:
        interval: seconds from one sample to the next; it doubles when half of them are dropped.
    """

    def __init__(self, interval: float = INTERVAL) -> None:
        self.interval = interval
        self._samples: list[Sample] = []

    @property
    def samples(self) -> Sequence[Sample]:
        """Those that are kept: the first, the last and others in even steps."""
        return self._samples

    def is_due(self, seconds: float) -> bool:
        """True where it is time for another sample."""
        return not self._samples or seconds >= self._samples[-1].seconds + self.interval

    def add(self, sample: Sample) -> None:
        """Take a sample that is later than all before; one of the same moment takes its place."""
        if self._samples and sample.seconds <= self._samples[-1].seconds:
            self._samples.pop()
        self._samples.append(sample)
        if len(self._samples) > LIMIT:
            del self._samples[1::2]
            self.interval *= 2


def thin(points: Sequence[Point], limit: int) -> list[Point]:
    """At most `limit` (2 or more) of the points, in even steps, with the first and the last."""
    if len(points) <= limit:
        return list(points)
    last = len(points) - 1
    return [points[place * last // (limit - 1)] for place in range(limit)]


SAMPLES = "samples.json"
END_OF_TIME = 1e11  # seconds since the epoch, in the year 5138


class Sampler:
    """Looks at an attempt every few seconds.

    Args:
        folder: of the pipeline.
        attempt: its number.
        now: seconds from any fixed point.
        time: wall clock, seconds since the epoch.
    """

    def __init__(
        self,
        folder: PipelineFolder,
        attempt: int,
        now: Callable[[], float],
        time: Callable[[], float],
    ) -> None:
        self._path = locate_samples(folder, attempt)
        self._now, self._begun, self._time = now, now(), time()
        self._series = Series()
        self._failed = 0

    def report(self, progress: Progress) -> None:
        """Take a sample, where it is time to."""
        self._failed = len(progress.flow.failed)
        if self._series.is_due(self._now() - self._begun):
            counts = {queue.name: queue.counts for queue in progress.flow.queues}
            self.take(progress.finished, counts)

    def take(self, finished: int, counts: Mapping[str, Counts]) -> None:
        """Take a sample now; what has failed is known from the last report."""
        points = tuple(StagePoint(each.tasks_in, each.rows_in) for each in counts.values())
        seconds = round(self._now() - self._begun, 3)
        self._series.add(Sample(seconds, finished, self._failed, points))
        samples = tuple(self._series.samples)
        kept = Samples(begun=self._time, stages=tuple(counts), samples=samples)
        show_whole(self._path, kept.model_dump_json().encode())


def locate_samples(folder: PipelineFolder, attempt: int) -> Path:
    """The file of an attempt's samples."""
    return folder.attempt(attempt) / SAMPLES


def read_samples(folder: PipelineFolder, attempt: int) -> Samples | None:
    """An attempt's samples; None where there are none that can be read, at times that can be."""
    try:
        samples = Samples.model_validate_json(locate_samples(folder, attempt).read_bytes())
    except (OSError, ValidationError):
        return None
    times = (samples.begun, *(sample.seconds for sample in samples.samples))
    return samples if all(0 <= time < END_OF_TIME for time in times) else None
