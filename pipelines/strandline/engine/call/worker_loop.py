"""The one thread on which a worker's stage runs, and the order in which it works.

Each call comes in on a thread of its own, with its input ready, and waits here for its turn; while
the next one is worked on, its thread spells its answer. So fetching, reading, working and answering
overlap, and the user's code still sees one thread and one task at a time. It knows no Ray.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar, cast

Answer = TypeVar("Answer")
# Parts of an answer that may wait to be taken while the next one is made.
PARTS_AHEAD = 1


class WorkerLoop:
    """Does numbered work strictly by number, from 0, on a single thread.

    Numbers are given by one who knows the order; where one will never come, it must be skipped.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Callable[[], None] | None] = {}
        self._next = 0
        self._change = threading.Condition()
        threading.Thread(target=self._loop, name="stage", daemon=True).start()

    def run(self, number: int, work: Callable[[], Answer]) -> Answer:
        """Do the work when its turn has come; what it returns or raises is passed on."""
        return self.begin(number, lambda: iter((work(),))).take()

    def begin(self, number: int, work: Callable[[], Iterator[Answer]]) -> Answers[Answer]:
        """Have work done when its turn has come; what it yields is taken part by part.

        It is worked on to its end before the next number is, and waits while parts are not taken.
        """
        answers: Answers[Answer] = Answers()
        self._enter(number, partial(answers.make, work))
        return answers

    def skip(self, number: int) -> None:
        """Note that there will be no work of that number."""
        self._enter(number, None)

    def _enter(self, number: int, work: Callable[[], None] | None) -> None:
        with self._change:
            self._waiting[number] = work
            if number == self._next:
                self._change.notify()

    def _loop(self) -> None:
        while True:
            work = self._take()
            if work is not None:
                work()
            del work  # or its data would be kept until the next one comes

    def _take(self) -> Callable[[], None] | None:
        with self._change:
            while self._next not in self._waiting:
                self._change.wait()
            work = self._waiting.pop(self._next)
            self._next += 1
        return work


class Answers(Generic[Answer]):
    """What a piece of work yields, handed from its thread to the one that waits."""

    def __init__(self) -> None:
        self._made: SimpleQueue[tuple[Answer, None] | tuple[None, BaseException]] = SimpleQueue()
        self._room = threading.Semaphore(PARTS_AHEAD)

    def make(self, work: Callable[[], Iterator[Answer]]) -> None:
        """Do the work; more than may wait is made when some was taken."""
        try:
            for answer in work():
                self._made.put((answer, None))
                del answer  # it is kept by who takes it, and else by nobody
                self._room.acquire()
        except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
            self._made.put((None, error))

    def take(self) -> Answer:
        """Return the next part, waiting for it; what the work raised is raised."""
        answer, error = self._made.get()
        self._room.release()
        if error is not None:
            raise error
        return cast("Answer", answer)
