"""Waits for cluster states, always with a timeout and an error message that explains the failure.

This module must not depend on the awaited state.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
PAUSE = 0.5


class GivenUpError(AssertionError):
    """Raised after a timeout. The message contains the awaited state and the last observation."""


def wait_for(
    what: str,
    look: Callable[[], Value | None],
    seconds: float,
    describe: Callable[[], str] = lambda: "",
) -> Value:
    """Poll until `look` returns a truthy value, and return that value.

    Args:
        what: description of the awaited state, for the error message.
        look: function that returns the awaited value, or a falsy one.
        seconds: timeout in seconds.
        describe: function that returns a description for the error message.

    Raises:
        GivenUpError: on a timeout.
    """
    end = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > end:
            raise GivenUpError(f"waited {seconds:g} s in vain: {what}\n{describe()}".rstrip())
        time.sleep(PAUSE)
