"""How an attempt went over time: a bounded series of counts, coarsened as it grows.

Counts only grow, so a point that is left out costs detail and no work: what was done between two
points that are kept is their difference. A series knows no clock, and is only read here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from strandline.plan.receipt import StageCounts
from strandline.run.insight.records import AttemptRecord, read_chain
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.driver_outcome import SourceCounts

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
        counts: of each stage so far, by its name; older releases kept none.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    begun: float
    stages: tuple[str, ...]
    samples: tuple[Sample, ...] = Field(max_length=LIMIT)
    counts: dict[str, StageCounts] = {}


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
        """Return whether it is time for another sample."""
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
    return [points[location * last // (limit - 1)] for location in range(limit)]


SAMPLES = "samples.json"
END_OF_TIME = 1e11  # seconds since the epoch, in the year 5138


def locate_samples(folder: PipelineFolder, attempt: int) -> Path:
    """Return the file of an attempt's samples."""
    return folder.attempt(attempt) / SAMPLES


def read_samples(folder: PipelineFolder, attempt: int) -> Samples | None:
    """Return an attempt's samples.

    None where there are none that can be read, at times that can be.
    """
    try:
        samples = Samples.model_validate_json(locate_samples(folder, attempt).read_bytes())
    except (OSError, ValidationError):
        return None
    times = (samples.begun, *(sample.seconds for sample in samples.samples))
    return samples if all(0 <= time < END_OF_TIME for time in times) else None


def count_done(record: AttemptRecord, samples: Samples) -> int:
    """Return how many sources an attempt has brought to an end."""
    known = record.outcome.sources if record.outcome else SourceCounts()
    last = samples.samples[-1] if samples.samples else Sample(0.0, 0, 0, ())
    return max(known.finished, last.finished) + max(known.failed, last.failed)


def measure_stages(folder: PipelineFolder) -> dict[str, float]:
    """Return the seconds of its own work that a stage takes for a source, by its name.

    Only attempts count in which it had something to do; several sources may share a task.
    """
    seconds: dict[str, float] = {}
    sources = Counter[str]()
    for record in read_chain(folder):
        samples = read_samples(folder, record.number)
        if samples is None:
            continue
        for name, counts in samples.counts.items():
            if counts.tasks_in:
                seconds[name] = seconds.get(name, 0.0) + counts.seconds
                sources[name] += count_done(record, samples)
    return {name: seconds[name] / number for name, number in sources.items() if number}
