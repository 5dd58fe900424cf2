"""Searches for garbage that leave alone the objects of a cluster, which stay in memory for long.

This room must not know what those objects are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

# Nothing else is done meanwhile: no stream is read, no pass comes further, no probe is answered.
LONG = 0.05
_OLDEST = 2  # the generation whose search looks at all others too


class GarbageWatch:
    """Is called by Python around each search for garbage; see `gc.callbacks`.

    With 5,000 pipelines a search of all takes 0.8 s and finds next to nothing: bodies have no
    circles, and go as soon as others take their place.

    Args:
        clock: seconds.
        freeze: has what is there by now left out of later searches.
    """

    def __init__(self, clock: Callable[[], float], freeze: Callable[[], None]) -> None:
        self._clock = clock
        self._freeze = freeze
        self._begun = clock()

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] < _OLDEST:
            return
        if phase == "start":
            self._begun = self._clock()
        # A short one may still find circles; what is left out once is never looked at again.
        elif self._clock() - self._begun > LONG:
            self._freeze()
