"""Sends requests to a server on a background loop, and stores all answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from strandline.plan.errors import BudgetSpentError
from strandline_packs.models.asking.answers import ModelAnswer
from strandline_packs.models.asking.log.answer_book import AnswerBook
from strandline_packs.models.asking.rows.requests import RowsRequest
from strandline_packs.models.asking.traffic.asker import Asker, Spending
from strandline_packs.models.asking.traffic.batches.batcher import Batcher, Outcome, Questions
from strandline_packs.models.asking.traffic.bundles import Bundler
from strandline_packs.models.asking.traffic.wire import LoopThread

WorkOutcome = TypeVar("WorkOutcome")


@dataclass(slots=True)
class AskSession:
    """State shared by the requests of all tasks.

    Attributes:
        asker: sends and retries requests.
        book: stores answers; None if there is no log.
        spending: counts and permits requests.
        working: context that marks this worker as busy in the account.
        most: maximum number of concurrent requests.
        total: timeout of a request in seconds.
        bundler: divides requests among bundles, if the server takes several texts.
        batcher: asks in batches, if the stage does so.
    """

    asker: Asker
    book: AnswerBook | None
    spending: Spending
    working: Callable[[], AbstractContextManager[None]]
    most: int
    total: float
    bundler: Bundler
    batcher: Batcher | None = None

    def find_kept(self, requests: Mapping[bytes, RowsRequest]) -> dict[bytes, ModelAnswer]:
        """Return the stored answers by request digest."""
        return {} if self.book is None else dict(self.book.find(requests))

    def ask(
        self,
        loop: LoopThread,
        requests: Mapping[bytes, RowsRequest],
        is_stopping: Callable[[], bool],
    ) -> dict[bytes, Outcome]:
        """Send requests, and store the answers.

        Raises:
            StageStoppedError, BudgetSpentError, StageInterruptedError: see `Asker.work_all`.
        """
        outcomes: dict[bytes, Outcome] = {}

        def keep(digest: bytes, outcome: Outcome) -> None:
            outcomes[digest] = outcome
            if self.book is not None and isinstance(outcome, ModelAnswer):
                self.book.put(digest, outcome, requests[digest].keys)

        questions = {digest: request.question for digest, request in requests.items()}
        if self.batcher is not None:
            self._ask_in_batches(loop, questions, self.batcher, keep)
        else:
            self._ask_in_bundles(loop, questions, keep, is_stopping)
        return outcomes

    def _ask_in_bundles(
        self,
        loop: LoopThread,
        questions: Questions,
        keep: Callable[[bytes, Outcome], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        bundles = self.bundler.divide(list(questions))

        def keep_all(position: int, outcomes: Sequence[Outcome]) -> None:
            for digest, outcome in zip(bundles[position], outcomes, strict=True):
                keep(digest, outcome)

        works = [
            partial(self.bundler.ask, self.asker.ask, [questions[each] for each in bundle])
            for bundle in bundles
        ]
        self.work(loop, works, keep_all, is_stopping)

    def _ask_in_batches(
        self,
        loop: LoopThread,
        questions: Questions,
        batcher: Batcher,
        keep: Callable[[bytes, Outcome], None],
    ) -> None:
        assert self.book is not None  # see `AskModel.open_batcher`
        with self.working():
            try:
                loop.run(batcher.ask_all(questions, keep, self.book.sync))
            finally:
                self.book.sync()

    def work(
        self,
        loop: LoopThread,
        works: Sequence[Callable[[], Coroutine[Any, Any, WorkOutcome]]],
        keep: Callable[[int, WorkOutcome], None],
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
