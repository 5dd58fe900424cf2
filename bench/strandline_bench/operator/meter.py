"""Measures each pass: CPU time of its own steps, and its wall-clock time.

A coroutine runs in steps, from one await to the next. The sum of the thread's CPU time over a
pass's steps excludes the API server, other passes, and the event loop's own work between steps
(sockets, TLS). This module must not depend on the operator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

Key = TypeVar("Key")
Result = TypeVar("Result")


class Stepped(Awaitable[Result]):
    """Runs a coroutine and reports the seconds of its steps, even if it fails."""

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
        """Yield awaited objects to the event loop. Pass results and exceptions back."""
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
    """Wrap a coroutine function to report the cost of each call.

    Args:
        cpu: function that returns the CPU time of the thread, in seconds.
        clock: function that returns the wall-clock time, in seconds.
        note: called with the CPU seconds and the wall-clock seconds of a call.
    """

    async def run_metered(key: Key) -> Result:
        begun = clock()
        return await Stepped(run(key), cpu, lambda used: note(used, clock() - begun))

    return run_metered
