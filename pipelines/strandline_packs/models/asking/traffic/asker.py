"""Sends many questions to a server: retries transient failures, waits out outages, stops otherwise.

A question fails alone only if the server answers other questions. To find out, the asker sends a
probe of a few tokens. Clock, sleep and randomness are arguments. The module must not depend on
rows, or where answers are logged.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

from strandline.plan.errors import BudgetSpentError, StageInterruptedError, StageStoppedError
from strandline_packs.models.asking.answers import (
    Endpoint,
    ModelAnswer,
    Reply,
    RowFault,
    ServerRefusal,
    Setback,
    UnansweredRequest,
    Unfit,
    Usage,
    Verdict,
)
from strandline_packs.models.asking.protocols.index import find_protocol
from strandline_packs.models.asking.spending.account import Account, Grant
from strandline_packs.models.asking.spending.tally import RequestTally
from strandline_packs.models.asking.traffic.health import Clock, ServerHealth, Terms
from strandline_packs.models.asking.traffic.judging import find_usage, judge
from strandline_packs.models.asking.traffic.pace import RequestPace, choose_wait
from strandline_packs.models.asking.verdicts.blame import RowTries, ServerTraffic

TICK_SECONDS = 1.0  # pause between two calls of `remind`
Outcome = TypeVar("Outcome")
_LOOK_SECONDS = 0.1  # pause between two checks while the run stops
_FAILED = "failed"  # fault kind of a row that the server never answered


class Poster(Protocol):
    """Posts bytes to a path of a server."""

    def post(self, path: str, body: bytes) -> Awaitable[Reply | UnansweredRequest]:
        """Send a POST request, and return the response or the reason for its absence."""


class Spending(NamedTuple):
    """Counters of requests, and the account that permits requests; None if nothing is limited."""

    tally: RequestTally
    account: Account | None = None


class ModelQuestion(NamedTuple):
    """The question about a row.

    Attributes:
        body: body of the request.
        check: returns the fault of an answer's text, or None for a valid answer.
    """

    body: Mapping[str, Any]
    check: Callable[[str], str | None] | None = None


class Asker:
    """Sends questions to one server, from one loop.

    Args:
        report: receives lines for users.
        spending: counts and permits requests.
    """

    def __init__(
        self,
        poster: Poster,
        endpoint: Endpoint,
        pace: RequestPace,
        terms: Terms,
        clock: Clock,
        report: Callable[[str], None],
        spending: Spending,
    ) -> None:
        self._poster, self._endpoint, self._pace = poster, endpoint, pace
        self._protocol = find_protocol(endpoint)
        self._terms, self._clock = terms, clock
        self._tally, self._account = spending
        self._traffic = ServerTraffic()
        self._health = ServerHealth(terms, clock, report, self._traffic)
        # time of the last probe, and whether the server answered
        self._probed = float("-inf"), False
        self._report, self._has_reported_estimate = report, False
        self._in_flight = 0  # requests admitted by the pace; `_sent` counts those on the wire
        self._sent = 0
        self._is_stopping: Callable[[], bool] = bool
        self._freed = asyncio.Event()
        self._probing = asyncio.Lock()
        self._taking = asyncio.Lock()
        self._bar_to_all: StageStoppedError | None = None

    async def work_all(
        self,
        works: Sequence[Callable[[], Coroutine[Any, Any, Outcome]]],
        most: int,
        keep: Callable[[int, Outcome], None],
        remind: Callable[[], None],
        is_stopping: Callable[[], bool] = bool,
    ) -> None:
        """Run coroutines that send requests, and pass outcomes to `keep` as they arrive.

        Args:
            most: maximum number of concurrent coroutines.
            keep: receives the index of a coroutine, and its outcome.
            remind: called after each outcome, and every second.
            is_stopping: returns whether the run is stopping; then no more requests are sent.

        Raises:
            StageStoppedError: the server refuses all requests, or was down for too long.
            BudgetSpentError: the budget is spent. Outcomes of requests in flight were passed to
                `keep`.
            StageInterruptedError: the run stops. Outcomes of requests in flight were passed to
                `keep`.
        """
        self._is_stopping = is_stopping
        waiting, spent = iter(enumerate(works)), list[StageStoppedError]()

        async def work_on() -> None:
            """Run coroutines one after another, without an asyncio task for each."""
            while not spent and (found := next(waiting, None)) is not None:
                at, work = found
                try:
                    outcome = await work()
                except (BudgetSpentError, StageInterruptedError) as error:
                    spent.append(error)
                else:
                    keep(at, outcome)
                    remind()

        workers = {asyncio.create_task(work_on()) for _ in range(min(most, len(works)))}
        try:
            left = workers
            while left:
                # A stopping run has little time left, so check more often.
                tick = _LOOK_SECONDS if is_stopping() else TICK_SECONDS
                done, left = await asyncio.wait(
                    left, timeout=tick, return_when=asyncio.FIRST_EXCEPTION
                )
                for worker in done:
                    worker.result()  # raises the error of a failed worker
                remind()
                if left and not self._sent and is_stopping():
                    spent.append(StageInterruptedError())
                    break  # no request is in flight; the remaining work only waits
        finally:
            await _cancel(workers)
        if spent:
            raise spent[0]

    async def ask(self, question: ModelQuestion) -> ModelAnswer | RowFault:
        """Repeat a question until an answer is valid, or no valid answer can be expected."""
        body, used, text = question.body, (0, 0), ""
        for round_ in range(self._terms.repairs + 1):
            found = await self._insist(body)
            if isinstance(found, RowFault):
                return found
            # Corrections cost tokens too, so the answer carries the sum of all rounds.
            used = used[0] + found.prompt_tokens, used[1] + found.completion_tokens
            text = found.text
            complaint = question.check(text) if question.check is not None else None
            if complaint is None:
                return found._replace(prompt_tokens=used[0], completion_tokens=used[1])
            if round_ == self._terms.repairs:
                break
            body = self._protocol.complain(body, text, complaint)
        why = f"the answer is invalid: {complaint}"
        return RowFault("malformed", why, text)

    async def _insist(self, body: Mapping[str, Any]) -> ModelAnswer | RowFault:
        """Retry until the server answers or rejects the question itself."""
        terms, begun = self._terms, self._clock.now()
        tries = RowTries(self._traffic, terms.tries, terms.outage_limit, begun)
        found: ModelAnswer | RowFault | None = None
        try:
            while found is None:
                found = await self._try_on(body, tries)
        finally:
            is_failed = isinstance(found, RowFault) and found.kind == _FAILED
            tries.close(self._clock.now(), is_answered=found is not None and not is_failed)
        return found

    async def _try_on(
        self, body: Mapping[str, Any], tries: RowTries
    ) -> ModelAnswer | RowFault | None:
        """Send a request once, and wait after a failure. Return None if the caller must retry."""
        content = json.dumps(body).encode()
        expected = self._protocol.count_items(body)
        verdict, sent = await self._try(content, expected, is_alone=tries.is_alone)
        if isinstance(verdict, ModelAnswer | RowFault):
            return verdict
        if isinstance(verdict, Unfit) and await self._takes_others(body):
            return RowFault("unfit", f"the server rejects the request ({verdict.what})")
        setback = verdict if isinstance(verdict, Setback) else Setback(verdict.what)
        tries.note(setback, self._clock.now())
        is_barred = isinstance(verdict, ServerRefusal)
        # After a refusal, the probe allows an answer as long as the row's: a server may refuse
        # requests that exceed the remaining credit.
        probe = self._protocol.shrink(body, is_short=not is_barred)
        is_up = (is_barred or tries.needs_evidence) and await self._answers_others(probe, sent)
        if is_barred and not is_up:
            self._health.note_setback(verdict.what)
        if is_up and tries.is_to_blame(self._clock.now()):
            times = f"{tries.setbacks} times" if tries.setbacks > 1 else "once"
            words = verdict.words if isinstance(verdict, ServerRefusal) else verdict.what
            return RowFault(_FAILED, f"the server failed on it {times} ({words})")
        await self._clock.sleep(choose_wait(tries.setbacks, setback.hold, self._clock.draw()))
        return None

    async def _try(
        self, content: bytes, expected: int = 1, *, is_alone: bool = False, is_probe: bool = False
    ) -> tuple[Verdict, float]:
        """Send a request once, within the pace. Return the verdict, and the time of sending.

        Args:
            content: body of the request.
            expected: how many answers the request asks for.
            is_probe: whether the request is a probe. Probes skip the limit of concurrent requests,
                because other requests wait for them.
            is_alone: whether the server answers other rows and pushes back only this row. Then a
                push-back does not indicate an overload.

        Raises:
            StageStoppedError, BudgetSpentError: see `work_all`.
        """
        await self._enter(is_probe=is_probe)
        try:
            grant = await self._take(len(content))
            if self._is_stopping():  # requests in flight are awaited, and no new request is sent
                raise StageInterruptedError
            begun = self._clock.now()
            self._tally.begin()
            reply = await self._post(content)
            verdict = judge(reply, self._endpoint, expected)
            now = self._clock.now()
            # Settle first: `note_setback` may raise, and the tokens are spent in any case.
            self._settle(grant, find_usage(reply, verdict, content, grant.tokens, self._endpoint))
            if isinstance(verdict, Setback):
                # A server may request a pause of a day; wait no longer than for a server that is
                # down.
                hold = verdict.hold and min(verdict.hold, self._terms.outage_limit)
                verdict = verdict._replace(hold=hold)
                if (verdict.is_busy or verdict.is_late) and not is_alone:
                    self._pace.note_push_back(begun, now, verdict.hold)
                self._health.note_setback(verdict.what)
            elif not isinstance(verdict, ServerRefusal):
                self._tally.note_answer(now - begun)
                self._pace.note_answer(now - begun, self._in_flight)
                self._health.note_answer(is_good=not isinstance(verdict, Unfit))
        finally:
            self._in_flight -= 1
            self._freed.set()
        return verdict, begun

    async def _post(self, content: bytes) -> Reply | UnansweredRequest:
        self._sent += 1
        try:
            return await self._poster.post(self._protocol.paths[self._endpoint], content)
        finally:
            self._sent -= 1

    async def _take(self, size: int) -> Grant:
        """Wait until the account allows a request.

        Raises:
            BudgetSpentError: the budget is spent.
        """
        if self._account is None:
            return Grant(0.0)
        async with self._taking:  # a single request polls on behalf of all
            while (grant := self._account.take(size)).wait > 0:
                await self._clock.sleep(grant.wait)
        return grant

    async def await_others(self, limit: float) -> None:
        """Wait for requests in flight at other workers, which would be lost at the attempt's end.

        Args:
            limit: maximum wait in seconds.
        """
        until = self._clock.now() + limit
        while self._account is not None and not self._account.is_at_rest():
            if self._clock.now() >= until:
                return
            await self._clock.sleep(_LOOK_SECONDS)

    def _settle(self, grant: Grant, usage: Usage) -> None:
        self._tally.note_usage(usage)
        if self._account is None:
            return
        self._account.settle(grant, usage)
        if not usage.is_known and not self._has_reported_estimate:
            self._has_reported_estimate = True
            self._report(
                f"{self._terms.name}: the server did not report the tokens of a request; counting "
                "one token for every 4 bytes"
            )

    async def _enter(self, *, is_probe: bool) -> None:
        while True:
            # Check again after every sleep: the server may have requested a longer pause.
            held = self._pace.held_until - self._clock.now()
            if held > 0:
                await self._clock.sleep(held)
            elif is_probe or self._in_flight < int(self._pace.limit):
                self._in_flight += 1
                return
            else:
                # No await between the check and `clear`, so no wake-up is lost.
                self._freed.clear()
                await self._freed.wait()

    async def _takes_others(self, body: Mapping[str, Any]) -> bool:
        """Return whether the server accepts other requests with the same parameters.

        Return False if a probe gives no clear result.

        Raises:
            StageStoppedError: the server rejects the probe too, so it rejects all requests.
        """
        async with self._probing:
            if self._bar_to_all is not None:  # another row found out
                raise self._bar_to_all
            if self._health.has_answered:
                return True
            verdict, _ = await self._try(
                json.dumps(self._protocol.shrink(body)).encode(), is_probe=True
            )
            if isinstance(verdict, Unfit):
                msg = f"{self._terms.name}: the server rejects such requests ({verdict.what})"
                self._bar_to_all = StageStoppedError(msg, is_lasting=True)
                raise self._bar_to_all
        return isinstance(verdict, ModelAnswer | RowFault)

    async def _answers_others(self, probe: Mapping[str, Any], since: float) -> bool:
        """Return whether the server answered another question since a time, or answers a probe.

        Raises:
            StageStoppedError: the server refuses all requests.
        """
        # The lock makes rows that fail at the same time share a probe.
        async with self._probing:
            if self._bar_to_all is not None:  # another row found out
                raise self._bar_to_all
            if self._traffic.answered_at > since:
                return True
            probed_at, is_up = self._probed
            if probed_at >= since:  # another row has sent a probe
                return is_up
            verdict, probed_at = await self._try(json.dumps(probe).encode(), is_probe=True)
            # After the server has answered once, an uncertain refusal may be a proxy's transient
            # error.
            if isinstance(verdict, ServerRefusal) and (
                verdict.is_sure or not self._health.has_answered
            ):
                msg = f"{self._terms.name}: {verdict.what}"
                self._bar_to_all = StageStoppedError(msg, is_lasting=True)
                raise self._bar_to_all
            # A rejected probe is an answer too: the server is up.
            is_up = isinstance(verdict, ModelAnswer | RowFault | Unfit)
            self._traffic.probed += is_up
            self._probed = probed_at, is_up
        return is_up


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        # Cancel all tasks before awaiting any, so that no task continues in between.
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError, Exception):
            await task
