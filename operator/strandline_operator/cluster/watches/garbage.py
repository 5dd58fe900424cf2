"""Makes Python's garbage collection skip long-lived objects of the caches.

This module must not depend on the kinds of these objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

# Seconds after which a collection is too long, because streams, passes, and probes wait for it.
LONG = 0.05
# Seconds between collections of all objects. Until then, frozen reference cycles, of which each
# deleted pipeline leaves some, stay in memory.
WHOLE_AFTER = 3600.0
_OLDEST = 2  # number of the oldest generation, whose collection includes all others


class GarbageWatch:
    """Callback for Python's garbage collections; see `gc.callbacks`.

    With 5,000 pipelines, a full collection takes 0.8 s and finds almost nothing: object bodies have
    no cycles, and are freed when they are replaced.

    Args:
        clock: function that returns seconds.
        freeze: function that excludes the current objects from later collections.
        thaw: function that includes all objects again.
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
            # Include all objects once in a while. Otherwise, deleted pipelines would use up memory
            # over months.
            if self._begun - self._whole > WHOLE_AFTER:
                self._whole = self._begun
                self._thaw()
        # A shorter collection is cheap enough to be repeated, and frees cycles early.
        elif self._clock() - self._begun > LONG:
            self._freeze()
