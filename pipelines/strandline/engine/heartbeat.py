"""The sign of life that an engine gives while it works.

It must not know what is worked on, nor who looks.
"""

from __future__ import annotations

from typing import Protocol

from strandline.engine.ports import Control
from strandline.ledger.liveness import BEAT_SECONDS


class Beating(Protocol):
    """A ledger whose lease can be renewed."""

    def beat(self) -> None:
        """This attempt is alive."""


class Heartbeat:
    """Renews the lease of a ledger, and touches the table of work in flight, every so often."""

    def __init__(self, ledger: Beating, control: Control) -> None:
        self._ledger = ledger
        self._control = control
        self._due = control.now()

    def beat(self) -> None:
        """Do it if it is time; to be called often.

        Raises:
            LeaseLostError: another attempt has the ledger.
        """
        now = self._control.now()
        if now < self._due:
            return
        self._due = now + BEAT_SECONDS
        self._ledger.beat()
        if self._control.inflight:
            self._control.inflight.touch()
