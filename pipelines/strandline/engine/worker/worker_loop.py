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
from typing import Generic, NamedTuple, TypeVar, cast

Answer = TypeVar("Answer")
# Parts of an answer that may wait to be taken while the next one is made.
PARTS_AHEAD = 1


class GivenBack(Exception):  # noqa: N818 - nothing went wrong
    """A call was asked back before it was begun, and will not be."""


class _Turn(NamedTuple):
    """A piece of work that waits: what does it, and what answers that it is not done."""

    work: Callable[[], None]
    give_back: Callable[[], None]


class WorkerLoop:
    """Does numbered work strictly by number, from 0, on a single thread.

    Numbers are given by a caller that knows the order; where one will never come, it must be
    skipped.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, _Turn | None] = {}
        self._next = 0
        self._asked_back: set[int] = set()
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
        self._enter(number, _Turn(partial(answers.make, work), answers.give_back))
        return answers

    def skip(self, number: int) -> None:
        """Note that there will be no work of that number."""
        self._enter(number, None)

    def give_back(self, number: int) -> None:
        """Have work not done that is not begun: its waiter gets `GivenBack`.

        Work of that number may come later. What is begun, or done, goes on.
        """
        with self._change:
            if number < self._next:
                return
            if number not in self._waiting:
                self._asked_back.add(number)  # the number's input is on the way
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
            del turn  # or its data would be kept until the next one comes

    def _take(self) -> _Turn | None:
        with self._change:
            while self._next not in self._waiting:
                self._change.wait()
            turn = self._waiting.pop(self._next)
            self._next += 1
        return turn


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
                # The taker keeps an answer, and this loop must not keep it in memory too.
                del answer
                self._room.acquire()
        except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
            self._made.put((None, error))

    def give_back(self) -> None:
        """Answer that the work is not done."""
        self._made.put((None, GivenBack()))

    def take(self) -> Answer:
        """Return the next part, waiting for it; what the work raised is raised."""
        answer, error = self._made.get()
        self._room.release()
        if error is not None:
            raise error
        return cast("Answer", answer)
