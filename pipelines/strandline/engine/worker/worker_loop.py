"""Runs a worker's stage on a single thread, in the order of the calls.

Each call arrives on its own thread, which prepares the input and waits here for its turn. While the
stage processes the next call, the thread of the previous call serializes the result. Fetching,
reading, processing, and responding overlap, but the user's code runs on one thread, one task at a
time. The module must not depend on Ray.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar, cast

Answer = TypeVar("Answer")
# Maximum parts of a result that may wait to be taken before the next part is produced.
PARTS_AHEAD = 1


class GivenBack(Exception):  # noqa: N818 - nothing went wrong
    """Raised to the caller of a call that was withdrawn before it began. The call does not run."""


class _Turn(NamedTuple):
    """Waiting work: a function that runs the work, and a function that reports a withdrawal."""

    work: Callable[[], None]
    give_back: Callable[[], None]


class WorkerLoop:
    """Runs numbered work strictly in order, from 0, on a single thread.

    The caller assigns the numbers. A number without work must be skipped explicitly.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, _Turn | None] = {}
        self._next = 0
        self._asked_back: set[int] = set()
        self._change = threading.Condition()
        threading.Thread(target=self._loop, name="stage", daemon=True).start()

    def run(self, number: int, work: Callable[[], Answer]) -> Answer:
        """Run work when its turn comes. Return the result of the work, or raise its error."""
        return self.begin(number, lambda: iter((work(),))).take()

    def begin(self, number: int, work: Callable[[], Iterator[Answer]]) -> Answers[Answer]:
        """Schedule work, whose results the caller takes part by part.

        The work with the next number waits until this work has ended. This work waits until its
        parts are taken.
        """
        answers: Answers[Answer] = Answers()
        self._enter(number, _Turn(partial(answers.make, work), answers.give_back))
        return answers

    def skip(self, number: int) -> None:
        """Record that no work will arrive for a number."""
        self._enter(number, None)

    def give_back(self, number: int) -> None:
        """Withdraw work that has not started. The thread that waits for the work gets `GivenBack`.

        A number may be withdrawn before its work arrives. Work that has started is not affected.
        """
        with self._change:
            if number < self._next:
                return
            if number not in self._waiting:
                self._asked_back.add(number)  # the work has not arrived yet
                return
            turn, self._waiting[number] = self._waiting[number], None
        if turn is not None:
            turn.give_back()

    def _enter(self, number: int, turn: _Turn | None) -> None:
        with self._change:
            is_asked_back = number in self._asked_back
            self._asked_back.discard(number)
            self._waiting[number] = None if is_asked_back else turn
            if number == self._next:
                self._change.notify()
        if is_asked_back and turn is not None:
            turn.give_back()

    def _loop(self) -> None:
        while True:
            turn = self._take()
            if turn is not None:
                turn.work()
            del turn  # release the data now, not at the next turn

    def _take(self) -> _Turn | None:
        with self._change:
            while self._next not in self._waiting:
                self._change.wait()
            turn = self._waiting.pop(self._next)
            self._next += 1
        return turn


class Answers(Generic[Answer]):
    """Results of a piece of work, passed from its thread to the waiting thread."""

    def __init__(self) -> None:
        self._made: SimpleQueue[tuple[Answer, None] | tuple[None, BaseException]] = SimpleQueue()
        self._room = threading.Semaphore(PARTS_AHEAD)

    def make(self, work: Callable[[], Iterator[Answer]]) -> None:
        """Run the work. Produce at most `PARTS_AHEAD` parts before a part is taken."""
        try:
            for answer in work():
                self._made.put((answer, None))
                # Free the memory early: this loop no longer needs the result.
                del answer
                self._room.acquire()
        except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
            self._made.put((None, error))

    def give_back(self) -> None:
        """Report that the work was withdrawn."""
        self._made.put((None, GivenBack()))

    def take(self) -> Answer:
        """Wait for the next part and return it, or raise the error of the work."""
        answer, error = self._made.get()
        self._room.release()
        if error is not None:
            raise error
        return cast("Answer", answer)
