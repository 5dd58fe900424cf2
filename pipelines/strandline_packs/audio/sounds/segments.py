"""Finds segments of speech in a sequence of probabilities, while the sequence is still growing.

A window is the unit of time: the detector returns a probability for each. The module is pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_HYSTERESIS = 0.15  # speech goes on down to this distance below the threshold


class Segment(NamedTuple):
    """Speech from `start` to `end` in seconds, with padding, and its mean probability."""

    start: float
    end: float
    probability: float


@dataclass(frozen=True)
class SegmentLimits:
    """Limits of segments.

    Attributes:
        window: length of a window in seconds.
        threshold: probability at which speech begins.
        min_speech: minimum length of speech, without padding, in seconds.
        min_silence: length of a pause that ends a segment.
        max_length: maximum length of a segment, with padding.
        padding: added before and after speech, at most half of `min_silence`.
    """

    window: float
    threshold: float
    min_speech: float
    min_silence: float
    max_length: float
    padding: float


class SpeechCutter:
    """Yields segments as soon as they are complete.

    Args:
        limits: limits of segments.

    Attributes:
        short: number of segments that were too short.
    """

    def __init__(self, limits: SegmentLimits) -> None:
        self.short = 0
        self._limits = limits
        self._at = 0  # number of windows so far
        self._voiced = 0  # end of the last window with speech
        self._begin: int | None = None  # first window of the current segment
        self._probabilities: list[float] = []  # of the current segment
        self._is_continued = False  # whether the current segment begins at a cut
        self._most = int((limits.max_length - 2 * limits.padding) / limits.window)
        self._pause = max(1, round(limits.min_silence / limits.window))

    @property
    def needed(self) -> float:
        """The time in seconds from which later segments need the sound."""
        begin = self._at if self._begin is None else self._begin
        return max(0.0, begin * self._limits.window - self._limits.padding)

    def add(self, probability: float) -> Iterator[Segment]:
        """Add a window, and yield a segment that it completes."""
        threshold = self._limits.threshold
        if self._begin is None and probability >= threshold:
            self._begin, self._probabilities = self._at, []
        self._at += 1
        if self._begin is None:
            return
        self._probabilities.append(probability)
        if probability >= threshold - _HYSTERESIS:
            self._voiced = self._at
        if self._at - self._voiced >= self._pause:
            yield from self._close()
        elif len(self._probabilities) >= self._most:
            yield from self._cut()

    def finish(self) -> Iterator[Segment]:
        """Yield the segment that the end of the sound completes, if any."""
        if self._begin is not None:
            yield from self._close()

    def _close(self) -> Iterator[Segment]:
        assert self._begin is not None
        size = self._voiced - self._begin
        # Speech that continues after a cut stays, however short: a word must not get lost.
        if self._is_continued or size * self._limits.window >= self._limits.min_speech:
            yield from self._build(size, self._limits.padding)
        else:
            self.short += 1
        self._begin, self._is_continued = None, False

    def _cut(self) -> Iterator[Segment]:
        """Cut a long segment in its second half, where speech is least probable."""
        assert self._begin is not None
        middle = self._most // 2
        later = self._probabilities[middle:]
        size = middle + 1 + min(range(len(later)), key=later.__getitem__)
        yield from self._build(size, 0.0)
        self._begin += size
        self._probabilities = self._probabilities[size:]
        self._is_continued = True

    def _build(self, size: int, after: float) -> Iterator[Segment]:
        begin, window = self._begin, self._limits.window
        assert begin is not None
        if size <= 0:  # only silence followed the cut
            return
        before = 0.0 if self._is_continued else self._limits.padding
        mean = sum(self._probabilities[:size]) / size
        yield Segment(max(0.0, begin * window - before), (begin + size) * window + after, mean)
