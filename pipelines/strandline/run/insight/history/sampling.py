"""Reads the samples of an attempt, which lie beside its record."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from strandline.run.insight.history.records import AttemptRecord
from strandline.run.insight.history.samples import Sample, Samples
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.driver_outcome import SourceCounts

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
