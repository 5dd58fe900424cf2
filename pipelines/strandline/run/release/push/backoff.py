"""Retries calls to a busy server, with waits between two tries. The caller provides the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")
TRIES = 8
LONGEST = 120.0  # seconds of a wait


class CallRefusal(NamedTuple):
    """How a failed call is judged.

    Attributes:
        is_passing: whether a later call may succeed.
        seconds: wait that the server requests, or None if it requests no wait.
    """

    is_passing: bool
    seconds: float | None = None


def list_waits(first: float = 1.0) -> Iterator[float]:
    """Yield the seconds before each of the `TRIES` - 1 retries, doubling up to `LONGEST`."""
    for number in range(TRIES - 1):
        yield min(LONGEST, first * 2**number)


def ask_again(
    call: Callable[[], T],
    judge: Callable[[Exception], CallRefusal],
    sleep: Callable[[float], None],
) -> T:
    """Call a function, and retry while its errors are temporary.

    Args:
        call: the function; safe to repeat.
        judge: judges an error of the function.
        sleep: waits for a number of seconds.

    Raises:
        Exception: the function's own error, if it is permanent, or still occurs after `TRIES`
            tries.
    """
    for wait in list_waits():
        try:
            return call()
        except Exception as error:
            refusal = judge(error)
            if not refusal.is_passing:
                raise
            # A server may request a pause of hours.
            sleep(min(LONGEST, wait if refusal.seconds is None else refusal.seconds))
    return call()
