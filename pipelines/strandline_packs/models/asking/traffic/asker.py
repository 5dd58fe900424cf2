"""Asks a server many questions: tries again what may pass, waits while it is down, ends what can't.

A question fails alone only where the server answers others: a smaller one is asked to find out, of
a few tokens. Clock, sleep and chance come in. It must not know rows, or where answers are kept.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

from strandline.plan.errors import BudgetSpentError, StageInterruptedError, StageStoppedError
from strandline_packs.models.asking.answers import (
    Barred,
    Endpoint,
    ModelAnswer,
    Reply,
    RowFault,
    Setback,
    Unanswered,
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

TICK_SECONDS = 1.0  # seconds between two reminders to keep answers
Outcome = TypeVar("Outcome")
_LOOK_SECONDS = 0.1  # from one look at other workers to the next
_FAILED = "failed"  # kind of fault of a row that the server does not answer


class Poster(Protocol):
    """Posts bytes to a path of a server."""

    def post(self, path: str, body: bytes) -> Awaitable[Reply | Unanswered]:
        """Return what came back, whatever that was."""


class Spending(NamedTuple):
    """What counts requests, and what allows them; None: nothing has to."""

    tally: RequestTally
    account: Account | None = None


class ModelQuestion(NamedTuple):
    """What is asked for a row.

    Attributes:
        body: of the request.
        check: returns what is wrong with an answer's text; None: nothing.
    """

    body: Mapping[str, Any]
    check: Callable[[str], str | None] | None = None


class Asker:
    """Asks questions of one server, from one loop.

    Args:
        report: takes a line for people.
        spending: counts requests, and allows them.
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
        self._probed = float("-inf"), False  # when it was last tried out, and whether it answered
        self._report, self._has_reported_estimate = report, False
        self._in_flight = 0  # requests that have room, and of these the number that is sent
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
        """Do all works that ask something, and hand each one's outcome on, as they come.

        Args:
            most: works that are open at a time.
            keep: takes the position of a work, and what came of it.
            remind: is called after each of them, and every second.
            is_stopping: returns whether the run stops: then nothing more is asked.

        Raises:
            StageStoppedError: nothing can be asked here, or the server was down for too long.
            BudgetSpentError: no more may be asked; what was under way has been handed on.
            StageInterruptedError: the run stops; the same.
        """
        self._is_stopping = is_stopping
        waiting, spent = iter(enumerate(works)), list[StageStoppedError]()

        async def work_on() -> None:
            """Take work after work, without a task for each of them."""
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
                tick = _LOOK_SECONDS if is_stopping() else TICK_SECONDS
                done, left = await asyncio.wait(
                    left, timeout=tick, return_when=asyncio.FIRST_EXCEPTION
                )
                for worker in done:
                    worker.result()
                remind()
                if left and not self._sent and is_stopping():
                    spent.append(StageInterruptedError())
                    break  # the rest waits for its turn, or until it asks again
        finally:
            await _cancel(workers)
        if spent:
            raise spent[0]

    async def ask(self, question: ModelQuestion) -> ModelAnswer | RowFault:
        """Ask until there is an answer that stands the check, or none can be had."""
        body, used, text = question.body, (0, 0), ""
        for round_ in range(self._terms.repairs + 1):
            found = await self._insist(body)
            if isinstance(found, RowFault):
                return found
            used = used[0] + found.prompt_tokens, used[1] + found.completion_tokens
            text = found.text
            complaint = question.check(text) if question.check is not None else None
            if complaint is None:
                return found._replace(prompt_tokens=used[0], completion_tokens=used[1])
            if round_ == self._terms.repairs:
                break
            body = self._protocol.complain(body, text, complaint)
        why = f"the answer is not what was asked for: {complaint}"
        return RowFault("malformed", why, text)

    async def _insist(self, body: Mapping[str, Any]) -> ModelAnswer | RowFault:
        """Ask until the server says something of the question itself."""
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
        """Ask once more, and wait if no answer came; return None if another try is due."""
        content = json.dumps(body).encode()
        verdict, sent = await self._try(content, is_alone=tries.is_alone)
        if isinstance(verdict, ModelAnswer | RowFault):
            return verdict
        if isinstance(verdict, Unfit) and await self._takes_others(body):
            return RowFault("unfit", f"the server does not take the request ({verdict.what})")
        setback = verdict if isinstance(verdict, Setback) else Setback(verdict.what)
        tries.note(setback, self._clock.now())
        is_barred = isinstance(verdict, Barred)
        # As long an answer as the row's: a server may refuse to do more than it has credit for.
        probe = self._protocol.shrink(body, is_short=not is_barred)
        is_up = (is_barred or tries.needs_evidence) and await self._answers_others(probe, sent)
        if is_barred and not is_up:
            self._health.note_setback(verdict.what)
        if is_up and tries.is_to_blame(self._clock.now()):
            times = f"{tries.setbacks} times" if tries.setbacks > 1 else "once"
            words = verdict.words if isinstance(verdict, Barred) else verdict.what
            return RowFault(_FAILED, f"the server failed on it {times} ({words})")
        await self._clock.sleep(choose_wait(tries.setbacks, setback.hold, self._clock.draw()))
        return None

    async def _try(
        self, content: bytes, *, is_alone: bool = False, is_probe: bool = False
    ) -> tuple[Verdict, float]:
        """Ask once, when there is room for it, and return when that was, too.

        Args:
            is_probe: others wait for it, so it does not wait for them.
            is_alone: the server answers others and pushes this row back, which says nothing of
                how much it can bear.

        Raises:
            StageStoppedError, BudgetSpentError: see `work_all`.
        """
        await self._enter(is_probe=is_probe)
        try:
            grant = await self._take(len(content))
            if self._is_stopping():  # answers on their way are awaited, and nothing more is asked
                raise StageInterruptedError
            begun = self._clock.now()
            self._tally.begin()
            reply = await self._post(content)
            verdict = judge(reply, self._endpoint)
            now = self._clock.now()
            self._settle(grant, find_usage(reply, verdict, content, grant.tokens, self._endpoint))
            if isinstance(verdict, Setback):
                # A server may ask for a day; it is not waited for longer than one that is down.
                hold = verdict.hold and min(verdict.hold, self._terms.outage_limit)
                verdict = verdict._replace(hold=hold)
                if (verdict.is_busy or verdict.is_late) and not is_alone:
                    self._pace.note_push_back(begun, now, verdict.hold)
                self._health.note_setback(verdict.what)
            elif not isinstance(verdict, Barred):
                self._tally.note_answer(now - begun)
                self._pace.note_answer(now - begun, self._in_flight)
                self._health.note_answer(is_good=not isinstance(verdict, Unfit))
        finally:
            self._in_flight -= 1
            self._freed.set()
        return verdict, begun

    async def _post(self, content: bytes) -> Reply | Unanswered:
        self._sent += 1
        try:
            return await self._poster.post(self._protocol.paths[self._endpoint], content)
        finally:
            self._sent -= 1

    async def _take(self, size: int) -> Grant:
        """Wait until the account allows a request.

        Raises:
            BudgetSpentError: it never will.
        """
        if self._account is None:
            return Grant(0.0)
        async with self._taking:  # so that of a worker's many requests one looks again
            while (grant := self._account.take(size)).wait > 0:
                await self._clock.sleep(grant.wait)
        return grant

    async def await_others(self, limit: float) -> None:
        """Wait for what other workers have under way, which would end with the attempt.

        Args:
            limit: seconds after which they are not waited for.
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
                f"{self._terms.name}: it has not reported the tokens of a request; a token is "
                "counted for every 4 bytes"
            )

    async def _enter(self, *, is_probe: bool) -> None:
        while True:
            held = self._pace.held_until - self._clock.now()
            if held > 0:
                await self._clock.sleep(held)
            elif is_probe or self._in_flight < int(self._pace.limit):
                self._in_flight += 1
                return
            else:
                self._freed.clear()
                await self._freed.wait()

    async def _takes_others(self, body: Mapping[str, Any]) -> bool:
        """Return whether a request of the same parameters is taken; False: it is not known.

        Raises:
            StageStoppedError: none is.
        """
        async with self._probing:
            if self._bar_to_all is not None:  # the answer to another row
                raise self._bar_to_all
            if self._health.has_answered:
                return True
            verdict, _ = await self._try(
                json.dumps(self._protocol.shrink(body)).encode(), is_probe=True
            )
            if isinstance(verdict, Unfit):
                msg = f"{self._terms.name}: it takes no such request ({verdict.what})"
                self._bar_to_all = StageStoppedError(msg, is_lasting=True)
                raise self._bar_to_all
        return isinstance(verdict, ModelAnswer | RowFault)

    async def _answers_others(self, probe: Mapping[str, Any], since: float) -> bool:
        """Return whether the server has answered another question since then, or a probe now.

        Raises:
            StageStoppedError: it refuses them all.
        """
        async with self._probing:
            if self._bar_to_all is not None:  # the answer to another row
                raise self._bar_to_all
            if self._traffic.answered_at > since:
                return True
            probed_at, is_up = self._probed
            if probed_at >= since:  # by another row
                return is_up
            verdict, probed_at = await self._try(json.dumps(probe).encode(), is_probe=True)
            if isinstance(verdict, Barred) and (verdict.is_sure or not self._health.has_answered):
                msg = f"{self._terms.name}: {verdict.what}"
                self._bar_to_all = StageStoppedError(msg, is_lasting=True)
                raise self._bar_to_all
            is_up = isinstance(verdict, ModelAnswer | RowFault | Unfit)
            self._traffic.probed += is_up
            self._probed = probed_at, is_up
        return is_up


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError, Exception):
            await task
