"""Bounded waits for other components, because real controllers take some time."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 180  # seconds; only reached by a failure
PAUSE = 0.05


def wait_until(is_true: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Wait until a condition holds; fail after `patience` seconds."""
    end = time.monotonic() + patience
    while not is_true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(PAUSE)
