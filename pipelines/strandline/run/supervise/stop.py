"""Requests to stop that come from outside, and which of them are the same one.

It must not know the listeners, nor what is stopped.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stop:
    """A request to stop that comes from outside.

    Attributes:
        times: how often it came; the second one means at once. All that is no key is the same
            request, since programs repeat it: Ray's `job stop`, systemd, a kubelet's hooks, and a
            notice that the node is going, which comes beside the hook of a pod that is deleted.
        received: how often of these the driver has received it as well.
        signal: by which it came first; None: by none.
    """

    times: int = 0
    received: int = 0
    signal: int | None = None
    _is_by_program: bool = field(default=False, init=False)

    def ask(self, number: int | None = None, *, is_received: bool = False) -> bool:
        """Ask once more, by the signal of that number; None: by a notice.

        Returns:
            Whether it is another request, and not one that is repeated.
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
        """Return whether it came."""
        return self.times > 0
