"""The stage `ask-model`: for each row a request to a server that speaks OpenAI's protocol."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from strandline.data.files.globs import is_url
from strandline.data.tables.columns import find_column, find_field, set_column
from strandline.plan.columns import Columns
from strandline.plan.errors import BudgetSpentError, StageInterruptedError, StageStoppedError
from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import FailedRow, Slot, Task
from strandline.stages.models.asking.answers import Endpoint, ModelAnswer, RowFault
from strandline.stages.models.asking.keeping.answer_book import (
    AnswerBook,
    ConversationStore,
    KeepingTerms,
)
from strandline.stages.models.asking.keeping.log_folders import locate_log, open_account
from strandline.stages.models.asking.keeping.request_log import FolderLog
from strandline.stages.models.asking.keeping.store_log import StoreLog
from strandline.stages.models.asking.parameters import PACKAGES, AskParams
from strandline.stages.models.asking.questions.conversations import (
    Conversation,
    Messages,
    Rollout,
    build_messages_body,
    hold_conversation,
    load_rollout,
)
from strandline.stages.models.asking.questions.lengths import LengthLimit, TooLong
from strandline.stages.models.asking.questions.prompts import (
    PromptError,
    Template,
    build_body,
    build_messages,
    digest_request,
    list_pictures,
    list_rows,
)
from strandline.stages.models.asking.questions.schemas import OWN_COLUMNS
from strandline.stages.models.asking.serving.commands import render_command
from strandline.stages.models.asking.serving.engine import EngineTerms, OwnServer
from strandline.stages.models.asking.serving.weights import fetch_weights
from strandline.stages.models.asking.spending.tally import FROM_LOG, RequestTally
from strandline.stages.models.asking.traffic.asker import (
    Asker,
    ModelQuestion,
    Outcome,
    Poster,
    Spending,
)
from strandline.stages.models.asking.traffic.health import Clock, Terms
from strandline.stages.models.asking.traffic.pace import RequestPace
from strandline.stages.models.asking.traffic.wire import LoopThread, Wire, WireLimits
from strandline.stages.models.asking.verdicts.refusal_words import clean

_KEEPING = KeepingTerms(64, 1.0, is_eager=True)
_KEEPING_IN_STORES = KeepingTerms(1024, 10.0, is_eager=False)
_NONCE_BYTES = 8
_HIDDEN = "***"
_VECTOR = pa.list_(pa.float32())


class _RowsRequest(NamedTuple):
    """A request that rows of a task have in common: most often one."""

    question: ModelQuestion
    rows: list[int]


@register("ask-model")
class AskModel(Stage):
    """Adds `answer`, its `answer_finish_reason`, and the tokens of prompt and answer, to each row.

    Requests that were answered are kept in a log, and not made again. A row without a good answer
    fails, and `onError` says what follows. A server that is down is waited for.
    """

    Params = AskParams
    params: AskParams
    packages: ClassVar[tuple[str, ...]] = PACKAGES
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset(
        {
            *("url", "key", "requests", "concurrency", "tries", "outage_limit", "timeouts"),
            *("requests_per_minute", "tokens_per_minute", "budget", "prices", "serve"),
        }
    )
    added_params: ClassVar[frozenset[str]] = frozenset({"rollout"})
    keeps_columns = True
    stops_early = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return self.params.columns

    def change_columns(self, columns: Columns) -> Columns:
        return columns.having(self._list_columns())

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of the tokenizer and of the conversation, where there is one."""
        return dict(self.params.digests)

    def setup(self) -> None:
        """Read the key, and make ready what connects to the server, which is not asked yet.

        Raises:
            ValueError: the variable of the key is not set.
            ImportError: a package is missing.
            StageStoppedError: a server of the stage's own does not start.
        """
        params = self.params
        self._key = params.read_key()
        headers = {} if self._key is None else {"authorization": f"Bearer {self._key}"}
        times = params.timeouts
        limits = WireLimits(times.connect, times.read, times.total, params.concurrency)
        connect = partial(Wire, headers=headers, limits=limits)
        clock = Clock(time.monotonic, asyncio.sleep, random.random, time.time)
        server: Wire | OwnServer
        if params.serve is None:
            server = connect(params.url or "")
        else:
            name = f"{self.planned_name or 'ask-model'}: {params.server}"
            render = partial(render_command, fetch_weights(params.serve, name), params.model)
            own = EngineTerms(name, params.serve.ready_within)
            # The loop's thread has the server, and must not keep the stage alive by it.
            report = partial(_report_to, weakref.WeakMethod(self._notify))
            server = OwnServer(render, connect, own, clock, report)
        self.open_asker(server, clock)
        self._loop = LoopThread(server)
        if isinstance(server, OwnServer):
            self._loop.run(server.start())

    def open_asker(self, poster: Poster, clock: Clock) -> None:
        """Make ready all but the connection: templates, schema, tokenizer, pace and account."""
        params = self.params
        self._template = None if params.prompt is None else Template(params.prompt)
        self._rollout = None if params.rollout is None else load_rollout(params.rollout)
        self._schema = params.read_schema()
        self._sent = {**params.parameters, **params.find_response_format()}
        self._limit = None
        if params.tokenizer is not None and params.max_prompt_tokens is not None:
            most = params.max_prompt_tokens
            self._limit = LengthLimit(params.tokenizer, most, params.system)
        repairs = 0 if params.output is None else params.output.repairs
        stage = self.planned_name or "ask-model"
        terms = Terms(f"{stage}: {params.server}", params.tries, params.outage_limit, repairs)
        pace = RequestPace(params.concurrency)
        self._now = clock.now
        self._tally = RequestTally(None if params.prices is None else params.spending.prices)
        account = None
        self._working: Callable[[], AbstractContextManager[None]] = nullcontext
        if params.spending.is_bounded:
            account = open_account(self._find_shared(), params.spending, stage, clock.wall)
            self._working = account.working
        spending = Spending(self._tally, account)
        self._asker = Asker(poster, params.endpoint, pace, terms, clock, self._notify, spending)
        self._book = self._open_book()

    @classmethod
    def fans_out(cls) -> bool:
        """Return False: a list holds one task, and the rows that failed."""
        return False

    def process(self, task: Task) -> Task | list[Slot] | None:
        """Answer the rows of a task; those that the log has are not asked for.

        Returns:
            The task with the rows that have an answer; with a `FailedRow` for each that failed.

        Raises:
            MissingColumnError: a column of the prompt is not there.
            StageStoppedError: nothing can be asked there, or the server was down for too long.
        """
        if self._rollout is not None:
            return self._converse(task, self._rollout)
        requests, faults, dropped = self._prepare(task.table)
        found: dict[bytes, ModelAnswer | RowFault] = {}
        if self._book is not None:
            found.update(self._book.find(requests))
        if found:
            self.count(FROM_LOG, len(found))
        wanted = [digest for digest in requests if digest not in found]
        self._ask(requests, wanted, found)
        answers: dict[int, ModelAnswer] = {}
        for digest, request in requests.items():
            outcome = found[digest]
            for row in request.rows:
                if isinstance(outcome, ModelAnswer):
                    answers[row] = outcome
                else:
                    faults[row] = outcome
        return self._build(task, answers, faults, dropped)

    def _ask(
        self,
        requests: Mapping[bytes, _RowsRequest],
        wanted: list[bytes],
        found: dict[bytes, ModelAnswer | RowFault],
    ) -> None:
        if not wanted:
            return
        book = self._book

        def keep(position: int, outcome: ModelAnswer | RowFault) -> None:
            found[wanted[position]] = outcome
            if book is not None and isinstance(outcome, ModelAnswer):
                book.put(wanted[position], outcome)

        questions = [requests[digest].question for digest in wanted]
        self._work([partial(self._asker.ask, question) for question in questions], keep)

    def _work(
        self,
        works: Sequence[Callable[[], Coroutine[Any, Any, Outcome]]],
        keep: Callable[[int, Outcome], None],
    ) -> None:
        """Do works that ask the server, and make what was answered durable, whatever happens."""
        book = self._book
        most, is_stopping = self.params.concurrency, self.is_stopping
        if book is None:  # answers of a task that is left would be lost
            is_stopping = bool

        def remind() -> None:
            if book is not None:
                book.remind(is_urgent=is_stopping())

        try:
            with self._working(), self.waiting():
                try:
                    self._loop.run(self._asker.work_all(works, most, keep, remind, is_stopping))
                finally:
                    if book is not None:
                        book.sync()
        except BudgetSpentError:
            self._loop.run(self._asker.await_others(self.params.timeouts.total))
            raise
        except StageInterruptedError:
            raise
        except StageStoppedError as error:
            msg = self._hide(str(error))
            raise StageStoppedError(msg, is_lasting=error.is_lasting, cause=error.cause) from None
        for name, number in self._tally.take().items():
            self.count(name, number)

    def _converse(self, task: Task, rollout: Rollout) -> Task | list[Slot] | None:
        """Hold a conversation about each row."""
        answers: dict[int, ModelAnswer] = {}
        faults: dict[int, RowFault] = {}
        dropped: set[int] = set()

        def keep(row: int, outcome: ModelAnswer | RowFault | None) -> None:
            if outcome is None:
                dropped.add(row)
            elif isinstance(outcome, RowFault):
                faults[row] = outcome
            else:
                answers[row] = outcome

        store = ConversationStore(self._book)
        digest = partial(digest_request, Endpoint.CHAT, rules=self._find_rules(None))
        ask = partial(Conversation, self._ask_body, self._build_body, digest, store, {})
        check = None if self._schema is None else self._schema.find_fault
        columns = {name: task.table[name] for name in task.table.column_names}
        rows = list_rows(columns, task.num_rows)
        hold = partial(hold_conversation, rollout)
        self._work([partial(hold, row, ask(), check) for row in rows], keep)
        if store.hits:
            self.count(FROM_LOG, store.hits)
        return self._build(task, answers, faults, dropped)

    async def _ask_body(self, body: Mapping[str, Any]) -> ModelAnswer | RowFault:
        return await self._asker.ask(ModelQuestion(body))

    def _build_body(self, messages: Messages, parameters: Mapping[str, Any]) -> dict[str, Any]:
        params = self.params
        return build_messages_body(params.model, params.parameters, messages, parameters)

    def _prepare(
        self, table: pa.Table
    ) -> tuple[dict[bytes, _RowsRequest], dict[int, RowFault], set[int]]:
        """Return the requests for rows by their digests, rows that have none, and those to drop."""
        requests: dict[bytes, _RowsRequest] = {}
        faults: dict[int, RowFault] = {}
        dropped: set[int] = set()
        rules = None if self.params.output is None else self.params.output.schema_
        for row, prompt, pictures in self._render(table, faults):
            fitting = self._fit(prompt)
            if isinstance(fitting, RowFault):
                faults[row] = fitting
            elif fitting is None:
                dropped.add(row)
            else:
                try:
                    messages = build_messages(fitting, self.params.system, pictures)
                except PromptError as error:
                    faults[row] = RowFault("unfit", str(error))
                    continue
                endpoint, model = self.params.endpoint, self.params.model
                body = build_body(endpoint, model, self._sent, fitting, messages)
                digest = digest_request(endpoint, body, self._find_rules(rules))
                check = None if self._schema is None else self._schema.find_fault
                requests.setdefault(
                    digest, _RowsRequest(ModelQuestion(body, check), [])
                ).rows.append(row)
        return requests, faults, dropped

    def _find_rules(self, schema: object) -> object:
        """Return what decides an answer beside the request: its schema, and weights of our own."""
        serve = self.params.serve
        return schema if serve is None else [schema, serve.weights]

    def _render(
        self, table: pa.Table, faults: dict[int, RowFault]
    ) -> list[tuple[int, str, list[bytes]]]:
        """Return each row's number, prompt and pictures; what can't be rendered is a fault."""
        assert self._template is not None  # a conversation makes its own prompts
        columns = {name: find_column(table, name) for name in self._template.columns}
        pictures = [find_field(table, name).to_pylist() for name in self.params.images]
        rendered = []
        for row, values in enumerate(list_rows(columns, table.num_rows)):
            try:
                if isinstance(values, PromptError):
                    raise values
                shown = [picture for each in pictures for picture in list_pictures(each[row])]
                rendered.append((row, self._template.render(values), shown))
            except PromptError as error:
                faults[row] = RowFault("unfit", str(error))
        return rendered

    def _fit(self, prompt: str) -> str | RowFault | None:
        """Return a prompt that is short enough; None: its row is dropped."""
        if self._limit is None:
            return prompt
        tokens = self._limit.measure(prompt)
        if tokens <= self._limit.most:
            return prompt
        if self.params.too_long is TooLong.TRUNCATE:
            self.count("prompts truncated")
            return self._limit.cut(prompt)
        if self.params.too_long is TooLong.DROP:
            return None
        msg = f"the prompt has {tokens} tokens, and may have {self._limit.most}"
        return RowFault("too long", msg)

    def _build(
        self,
        task: Task,
        answers: Mapping[int, ModelAnswer],
        faults: Mapping[int, RowFault],
        dropped: set[int],
    ) -> Task | list[Slot] | None:
        """Return the task with its answers, and what failed."""
        rows = sorted(answers)
        self._count_all(answers, faults, dropped)
        table = task.table.take(pa.array(rows, pa.int64()))
        kept = task.replace(self._add_columns(table, [answers[row] for row in rows]))
        marks = [self._mark(row, faults[row]) for row in sorted(faults)]
        is_left = bool(rows) or not task.num_rows
        if marks:
            return [*([kept] if is_left else []), *marks]
        return kept if is_left else None

    def _mark(self, row: int, fault: RowFault) -> FailedRow:
        return FailedRow(row, self._hide(fault.message), self._hide(fault.answer))

    def _count_all(
        self, answers: Mapping[int, ModelAnswer], faults: Mapping[int, RowFault], dropped: set[int]
    ) -> None:
        self.count("answers", len(answers))
        self.count("prompt tokens", sum(each.prompt_tokens for each in answers.values()))
        self.count("completion tokens", sum(each.completion_tokens for each in answers.values()))
        for kind, number in Counter(fault.kind for fault in faults.values()).items():
            self.count(f"failed: {kind}", number)
        if dropped:
            why = "too long" if self._rollout is None else "by the conversation"
            self.count(f"dropped: {why}", len(dropped))

    def _add_columns(self, table: pa.Table, answers: list[ModelAnswer]) -> pa.Table:
        into = self.params.into
        if self.params.endpoint is Endpoint.EMBEDDINGS:
            table = set_column(table, into, [each.vector for each in answers], _VECTOR)
        else:
            table = set_column(table, into, [each.text for each in answers], pa.string())
        finish, prompt, completion = (f"{into}_{name}" for name in OWN_COLUMNS)
        table = set_column(table, finish, [each.finish for each in answers], pa.string())
        table = set_column(table, prompt, [each.prompt_tokens for each in answers], pa.int64())
        table = set_column(
            table, completion, [each.completion_tokens for each in answers], pa.int64()
        )
        if self._schema is not None:
            for name, column in self._schema.build_columns([each.text for each in answers]):
                table = set_column(table, name, column, column.type)
        return table

    def _list_columns(self) -> tuple[str, ...]:
        schema, into = self.params.read_schema(), self.params.into
        properties = () if schema is None else schema.columns
        return (into, *(f"{into}_{name}" for name in OWN_COLUMNS), *properties)

    def _open_book(self) -> AnswerBook | None:
        """Return the book of the stage's log, or None if it keeps none."""
        folder, writer = self._find_folder(), os.urandom(_NONCE_BYTES).hex()
        if folder is None:
            return None
        if is_url(folder):
            log = StoreLog(folder, writer)
            return AnswerBook(log, _KEEPING_IN_STORES, self._now, time.time)
        return AnswerBook(FolderLog(Path(folder), writer), _KEEPING, self._now, time.time)

    def _find_folder(self) -> str | None:
        return self._locate(self.params.requests)

    def _find_shared(self) -> str | None:
        """Return the folder for the account, which is never in a store: it is written in place."""
        folder = self._find_folder()
        return self._locate(None) if folder is None or is_url(folder) else folder

    def _locate(self, named: str | None) -> str | None:
        return locate_log(named, self.volume_folder, self.planned_name or "ask-model")

    def _notify(self, line: str) -> None:
        hidden = self._hide(line)
        print(hidden, file=sys.stderr, flush=True)  # noqa: T201 - for readers of a worker's log
        if self.report is not None:
            self.report(hidden)

    def _hide(self, text: str) -> str:
        return clean(text if self._key is None else text.replace(self._key, _HIDDEN))


def _report_to(notify: weakref.WeakMethod[Callable[[str], None]], line: str) -> None:
    taker = notify()
    if taker is not None:
        taker(line)
