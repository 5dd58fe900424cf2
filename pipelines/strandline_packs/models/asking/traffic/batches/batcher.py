"""Asks questions in batches, and resumes the batches of an earlier attempt.

A record of each batch is durable before the vendor gets the batch, and is removed after the answers
are durable. The module must not depend on rows, or where answers are logged.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import NamedTuple

from strandline.plan.errors import BudgetSpentError, StageStoppedError
from strandline_packs.models.asking.answers import (
    Endpoint,
    ModelAnswer,
    Reply,
    RowFault,
    ServerRefusal,
    Unfit,
    Verdict,
)
from strandline_packs.models.asking.spending.account import Grant
from strandline_packs.models.asking.traffic.asker import ModelQuestion, Spending
from strandline_packs.models.asking.traffic.batches.port import (
    BatchEnd,
    BatchInterface,
    BatchItem,
    BatchProgress,
    VendorCalls,
    fetch_results,
)
from strandline_packs.models.asking.traffic.batches.records import BatchRecord, BatchRecords
from strandline_packs.models.asking.traffic.judging import find_usage, judge

Questions = Mapping[bytes, ModelQuestion]
Outcome = ModelAnswer | RowFault


class BatchTerms(NamedTuple):
    """Limits of batches, and names in messages.

    Attributes:
        name: name of the stage and the server.
        server: address of the server, in the records.
        endpoint: endpoint of the requests.
        tries: maximum number of batches in which a question has no answer.
        poll: seconds between two looks at a batch.
    """

    name: str
    server: str
    endpoint: Endpoint
    tries: int
    poll: float


class Batcher:
    """Asks questions in batches of a vendor.

    Args:
        calls: calls of the vendor.
        report: receives lines for users.
        spending: counts and permits requests.
        draw_mark: returns a random name.
    """

    def __init__(
        self,
        interface: BatchInterface,
        calls: VendorCalls,
        records: BatchRecords,
        terms: BatchTerms,
        report: Callable[[str], None],
        spending: Spending,
        draw_mark: Callable[[], str],
    ) -> None:
        self._interface, self._calls = interface, calls
        self._records, self._terms, self._report = records, terms, report
        (self._tally, self._account), self._draw_mark = spending, draw_mark
        self._grants: dict[bytes, Grant] = {}

    async def ask_all(
        self,
        questions: Questions,
        keep: Callable[[bytes, Outcome], None],
        sync: Callable[[], None],
    ) -> None:
        """Ask questions, and pass outcomes to `keep`.

        Args:
            sync: makes all kept answers durable.

        Raises:
            StageStoppedError: the vendor refuses the batch, or was down for too long.
            BudgetSpentError: the budget is spent. Answers to sent requests were passed to `keep`.
            StageInterruptedError: the run stops. A later attempt waits for the open batches.
        """
        open_questions, failures = dict(questions), Counter[bytes]()
        waiting = [each async for each in self._resume(open_questions)]
        spent: BudgetSpentError | None = None
        while open_questions:
            if spent is None:
                spent = await self._send_rest(open_questions, waiting)
            if not waiting:
                break
            record = waiting.pop(0)
            progress = await self._await(record)
            for digest, verdict in (await self._collect(record, progress, open_questions)).items():
                failures[digest] += 1
                question = open_questions[digest]
                outcome = self._conclude(question, verdict, failures[digest])
                if outcome is not None:
                    keep(digest, outcome)
                    del open_questions[digest]
            sync()
            self._records.remove(record)
            if progress.end is BatchEnd.CANCELLED and open_questions:
                msg = f"{self._terms.name}: the batch {record.batch} was cancelled; run again"
                raise StageStoppedError(f"{msg} to send the rest", is_lasting=True)
        if spent is not None and open_questions:
            raise spent

    async def _resume(self, open_questions: Questions) -> AsyncIterator[BatchRecord]:
        """Yield the batches of earlier attempts and other workers that answer some questions."""
        for record in list(self._records.list()):
            is_needed = not open_questions.keys().isdisjoint(record.digests)
            if record.server != self._terms.server or not is_needed:
                continue
            batch = record.batch or await self._interface.find(self._calls, record.mark)
            if batch is None:
                self._records.remove(record)  # the batch was never sent
                continue
            self._report(f"{self._terms.name}: waiting for the batch {batch} of an earlier attempt")
            yield record._replace(batch=batch)

    async def _send_rest(
        self, open_questions: Questions, waiting: list[BatchRecord]
    ) -> BudgetSpentError | None:
        """Send the questions that no batch has, and append the batches to `waiting`."""
        batched = {digest for record in waiting for digest in record.digests}
        rest = {digest: each for digest, each in open_questions.items() if digest not in batched}
        for portion in self._divide(rest):
            granted, spent = self._take(portion)
            if granted:
                waiting.append(await self._send({each: rest[each] for each in granted}))
            if spent is not None:
                return spent
        return None

    def _divide(self, questions: Questions) -> Iterator[dict[bytes, int]]:
        """Yield portions within the vendor's limits: sizes of requests in bytes by digest."""
        portion, total = dict[bytes, int](), 0
        for digest, question in questions.items():
            size = len(json.dumps(question.body))  # JSON is ASCII
            is_full = len(portion) == self._interface.most_requests
            if portion and (is_full or total + size > self._interface.most_bytes):
                yield portion
                portion, total = {}, 0
            portion[digest] = size
            total += size
        if portion:
            yield portion

    def _take(self, portion: Mapping[bytes, int]) -> tuple[list[bytes], BudgetSpentError | None]:
        """Return the digests of a portion that the budget allows."""
        granted: list[bytes] = []
        for digest, size in portion.items():
            if self._account is not None:
                try:
                    self._grants[digest] = self._account.take(size)
                except BudgetSpentError as error:
                    return granted, error
            granted.append(digest)
        return granted, None

    async def _send(self, portion: Questions) -> BatchRecord:
        record = BatchRecord(self._draw_mark(), self._terms.server, tuple(portion))
        self._records.write(record)
        items = [BatchItem(digest.hex(), question.body) for digest, question in portion.items()]
        batch = await self._interface.create(self._calls, items, record.mark)
        record = record._replace(batch=batch)
        self._records.write(record)
        for _ in items:
            self._tally.begin()
        self._report(f"{self._terms.name}: sent {len(items)} requests as the batch {batch}")
        return record

    async def _await(self, record: BatchRecord) -> BatchProgress:
        """Return the last report on a batch; a batch that the vendor has lost has no results."""
        while True:
            progress = await self._interface.check(self._calls, record.batch)
            if progress is None:
                self._report(f"{self._terms.name}: the server has no batch {record.batch} any more")
                return BatchProgress(BatchEnd.ENDED)
            if progress.end is not BatchEnd.OPEN:
                return progress
            await self._calls.pause(self._terms.poll)

    async def _collect(
        self, record: BatchRecord, progress: BatchProgress, open_questions: Questions
    ) -> dict[bytes, Verdict | None]:
        """Return the verdict on each open question of a batch, which is None after its expiry.

        Raises:
            StageStoppedError: the batch failed, or the vendor refused all requests.
        """
        if progress.end is BatchEnd.FAILED:
            self._records.remove(record)
            msg = f"{self._terms.name}: the batch {record.batch} failed ({progress.what})"
            raise StageStoppedError(msg, is_lasting=True)
        replies = await fetch_results(self._interface, self._calls, progress.paths)
        verdicts = {
            digest: self._judge(digest, open_questions[digest], replies.get(digest.hex()))
            for digest in record.digests
            if digest in open_questions
        }
        refused = [each for each in verdicts.values() if isinstance(each, ServerRefusal)]
        if refused and len(refused) == len(verdicts):
            self._records.remove(record)
            raise StageStoppedError(f"{self._terms.name}: {refused[0].what}", is_lasting=True)
        return verdicts

    def _judge(self, digest: bytes, question: ModelQuestion, reply: Reply | None) -> Verdict | None:
        grant = self._grants.pop(digest, Grant(0.0))
        if reply is None:
            return None
        verdict, content = judge(reply, self._terms.endpoint), json.dumps(question.body).encode()
        usage = find_usage(reply, verdict, content, grant.tokens, self._terms.endpoint)
        self._tally.note_usage(usage)
        if self._account is not None:
            self._account.settle(grant, usage)
        return verdict

    def _conclude(
        self, question: ModelQuestion, verdict: Verdict | None, failures: int
    ) -> Outcome | None:
        """Return the outcome of a question, or None to send the question again."""
        if isinstance(verdict, ModelAnswer):
            complaint = question.check(verdict.text) if question.check is not None else None
            if complaint is None:
                return verdict
            return RowFault("malformed", f"the answer is invalid: {complaint}", verdict.text)
        if isinstance(verdict, RowFault):
            return verdict
        if isinstance(verdict, Unfit):
            return RowFault("unfit", f"the server rejects the request ({verdict.what})")
        if failures < self._terms.tries and not isinstance(verdict, ServerRefusal):
            return None
        what = "it expired" if verdict is None else verdict.what
        return RowFault("failed", f"the server failed on it in {failures} batches ({what})")
