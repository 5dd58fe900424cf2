"""Polls the drivers of running attempts concurrently, separately from passes.

This module must not depend on the contents of reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from strandline_operator.cluster.api import Api
from strandline_operator.reconcile.drivers.dialogue import DriverTalk

TICK = 0.5
# Maximum number of concurrent requests. A driver that does not respond takes seconds to time out,
# and must not delay other drivers.
MOST_AT_ONCE = 32


class Poller:
    """Polls drivers whose next request is due, several concurrently.

    Args:
        enqueue: function that requests a pass over the pipeline with the given uid.
    """

    def __init__(
        self,
        talk: DriverTalk,
        api: Api,
        enqueue: Callable[[str], None],
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._talk = talk
        self._api = api
        self._enqueue = enqueue
        self._clock = clock
        self._sleep = sleep
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self.ask_due()
            await self._sleep(TICK)

    async def ask_due(self) -> None:
        """Poll every driver whose request is due, once."""
        due = self._talk.list_due(self._clock())
        await asyncio.gather(*(self._ask(pipeline) for pipeline in due))

    async def _ask(self, pipeline: str) -> None:
        async with self._slots:
            if await self._talk.ask(self._api, pipeline, self._clock()):
                self._enqueue(pipeline)
