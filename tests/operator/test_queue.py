"""Passes run concurrently, but one at a time per pipeline, and the process ends on request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fake_api import until
from strandline_operator.cluster.errors import TooMany
from strandline_operator.reconcile.scheduling.queue import PassResult, Queue
from strandline_operator.reconcile.scheduling.schedule import FIRST_BACKOFF, Key

A, B, C = (Key("team", name) for name in "abc")


class Scene:
    """A queue whose passes the test releases one by one."""

    def __init__(self, concurrency: int = 2) -> None:
        self.now = 100.0
        self.begun: list[Key] = []
        self.notes: list[str] = []
        self.gates: dict[Key, asyncio.Event] = {}
        self.results: dict[Key, PassResult | Exception] = {}
        self.queue = Queue(self.run, concurrency=concurrency, clock=lambda: self.now, watcher=self)

    def note_pass(self, seconds: float, outcome: str) -> None:
        self.notes.append(outcome)

    async def run(self, key: Key) -> PassResult:
        self.begun.append(key)
        if key in self.gates:
            await self.gates[key].wait()
        result = self.results.get(key, PassResult())
        if isinstance(result, Exception):
            raise result
        return result

    def play(self, story: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            task = asyncio.create_task(self.queue.run())
            try:
                await story()
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await self.queue.drain(0.0)

        asyncio.run(run())


def test_each_pipeline_has_one_pass_at_a_time_and_others_run_concurrently() -> None:
    scene = Scene()

    async def story() -> None:
        scene.gates[A] = asyncio.Event()
        scene.queue.enqueue(A)
        scene.queue.enqueue(B)
        await until(lambda: scene.notes == ["done"])
        scene.queue.enqueue(A)
        scene.queue.enqueue(A)
        scene.queue.enqueue(B)
        await until(lambda: len(scene.notes) == 2)
        assert scene.begun == [A, B, B]
        scene.gates[A].set()
        await until(lambda: len(scene.notes) == 3)
        assert scene.begun == [A, B, B]
        scene.now += 1.0
        await until(lambda: len(scene.notes) == 4)
        assert scene.begun == [A, B, B, A]

    scene.play(story)


def test_passes_do_not_exceed_the_concurrency_limit() -> None:
    scene = Scene(concurrency=2)

    async def story() -> None:
        for key in (A, B, C):
            scene.gates[key] = asyncio.Event()
            scene.queue.enqueue(key)
        await until(lambda: len(scene.begun) == 2)
        await asyncio.sleep(0.02)
        assert len(scene.begun) == 2
        scene.gates[A].set()
        await until(lambda: len(scene.begun) == 3)

    scene.play(story)


@pytest.mark.parametrize(
    ("result", "note"),
    [
        (PassResult(again=True), "again"),
        (TooMany(429, "", "slow down"), "failed"),
        (ZeroDivisionError("a mistake"), "failed"),
    ],
)
def test_a_failed_pass_is_retried_later(result: PassResult | Exception, note: str) -> None:
    scene = Scene()
    scene.results[A] = result

    async def story() -> None:
        scene.queue.enqueue(A)
        await until(lambda: scene.notes == [note])
        assert scene.queue.schedule.next_time == pytest.approx(100.0 + FIRST_BACKOFF)
        scene.results.clear()
        scene.now = 101.0
        scene.queue.enqueue(B)
        await until(lambda: sorted(scene.notes) == sorted([note, "done", "done"]))

    scene.play(story)


def test_a_retry_after_header_delays_passes() -> None:
    scene = Scene()
    scene.results[A] = TooMany(429, "", "slow down", 9.0)

    async def story() -> None:
        scene.queue.enqueue(A)
        await until(lambda: scene.notes == ["failed"])
        assert scene.queue.schedule.next_time == 109.0

    scene.play(story)


def test_a_pass_is_woken_at_its_time() -> None:
    scene = Scene()
    scene.results[A] = PassResult(wake_at=160.0)

    async def story() -> None:
        scene.queue.enqueue(A)
        await until(lambda: scene.notes == ["done"])
        assert scene.queue.schedule.next_time == 160.0
        scene.now = 161.0
        scene.queue.enqueue(B)
        await until(lambda: len(scene.notes) == 3)
        assert scene.begun == [A, A, B]

    scene.play(story)


def test_at_shutdown_passes_may_finish_within_the_grace_period() -> None:
    scene = Scene()

    async def run() -> None:
        scene.gates[A] = asyncio.Event()
        scene.gates[B] = asyncio.Event()
        task = asyncio.create_task(scene.queue.run())
        scene.queue.enqueue(A)
        scene.queue.enqueue(B)
        await until(lambda: len(scene.begun) == 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        asyncio.get_running_loop().call_later(0.02, scene.gates[A].set)
        assert not await scene.queue.drain(0.2)
        assert scene.notes == ["done", "failed"]
        assert await scene.queue.drain(0.2)

    asyncio.run(run())
