"""Retries calls to a busy server after increasing waits. The caller provides the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")
TRIES = 8
LONGEST = 120.0  # maximum seconds of a wait


class CallRefusal(NamedTuple):
    """Interpretation of a failed call.

    Attributes:
        is_passing: whether a later call may succeed.
        seconds: wait that the server requests, or None if it requests no wait.
    """

    is_passing: bool
    seconds: float | None = None


def list_waits(first: float = 1.0) -> Iterator[float]:
    """Yield the seconds to wait before each of the `TRIES` - 1 retries, doubled up to `LONGEST`."""
    for number in range(TRIES - 1):
        yield min(LONGEST, first * 2**number)


def ask_again(
    call: Callable[[], T],
    judge: Callable[[Exception], CallRefusal],
    sleep: Callable[[float], None],
) -> T:
    """Call a function, and retry while its errors are temporary.

    Args:
        call: the function, which must be safe to repeat.
        judge: interprets an error of the function.
        sleep: waits for a number of seconds.

    Raises:
        Exception: the function's own error, if the error is permanent or still occurs after `TRIES`
            tries.
    """
    for wait in list_waits():
        try:
            return call()
        except Exception as error:
            refusal = judge(error)
            if not refusal.is_passing:
                raise
            # Limit the wait, because a server may request a pause of hours.
            sleep(min(LONGEST, wait if refusal.seconds is None else refusal.seconds))
    return call()
