"""Counts stop requests from outside, and merges repeated requests.

This module must not depend on the listeners, or on the stopped process.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stop:
    """Stop requests from outside.

    Attributes:
        times: number of requests; the second request means to stop immediately. All requests by
            programs count as one, because programs repeat them: Ray's `job stop`, systemd, a
            kubelet's hooks, and a notice of a departing node in addition to the hook of a deleted
            pod. Only Ctrl-C counts every time.
        received: number of requests that the driver has received directly, too.
        signal: signal of the first request, or None if it was not a signal.
    """

    times: int = 0
    received: int = 0
    signal: int | None = None
    _is_by_program: bool = field(default=False, init=False)

    def ask(self, number: int | None = None, *, is_received: bool = False) -> bool:
        """Add a request: a signal, or None for a notice.

        Returns:
            True if the request is new, False if a program repeated an earlier request.
        """
        is_by_program = number != signal.SIGINT
        if is_by_program and self._is_by_program:
            return False
        self._is_by_program |= is_by_program
        self.signal = number if not self.times else self.signal
        self.times += 1
        self.received += is_received
        return True

    def is_asked(self) -> bool:
        """Return True if a stop was requested."""
        return self.times > 0
