"""The single thread on which a worker's stage runs, and the order of its work.

Each call arrives on its own thread, which prepares the input and waits here for its turn. While the
stage processes the next call, the thread of the previous call serializes the result. Fetching,
reading, working, and answering overlap, but the user's code sees one thread and one task at a time.
The module does not depend on Ray.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar, cast

Answer = TypeVar("Answer")
# Maximum parts of a result that may wait to be taken while the next part is made.
PARTS_AHEAD = 1


class GivenBack(Exception):  # noqa: N818 - nothing went wrong
    """The caller withdrew a call before it began; the call will not run."""


class _Turn(NamedTuple):
    """Waiting work: a function that runs it, and a function that reports its withdrawal."""

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
        """Run work when its turn comes. Return its result or raise its error."""
        return self.begin(number, lambda: iter((work(),))).take()

    def begin(self, number: int, work: Callable[[], Iterator[Answer]]) -> Answers[Answer]:
        """Schedule work, whose results the caller takes part by part.

        Work with the next number waits until this work has ended, and this work waits while its
        parts are not taken.
        """
        answers: Answers[Answer] = Answers()
        self._enter(number, _Turn(partial(answers.make, work), answers.give_back))
        return answers

    def skip(self, number: int) -> None:
        """Record that no work will arrive for a number."""
        self._enter(number, None)

    def give_back(self, number: int) -> None:
        """Withdraw unstarted work: the thread that waits for it gets `GivenBack`.

        The number may be withdrawn before its work arrives. Work that has begun or finished is
        unaffected.
        """
        with self._change:
            if number < self._next:
                return
            if number not in self._waiting:
                self._asked_back.add(number)  # the input of the call is still on the way
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
            del turn  # release the data now instead of at the next turn

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
        """Run the work. At most `PARTS_AHEAD` parts are made before a part is taken."""
        try:
            for answer in work():
                self._made.put((answer, None))
                # The taker holds the result; this loop must not keep it in memory too.
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
