"""The one thread on which a worker's stage runs, and the order in which it works.

Each call comes in on a thread of its own, with its input ready, and waits here for its turn; while
the next one is worked on, its thread spells its answer. So fetching, reading, working and answering
overlap, and the user's code still sees one thread and one task at a time. It knows no Ray.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class WorkerLoop:
    """Does numbered work strictly by number, from 0, on a single thread.

    Numbers are given by one who knows the order; where one will never come, it must be skipped.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, _Work | None] = {}
        self._next = 0
        self._change = threading.Condition()
        threading.Thread(target=self._loop, name="stage", daemon=True).start()

    def run(self, number: int, work: Callable[[], Answer]) -> Answer:
        """Do the work when its turn has come; what it returns or raises is passed on."""
        mine = _Work(work)
        self._enter(number, mine)
        answer: Answer = mine.wait()
        return answer

    def skip(self, number: int) -> None:
        """There will be no work of that number."""
        self._enter(number, None)

    def _enter(self, number: int, work: _Work | None) -> None:
        with self._change:
            self._waiting[number] = work
            if number == self._next:
                self._change.notify()

    def _loop(self) -> None:
        while True:
            work = self._take()
            if work is not None:
                work.do()
            del work  # or its data would be kept until the next one comes

    def _take(self) -> _Work | None:
        with self._change:
            while self._next not in self._waiting:
                self._change.wait()
            work = self._waiting.pop(self._next)
            self._next += 1
        return work


class _Work:
    """A piece of work, and its answer when it is done."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work
        self._answer: Any = None
        self._error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def do(self) -> None:
        assert self._work is not None  # it is done once
        try:
            self._answer = self._work()
        except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
            self._error = error
        self._work = None  # and with it its input
        self._done.release()

    def wait(self) -> Any:  # noqa: ANN401 - whatever the work returns
        self._done.acquire()
        if self._error is not None:
            raise self._error
        return self._answer
