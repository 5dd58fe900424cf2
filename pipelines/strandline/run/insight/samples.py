"""Records an attempt over time: a limited series of counts, thinned out as it grows.

Counts only grow, so dropping a point loses detail but no work: the work between two remaining
points is their difference. The module has no clock, and the only files it reads are samples.
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

LIMIT = 500  # even, so thinning out `LIMIT + 1` samples keeps both ends
INTERVAL = 2.0  # seconds between two samples at first

Point = TypeVar("Point")


class StagePoint(NamedTuple):
    """Input of a stage so far: number of tasks, and of rows in their tables."""

    tasks: int
    rows: int


class Sample(NamedTuple):
    """Counts of an attempt at one moment.

    Attributes:
        seconds: time since the start of the attempt.
        finished, failed: number of sources so far.
        stages: input of the stages, in pipeline order.
    """

    seconds: float
    finished: int
    failed: int
    stages: tuple[StagePoint, ...]


class Samples(BaseModel):
    """The stored samples of an attempt. Later versions may add fields.

    Attributes:
        begun: start of the attempt, in seconds since the epoch.
        stages: names of the stages, in the order of each sample's points.
        samples: the samples, in the order of time.
        counts: latest counts by stage name; empty in files of older releases.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    begun: float
    stages: tuple[str, ...]
    samples: tuple[Sample, ...] = Field(max_length=LIMIT)
    counts: dict[str, StageCounts] = {}


class Series:
    """A series of at most `LIMIT` samples.

    Attributes:
        interval: seconds between two samples; doubles when half of the samples are dropped.
    """

    def __init__(self, interval: float = INTERVAL) -> None:
        self.interval = interval
        self._samples: list[Sample] = []

    @property
    def samples(self) -> Sequence[Sample]:
        """The remaining samples: the first, the last, and evenly spaced samples between them."""
        return self._samples

    def is_due(self, seconds: float) -> bool:
        """Return True if the next sample is due."""
        return not self._samples or seconds >= self._samples[-1].seconds + self.interval

    def add(self, sample: Sample) -> None:
        """Add a sample that is later than all others. A sample with the same time is replaced."""
        if self._samples and sample.seconds <= self._samples[-1].seconds:
            self._samples.pop()
        self._samples.append(sample)
        if len(self._samples) > LIMIT:
            del self._samples[1::2]
            self.interval *= 2


def thin(points: Sequence[Point], limit: int) -> list[Point]:
    """Return at most `limit` (2 or more) evenly spaced points, with the first and the last."""
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
    """Return an attempt's samples, or None if they are missing or unreadable.

    Samples with impossible times count as unreadable.
    """
    try:
        samples = Samples.model_validate_json(locate_samples(folder, attempt).read_bytes())
    except (OSError, ValidationError):
        return None
    times = (samples.begun, *(sample.seconds for sample in samples.samples))
    return samples if all(0 <= time < END_OF_TIME for time in times) else None


def count_done(record: AttemptRecord, samples: Samples) -> int:
    """Return the number of sources that finished or failed in an attempt."""
    known = record.outcome.sources if record.outcome else SourceCounts()
    last = samples.samples[-1] if samples.samples else Sample(0.0, 0, 0, ())
    # Take the larger numbers: a killed attempt has no outcome, and otherwise the last sample may be
    # older than the outcome.
    return max(known.finished, last.finished) + max(known.failed, last.failed)


def measure_stages(folder: PipelineFolder) -> dict[str, float]:
    """Return the seconds that each stage's own code needs per source, by stage name.

    Attempts in which a stage had no work do not count for that stage. Several sources may share a
    task.
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
