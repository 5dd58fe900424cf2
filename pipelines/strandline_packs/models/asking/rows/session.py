"""Sends requests to a server on a background loop, and stores all answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from strandline.plan.errors import BudgetSpentError
from strandline_packs.models.asking.answers import ModelAnswer, RowFault
from strandline_packs.models.asking.log.answer_book import AnswerBook
from strandline_packs.models.asking.rows.requests import RowsRequest
from strandline_packs.models.asking.spending.tally import RequestTally
from strandline_packs.models.asking.traffic.asker import Asker, Outcome
from strandline_packs.models.asking.traffic.wire import LoopThread


@dataclass(slots=True)
class AskSession:
    """State shared by the requests of all tasks.

    Attributes:
        asker: sends and retries requests.
        book: stores answers; None if there is no log.
        tally: counts requests.
        working: context that marks this worker as busy in the account.
        most: maximum number of concurrent requests.
        total: timeout of a request in seconds.
    """

    asker: Asker
    book: AnswerBook | None
    tally: RequestTally
    working: Callable[[], AbstractContextManager[None]]
    most: int
    total: float

    def find_kept(self, requests: Mapping[bytes, RowsRequest]) -> dict[bytes, ModelAnswer]:
        """Return the stored answers by request digest."""
        return {} if self.book is None else dict(self.book.find(requests))

    def ask(
        self,
        loop: LoopThread,
        requests: Mapping[bytes, RowsRequest],
        is_stopping: Callable[[], bool],
    ) -> dict[bytes, ModelAnswer | RowFault]:
        """Send requests, and store the answers.

        Raises:
            StageStoppedError, BudgetSpentError, StageInterruptedError: see `Asker.work_all`.
        """
        digests, outcomes = list(requests), dict[bytes, ModelAnswer | RowFault]()

        def keep(position: int, outcome: ModelAnswer | RowFault) -> None:
            outcomes[digests[position]] = outcome
            if self.book is not None and isinstance(outcome, ModelAnswer):
                self.book.put(digests[position], outcome)

        questions = [requests[digest].question for digest in digests]
        self.work(loop, [partial(self.asker.ask, each) for each in questions], keep, is_stopping)
        return outcomes

    def work(
        self,
        loop: LoopThread,
        works: Sequence[Callable[[], Coroutine[Any, Any, Outcome]]],
        keep: Callable[[int, Outcome], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        """Run coroutines that send requests. The answers become durable even after an error.

        Raises:
            StageStoppedError, BudgetSpentError, StageInterruptedError: see `Asker.work_all`.
        """
        if not works:
            return
        book = self.book
        # Without a book, an abandoned task would lose its answers, so the task is finished first.
        is_stopping = bool if book is None else is_stopping

        def remind() -> None:
            if book is not None:
                book.remind(is_urgent=is_stopping())

        try:
            with self.working():
                # Sync within `working`: other workers wait until these answers are durable.
                try:
                    loop.run(self.asker.work_all(works, self.most, keep, remind, is_stopping))
                finally:
                    if book is not None:
                        book.sync()
        except BudgetSpentError:
            loop.run(self.asker.await_others(self.total))
            raise
