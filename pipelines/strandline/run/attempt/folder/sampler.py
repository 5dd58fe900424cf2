"""Writes an attempt's samples to a file beside its record, for the plots of `strandline report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from strandline.engine.core.ports import RunProgress
from strandline.plan.receipt import StageCounts
from strandline.run.insight.samples import Sample, Samples, Series, StagePoint, locate_samples
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.whole_files import show_whole

KEEP_SECONDS = 10.0  # maximum interval between writes, even if samples are rarer


class Sampler:
    """Samples the progress of an attempt every few seconds.

    Args:
        folder: folder of the pipeline.
        attempt: number of the attempt.
        now: monotonic clock, in seconds.
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
        self._keep_at = 0.0

    def report(self, progress: RunProgress) -> None:
        """Take a sample if the next sample is due."""
        self._failed = progress.failed
        seconds = self._now() - self._begun
        is_due = self._series.is_due(seconds)
        if is_due or seconds >= self._keep_at:
            counts = progress.flow.counts
            if is_due:
                self._sample(progress.finished, counts)
            self._keep(counts)

    def take(self, finished: int, counts: Mapping[str, StageCounts]) -> None:
        """Take a sample now, with the number of failed sources from the last report."""
        self._sample(finished, counts)
        self._keep(counts)

    def _sample(self, finished: int, counts: Mapping[str, StageCounts]) -> None:
        points = tuple(StagePoint(each.tasks_in, each.rows_in) for each in counts.values())
        seconds = round(self._now() - self._begun, 3)
        self._series.add(Sample(seconds, finished, self._failed, points))

    def _keep(self, counts: Mapping[str, StageCounts]) -> None:
        """Write all samples and the current counts to the file.

        The file is written regularly even without a new sample: samples get rare in a long attempt,
        and a kill gives no time to write.
        """
        self._keep_at = self._now() - self._begun + KEEP_SECONDS
        samples = tuple(self._series.samples)
        kept = Samples(begun=self._time, stages=tuple(counts), samples=samples, counts=dict(counts))
        show_whole(self._path, kept.model_dump_json().encode())
