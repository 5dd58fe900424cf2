"""Asks a server again that is busy: how often, and how long between two tries. No clock in here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")
TRIES = 8
LONGEST = 120.0


class CallRefusal(NamedTuple):
    """What a try has ended with.

    Attributes:
        is_passing: the same may be answered in a while.
        seconds: that the server asks to wait; None: it does not say.
    """

    is_passing: bool
    seconds: float | None = None


def list_waits(first: float = 1.0) -> Iterator[float]:
    """Yield the seconds before each further try, each twice the one before, `TRIES` - 1 of them."""
    for number in range(TRIES - 1):
        yield min(LONGEST, first * 2**number)


def ask_again(
    call: Callable[[], T],
    judge: Callable[[Exception], CallRefusal],
    sleep: Callable[[float], None],
) -> T:
    """Return what a call gives, made again as long as it is refused for a while.

    Args:
        call: may be made any number of times.
        judge: describes an error of it.
        sleep: waits for seconds.

    Raises:
        Exception: the call's own, where it does not pass, or has not passed after `TRIES` tries.
    """
    for wait in list_waits():
        try:
            return call()
        except Exception as error:
            refusal = judge(error)
            if not refusal.is_passing:
                raise
            sleep(min(LONGEST, wait if refusal.seconds is None else refusal.seconds))
    return call()
