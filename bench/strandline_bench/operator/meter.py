"""What each pass takes: CPU time of its own steps, apart from its waits, and its whole length.

A coroutine runs in steps, from one wait to the next. The time that the thread spends in the steps
of one pass is summed up, so that neither the API server nor other passes are in it. What the event
loop does for it between two steps (sockets, TLS) is not either. This room must not know operators.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

Key = TypeVar("Key")
Result = TypeVar("Result")


class Stepped(Awaitable[Result]):
    """Runs a coroutine and tells how many seconds its steps took, however it ended."""

    def __init__(
        self,
        work: Coroutine[Any, Any, Result],
        clock: Callable[[], float],
        note: Callable[[float], None],
    ) -> None:
        self._work = work
        self._clock = clock
        self._note = note
        self._seconds = 0.0

    def __await__(self) -> Generator[Any, Any, Result]:
        """Hand on what the coroutine waits for, and what comes of that."""
        try:
            waited = self._step(self._work.send, None)
            while True:
                try:
                    answer = yield waited
                except BaseException as error:  # noqa: BLE001 - a cancellation is handed on too
                    waited = self._step(self._work.throw, error)
                else:
                    waited = self._step(self._work.send, answer)
        except StopIteration as ended:
            result: Result = ended.value
            return result
        finally:
            self._note(self._seconds)

    def _step(self, go: Callable[[Any], object], value: object) -> object:
        begun = self._clock()
        try:
            return go(value)
        finally:
            self._seconds += self._clock() - begun


def meter(
    run: Callable[[Key], Coroutine[Any, Any, Result]],
    cpu: Callable[[], float],
    clock: Callable[[], float],
    note: Callable[[float, float], None],
) -> Callable[[Key], Coroutine[Any, Any, Result]]:
    """Return a function like this one that also tells what each call takes.

    Args:
        cpu: CPU time of the thread, in seconds.
        clock: time as it passes, in seconds.
        note: is told the seconds of a call by the one and by the other.
    """

    async def run_metered(key: Key) -> Result:
        begun = clock()
        return await Stepped(run(key), cpu, lambda used: note(used, clock() - begun))

    return run_metered
