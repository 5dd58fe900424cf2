"""The sign of life that an engine gives while it works.

It must not know what is worked on, nor who looks.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.engine.ports import Control
from strandline.ledger.liveness import BEAT_SECONDS


class Heartbeat:
    """Renews the lease of a ledger, and touches the table of work in flight, every so often.

    Args:
        renew: what renews the lease.
    """

    def __init__(self, renew: Callable[[], None], control: Control) -> None:
        self._renew = renew
        self._control = control
        self._due = control.now()

    def beat(self) -> None:
        """Do it if it is time; to be called often. Raises what `renew` does."""
        now = self._control.now()
        if now < self._due:
            return
        self._due = now + BEAT_SECONDS
        self._renew()
        if self._control.inflight:
            self._control.inflight.touch()
