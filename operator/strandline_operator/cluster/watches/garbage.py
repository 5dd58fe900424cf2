"""Searches for garbage that leave alone the objects of a cluster, which stay in memory for long.

This room must not know what those objects are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

# A search stops the process: no stream is read, no pass comes further, no probe is answered.
LONG = 0.05
# Circles that were left out stay in memory until then: a pipeline that is deleted leaves some.
WHOLE_AFTER = 3600.0
_OLDEST = 2  # the generation whose search looks at all others too


class GarbageWatch:
    """Is called by Python around each search for garbage; see `gc.callbacks`.

    With 5,000 pipelines a search of all takes 0.8 s and finds next to nothing: bodies have no
    circles, and go as soon as others take their place.

    Args:
        clock: seconds.
        freeze: has what is there by now left out of later searches.
        thaw: has all looked at again.
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
            # An operator that runs for months would grow by each pipeline that is deleted.
            if self._begun - self._whole > WHOLE_AFTER:
                self._whole = self._begun
                self._thaw()
        # A short one costs little to repeat, and finds circles as soon as they are garbage.
        elif self._clock() - self._begun > LONG:
            self._freeze()
