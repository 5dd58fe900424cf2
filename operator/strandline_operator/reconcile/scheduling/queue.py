"""Executes passes: concurrently for several pipelines, but one pass per pipeline at a time.

This module must not depend on the contents of a pass, except the time of the next pass.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from strandline_operator.cluster.errors import ApiError
from strandline_operator.reconcile.scheduling.schedule import Key, Schedule

_LOGGER = logging.getLogger(__name__)
# Maximum seconds per wait. A wait uses another clock, so check the wall clock often in case it was
# set.
_LONGEST_WAIT = 1.0


@dataclass(frozen=True, slots=True)
class PassResult:
    """Result of a pass.

    Attributes:
        wake_at: latest time of the next pass, in seconds since the epoch, or None for no next pass.
        again: whether the pass was incomplete. It is retried soon, and then less often.
        is_promised: whether a status shows `wake_at` to users, which gives the next pass priority.
    """

    wake_at: float | None = None
    again: bool = False
    is_promised: bool = False


class Watcher(Protocol):
    """Receives metrics about passes."""

    def note_pass(self, seconds: float, outcome: str) -> None:
        """Record how a pass ended: `done`, `again`, or `failed`."""


class Queue:
    """Runs passes, and keeps the waiting passes."""

    def __init__(
        self,
        run: Callable[[Key], Awaitable[PassResult]],
        *,
        concurrency: int,
        clock: Callable[[], float],
        watcher: Watcher,
    ) -> None:
        self._run = run
        self._clock = clock
        self._watcher = watcher
        self._slots = asyncio.Semaphore(concurrency)
        self._changed = asyncio.Event()
        self._tasks: dict[asyncio.Task[Any], Key] = {}
        # Limit the passes of a namespace, so that slow passes leave slots for other namespaces.
        self.schedule = Schedule(most_running=max(1, concurrency - concurrency // 4))
        self.last_sign = clock()

    def note_answer(self) -> None:
        """Record a response of the server as a sign of progress of a pass.

        A response may take half a minute, and a pass may need many responses.
        """
        task = asyncio.current_task()
        key = None if task is None else self._tasks.get(task)
        if key is not None:
            self.last_sign = self._clock()
            self.schedule.note_sign(key, self.last_sign)

    def enqueue(self, key: Key, *, is_urgent: bool = False) -> None:
        """Request a pass over a pipeline; see `Schedule.enqueue`."""
        self.schedule.enqueue(key, self._clock(), is_urgent=is_urgent)
        self._changed.set()

    async def run(self) -> None:
        """Start passes when they are due, until cancelled. Running passes continue afterwards."""
        while True:
            await self._slots.acquire()
            key = await self._take()
            task = asyncio.create_task(self._pass(key), name=f"pass of {key}")
            self._tasks[task] = key
            task.add_done_callback(self._tasks.pop)

    async def drain(self, grace: float) -> bool:
        """Wait for running passes, then cancel the rest. Return False if any was cancelled."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            return not late
        return True

    async def _take(self) -> Key:
        while True:
            self._changed.clear()
            now = self._clock()
            key = self.schedule.take(now)
            if key is not None:
                return key
            due = self.schedule.next_time
            wait = _LONGEST_WAIT if due is None else min(max(due - now, 0.0), _LONGEST_WAIT)
            # Do not use `wait_for`, which can swallow a cancellation that arrives just as the wait
            # ends.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def _pass(self, key: Key) -> None:
        started = self._clock()
        outcome = "failed"
        try:
            passed = await self._run(key)
            outcome = "again" if passed.again else "done"
            self._settle(key, passed)
        except ApiError as error:
            wait = self.schedule.fail(key, self._clock(), at_least=error.retry_after or 0.0)
            _LOGGER.warning("%s, again in %.1f s", error, wait, extra={"pipeline": str(key)})
        except Exception:
            self.schedule.fail(key, self._clock())
            _LOGGER.exception("a pass failed", extra={"pipeline": str(key)})
        finally:
            self.last_sign = self._clock()
            self._watcher.note_pass(self.last_sign - started, outcome)
            self._slots.release()
            self._changed.set()

    def _settle(self, key: Key, passed: PassResult) -> None:
        now = self._clock()
        if passed.again:
            self.schedule.fail(key, now)
        else:
            self.schedule.finish(key, now, passed.wake_at, is_promised=passed.is_promised)
