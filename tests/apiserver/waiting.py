"""Waits with a time limit, because real controllers take some time to act."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 180  # seconds; reached only if a test fails
PAUSE = 0.05


def wait_until(is_true: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Wait until a condition holds. Fail after `patience` seconds."""
    end = time.monotonic() + patience
    while not is_true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(PAUSE)
