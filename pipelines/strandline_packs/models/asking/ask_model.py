"""The stage `ask-model`: sends a request to a model server for every row."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from strandline.data.files.globs import is_url
from strandline.plan.errors import BudgetSpentError, StageInterruptedError, StageStoppedError
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.paid import NO_ANSWER
from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedRow, Slot, Task
from strandline_packs.models.asking.answers import Endpoint, ModelAnswer, RowFault
from strandline_packs.models.asking.log.answer_book import (
    AnswerBook,
    ConversationStore,
    KeepingTerms,
)
from strandline_packs.models.asking.log.log_folders import locate_log, open_account
from strandline_packs.models.asking.log.request_log import FolderLog
from strandline_packs.models.asking.log.store_log import StoreLog
from strandline_packs.models.asking.parameters import PACKAGES, AskParams
from strandline_packs.models.asking.protocols.index import find_protocol
from strandline_packs.models.asking.questions.conversations import (
    Conversation,
    Rollout,
    build_messages_body,
    hold_conversation,
    load_rollout,
)
from strandline_packs.models.asking.questions.prompts import digest_request, list_rows
from strandline_packs.models.asking.rows.requests import RequestBuilder, find_rules, list_keys
from strandline_packs.models.asking.rows.results import ResultBuilder, RowOutcomes, list_columns
from strandline_packs.models.asking.rows.session import AskSession
from strandline_packs.models.asking.serving.commands import render_command
from strandline_packs.models.asking.serving.engine import EngineTerms, OwnServer
from strandline_packs.models.asking.serving.weights import fetch_weights
from strandline_packs.models.asking.spending.tally import FROM_LOG, RequestTally
from strandline_packs.models.asking.traffic.asker import Asker, ModelQuestion, Poster, Spending
from strandline_packs.models.asking.traffic.batches.batcher import Batcher, BatchTerms
from strandline_packs.models.asking.traffic.batches.index import open_interface
from strandline_packs.models.asking.traffic.batches.port import BatchWire, VendorCalls
from strandline_packs.models.asking.traffic.batches.records import BatchRecords
from strandline_packs.models.asking.traffic.bundles import Bundler
from strandline_packs.models.asking.traffic.connection import BatchParams, read_headers
from strandline_packs.models.asking.traffic.health import Clock, Terms
from strandline_packs.models.asking.traffic.pace import RequestPace
from strandline_packs.models.asking.traffic.server_group import GroupMember, ServerGroup
from strandline_packs.models.asking.traffic.wire import LoopThread, Wire, WireLimits
from strandline_packs.models.asking.verdicts.refusal_words import clean

_KEEPING = KeepingTerms(64, 1.0, is_eager=True)
# Every write to a store is a request and a new object, so the groups are larger.
_KEEPING_IN_STORES = KeepingTerms(1024, 10.0, is_eager=False)
_NONCE_BYTES = 8  # random bytes in the name of a worker's log
_HIDDEN = "***"


class AskModel(Stage):
    """Adds `answer`, `answer_finish_reason`, and the token counts of prompt and answer.

    The stage logs answered requests and never repeats them. A row without a valid answer fails, and
    `onError` determines the consequences. If the server is down, the stage waits.
    """

    Params = AskParams
    params: AskParams
    packages: ClassVar[tuple[str, ...]] = PACKAGES
    # These parameters affect location, speed, and cost of requests, but no answers.
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset(
        {
            *("url", "servers", "key", "headers", "requests", "concurrency", "tries"),
            *("outage_limit", "timeouts", "texts_per_request", "batch"),
            *("requests_per_minute", "tokens_per_minute", "budget", "prices", "serve"),
        }
    )
    added_params: ClassVar[frozenset[str]] = frozenset({"rollout", "vector_size"})
    keeps_columns = True
    stops_early = True
    sends = True  # False in a copy that only recalls answers

    def list_needed_columns(self) -> tuple[str, ...]:
        return self.params.columns

    def change_columns(self, columns: Columns) -> Columns:
        return columns.having(list_columns(self.params))

    def log_to(self, folder: Path, name: str) -> Stage:
        """Return a copy of the stage that uses the log of a run."""
        log = locate_log(self.params.requests, folder, name)
        asking = type(self)(self.params.model_copy(update={"requests": log}))
        asking.planned_name = self.planned_name
        return asking

    def recall(self, folder: Path, name: str) -> Stage:
        """Return a copy of the stage that finds answers in the log of a run, and sends nothing."""
        unbounded = {"budget": None, "requests_per_minute": None, "tokens_per_minute": None}
        log = locate_log(self.params.requests, folder, name)
        recalling = type(self)(self.params.model_copy(update={"requests": log, **unbounded}))
        recalling.planned_name, recalling.sends = self.planned_name, False
        return recalling

    def find_request(self, table: pa.Table, row: int) -> Mapping[str, Any] | None:
        """Return digest, body, and stored answer of a row's request, or None for conversations."""
        if self._requests is None:
            return None
        requests = self._requests.build(table.slice(row, 1)).requests
        found = self._session.find_kept(requests)
        for digest, request in requests.items():
            answer = {"answer": found[digest].text} if digest in found else {}
            return {"digest": digest.hex(), "body": request.question.body, **answer}
        return None  # the row has no prompt, for example because a column is null

    def price(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Return the cost of tokens, or None if no prices are set."""
        return self.params.price(prompt_tokens, completion_tokens)

    def digest_inputs(self) -> dict[str, str]:
        """Return digests of the tokenizer, the served weights, and the rollout function, if set."""
        return dict(self.params.digests)

    def setup(self) -> None:
        """Read the API key, and prepare the connection. Start the stage's own server, if set.

        Raises:
            ValueError: the environment variable of the key is not set.
            ImportError: a package is missing.
            StageStoppedError: the stage's own server does not start.
        """
        self._secrets: list[str] = []
        clock = Clock(time.monotonic, asyncio.sleep, random.random, time.time)
        if not self.sends:
            self.open_asker(Wire("", {}, WireLimits(1, 1, 1, 1)), clock)  # never connects
            return
        server = self._connect(clock)
        self.open_asker(server, clock)
        if self.params.batch is not None and isinstance(server, Wire):
            self.open_batcher(server, clock, self.params.batch)
        self._loop = LoopThread(server)
        if isinstance(server, OwnServer):
            self._loop.run(server.start())

    def _connect(self, clock: Clock) -> Wire | ServerGroup | OwnServer:
        params, times = self.params, self.params.timeouts
        limits = WireLimits(times.connect, times.read, times.total, params.concurrency)
        if params.serve is None:
            return self._connect_to_servers(limits, clock)
        headers = find_protocol(params.endpoint).list_headers(None)
        connect = partial(Wire, headers=headers, limits=limits)
        name = f"{self._name}: {params.server}"
        render = partial(render_command, fetch_weights(params.serve, name), params.model)
        own = EngineTerms(name, params.serve.ready_within)
        # Hold the stage weakly: the loop's thread references the server, which must not keep the
        # stage alive.
        report = partial(_report_to, weakref.WeakMethod(self._notify))
        return OwnServer(render, connect, own, clock, report)

    def _connect_to_servers(self, limits: WireLimits, clock: Clock) -> Wire | ServerGroup:
        more, secrets = read_headers(self.params.headers)
        self._secrets += secrets
        members = []
        for server in self.params.list_servers():
            key = None if server.key is None else server.key.read(f"the server {server.url}")
            self._secrets += [] if key is None else [key]
            headers = {**find_protocol(self.params.endpoint).list_headers(key), **more}
            wire = Wire(server.url, headers, limits)
            members.append(GroupMember(server.url, wire, server.weight, server.fallback))
        if self.params.url is not None:
            return wire
        # Hold the stage weakly: see `_connect`.
        report = partial(_report_to, weakref.WeakMethod(self._notify))
        return ServerGroup(members, self._name, clock.now, report)

    def open_asker(self, poster: Poster, clock: Clock) -> None:
        """Prepare templates, schema, tokenizer, pace, and account, but not the connection."""
        params = self.params
        self._schema = params.read_schema()
        self._requests = None if params.prompt is None else RequestBuilder(params, self._schema)
        self._rollout = None if params.rollout is None else load_rollout(params.rollout)
        self._results = ResultBuilder(params, self._schema, self._hide)
        repairs = 0 if params.output is None else params.output.repairs
        terms = Terms(f"{self._name}: {params.server}", params.tries, params.outage_limit, repairs)
        tally = RequestTally(None if params.prices is None else params.spending.prices)
        account = None
        if params.spending.is_bounded:
            account = open_account(self._find_shared(), params.spending, self._name, clock.wall)
        spending, pace = Spending(tally, account), RequestPace(params.concurrency)
        asker = Asker(poster, params.endpoint, pace, terms, clock, self._notify, spending)
        working = nullcontext if account is None else account.working
        book = self._open_book(clock.now)
        limits = params.concurrency, params.timeouts.total
        is_vectors = params.endpoint is Endpoint.EMBEDDINGS
        bundler = Bundler(params.texts_per_request if is_vectors else 1)
        self._session = AskSession(asker, book, spending, working, *limits, bundler)

    def open_batcher(self, wire: BatchWire, clock: Clock, batch: BatchParams) -> None:
        """Let the stage ask in batches, after `open_asker`.

        Raises:
            ValueError: there is no folder for the records of batches.
        """
        params, folder = self.params, self._locate(self.params.requests)
        if folder is None:
            msg = (
                "`batch` keeps a record of each batch in the log of requests: mount the volume on "
                "the workers' nodes, or name a shared folder by `requests`"
            )
            raise ValueError(msg)
        name = f"{self._name}: {params.server}"
        calls = VendorCalls(
            wire, params.endpoint, name, params.outage_limit, clock, self.is_stopping
        )
        server = params.url or ""
        terms = BatchTerms(name, server, params.endpoint, params.tries, batch.poll_seconds)
        self._session.batcher = Batcher(
            open_interface(params.endpoint, batch.window),
            calls,
            BatchRecords(Path(folder)),
            terms,
            self._notify,
            self._session.spending,
            lambda: os.urandom(_NONCE_BYTES).hex(),
        )

    @classmethod
    def fans_out(cls) -> bool:
        """Return False: a returned list holds one task and the failed rows, not a task per item."""
        return False

    def process(self, task: Task) -> Task | list[Slot] | None:
        """Answer the rows of a task; requests found in the log are not sent again.

        Returns:
            The task with the answered rows, and a `FailedRow` for each failed row.

        Raises:
            MissingColumnError: a column of the prompt is missing.
            StageStoppedError: the server refuses all requests, or was down for too long.
        """
        if self._rollout is not None and not self.sends:
            # A conversation without one of its answers would take another course.
            return [FailedRow(row, NO_ANSWER) for row in range(task.num_rows)]
        if self._rollout is not None:
            outcomes, reason = self._converse(task, self._rollout), "by the conversation"
        else:
            assert self._requests is not None  # see `AskParams`
            outcomes, reason = self._answer(task, self._requests), "too long"
        for name, number in outcomes.count(reason):
            self.count(name, number)
        return self._results.build(task, outcomes)

    def _answer(self, task: Task, builder: RequestBuilder) -> RowOutcomes:
        prepared = builder.build(task.table)
        if prepared.truncated:
            self.count("prompts truncated", prepared.truncated)
        requests, found = prepared.requests, self._session.find_kept(prepared.requests)
        if found:
            self.count(FROM_LOG, len(found))
        wanted = {digest: each for digest, each in requests.items() if digest not in found}
        answered: dict[bytes, ModelAnswer | RowFault]
        if self.sends:
            with self._asking():
                answered = self._session.ask(self._loop, wanted, self.is_stopping)
        else:
            answered = dict.fromkeys(wanted, RowFault("unknown", NO_ANSWER))
        outcomes = RowOutcomes(faults=prepared.faults, dropped=prepared.dropped)
        for digest, request in requests.items():
            for row in request.rows:
                outcomes.add(row, self._results.check(found.get(digest) or answered[digest]))
        return outcomes

    def _converse(self, task: Task, rollout: Rollout) -> RowOutcomes:
        """Hold a conversation about each row."""
        params, outcomes = self.params, RowOutcomes()
        store = ConversationStore(self._session.book)
        digest = partial(digest_request, params.endpoint, rules=find_rules(params, None))
        build = partial(build_messages_body, params.model, params.parameters)
        # All conversations of a task share the store and the dictionary of locks, which is empty at
        # first.
        ask = partial(Conversation, self._ask_body, build, digest, store, {})
        check = None if self._schema is None else self._schema.find_fault
        columns = {name: task.table[name] for name in task.table.column_names}
        rows = list_rows(columns, task.num_rows)
        keys = list_keys(task.table)
        works = [
            partial(hold_conversation, rollout, row, ask(keys[at : at + 1]), check)
            for at, row in enumerate(rows)
        ]
        with self._asking():
            self._session.work(self._loop, works, outcomes.add, self.is_stopping)
        if store.hits:
            self.count(FROM_LOG, store.hits)
        return outcomes

    async def _ask_body(self, body: Mapping[str, Any]) -> ModelAnswer | RowFault:
        return await self._session.asker.ask(ModelQuestion(body))

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Wait for the server in the block, count requests, and remove secrets from errors."""
        try:
            with self.waiting():
                yield
        # These errors never contain text from the server, so they cannot contain the key.
        except (BudgetSpentError, StageInterruptedError):
            raise
        except StageStoppedError as error:
            msg = self._hide(str(error))
            # Do not chain the error: the original message may contain the key.
            raise StageStoppedError(msg, is_lasting=error.is_lasting, cause=error.cause) from None
        for name, number in self._session.spending.tally.take().items():
            self.count(name, number)

    def _open_book(self, now: Callable[[], float]) -> AnswerBook | None:
        """Return the book of the stage's log, or None if the stage has no log."""
        folder, writer = self._locate(self.params.requests), os.urandom(_NONCE_BYTES).hex()
        if folder is None:
            return None
        if is_url(folder):
            return AnswerBook(StoreLog(folder, writer), _KEEPING_IN_STORES, now, time.time)
        return AnswerBook(FolderLog(Path(folder), writer), _KEEPING, now, time.time)

    def _find_shared(self) -> str | None:
        """Return the account's folder. A store is unsuitable: the account is updated in place."""
        folder = self._locate(self.params.requests)
        return self._locate(None) if folder is None or is_url(folder) else folder

    def _locate(self, named: str | None) -> str | None:
        return locate_log(named, self.volume_folder, self._name)

    @property
    def _name(self) -> str:
        return self.planned_name or "ask-model"

    def _notify(self, line: str) -> None:
        hidden = self._hide(line)
        print(hidden, file=sys.stderr, flush=True)  # noqa: T201 - for readers of the worker's log
        if self.report is not None:
            self.report(hidden)

    def _hide(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return clean(text)


def _report_to(notify: weakref.WeakMethod[Callable[[str], None]], line: str) -> None:
    taker = notify()
    if taker is not None:
        taker(line)
