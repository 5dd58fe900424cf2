"""Garbage collection that skips long-lived objects of the cluster.

The module must not depend on the kinds of these objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

# A collection stops the process: meanwhile streams, passes, and probes wait.
LONG = 0.05
# Frozen reference cycles stay in memory until then; each deleted pipeline leaves some.
WHOLE_AFTER = 3600.0
_OLDEST = 2  # the generation whose collection includes all others


class GarbageWatch:
    """Callback for Python's garbage collections; see `gc.callbacks`.

    With 5,000 pipelines a full collection takes 0.8 s and finds almost nothing: object bodies have
    no cycles, and are freed when they are replaced.

    Args:
        clock: seconds.
        freeze: excludes the current objects from later collections.
        thaw: includes all objects again.
    """

    def __init__(
        self, clock: Callable[[], float], freeze: Callable[[], None], thaw: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._freeze = freeze
        self._thaw = thaw
        self._begun = self._whole = clock()

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] < _OLDEST:
            return
        if phase == "start":
            self._begun = self._clock()
            # Otherwise an operator that runs for months would grow with each deleted pipeline.
            if self._begun - self._whole > WHOLE_AFTER:
                self._whole = self._begun
                self._thaw()
        # Below this duration a collection is cheap enough to repeat, and frees cycles early.
        elif self._clock() - self._begun > LONG:
            self._freeze()
