"""Waiting for others, within bounds: real controllers take their time."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 180  # seconds; only ever used up by a failure
PAUSE = 0.05


def wait_until(is_true: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Wait until something is so; fail if that does not come within `patience` seconds."""
    end = time.monotonic() + patience
    while not is_true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(PAUSE)
