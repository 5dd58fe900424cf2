"""Waiting for something on a cluster: always bounded, and never silent when given up.

This room must not know what is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
PAUSE = 0.5


class GivenUpError(AssertionError):
    """It did not come about in time; the text says what, and what was seen last."""


def wait_for(
    what: str,
    look: Callable[[], Value | None],
    seconds: float,
    describe: Callable[[], str] = lambda: "",
) -> Value:
    """Look until there is something to see.

    Args:
        what: in words, for the message that it did not come about.
        look: gives what was waited for, or something falsy.
        seconds: of waiting, at most.
        describe: what to say of the world when giving up.

    Raises:
        GivenUpError: the time is up.
    """
    end = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > end:
            raise GivenUpError(f"waited {seconds:g} s in vain: {what}\n{describe()}".rstrip())
        time.sleep(PAUSE)
