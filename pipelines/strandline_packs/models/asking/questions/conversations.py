"""A conversation about a row: a function of the user's own asks, and makes an answer of answers.

Each of its requests goes by the log: one that was answered is not made again. It must not know
tables, nor where answers are kept.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Protocol

from strandline.plan.errors import StrandlineError
from strandline_packs.models.asking.answers import ModelAnswer, PromptError, RowFault
from strandline_packs.models.asking.protocols.openai import build_conversation
from strandline_packs.models.asking.verdicts.contents import find_unclean

Outcome = ModelAnswer | RowFault | None
Messages = str | Sequence[Mapping[str, Any]]
_SHOWN = 300


class AnswerStore(Protocol):
    """What was answered before."""

    def find(self, digest: bytes) -> ModelAnswer | None:
        """Return the answer to a request; None: there is none yet."""

    def put(self, digest: bytes, answer: ModelAnswer) -> None:
        """Take an answer."""


class RowFailedError(Exception):
    """A request has no good answer, which fails its row unless the function catches it.

    Attributes:
        fault: why.
    """

    def __init__(self, fault: RowFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Conversation:
    """What a function is handed to ask with, for one row.

    Args:
        ask: asks a server by the body of a request.
        build: returns the body of a request for messages and parameters.
        digest: returns what a request is known by.
        store: of answers.
        locks: by digests, so that of two workers with the same request one asks.
    """

    def __init__(
        self,
        ask: Callable[[Mapping[str, Any]], Awaitable[ModelAnswer | RowFault]],
        build: Callable[[Messages, Mapping[str, Any]], dict[str, Any]],
        digest: Callable[[Mapping[str, Any]], bytes],
        store: AnswerStore,
        locks: dict[bytes, asyncio.Lock],
    ) -> None:
        self._ask, self._build, self._digest = ask, build, digest
        self._store, self._locks = store, locks
        self.answers: list[ModelAnswer] = []
        self.stopped: StrandlineError | None = None

    async def __call__(self, messages: Messages, **parameters: Any) -> ModelAnswer:  # noqa: ANN401 - the server's
        """Ask, and return the answer; the same request has the same answer.

        Args:
            messages: a prompt, or all messages as OpenAI's protocol has them.
            parameters: in place of the stage's own, such as `seed` or `temperature`.

        Raises:
            RowFailedError: there is no good answer.
        """
        if self.stopped is not None:  # the function has caught it, and goes on
            raise self.stopped
        body = self._build(messages, parameters)
        digest = self._digest(body)
        async with self._locks.setdefault(digest, asyncio.Lock()):
            try:
                outcome = self._store.find(digest) or await self._ask_server(digest, body)
            except StrandlineError as error:
                self.stopped = error
                raise
        if isinstance(outcome, RowFault):
            raise RowFailedError(outcome)
        self.answers.append(outcome)
        return outcome

    async def _ask_server(self, digest: bytes, body: Mapping[str, Any]) -> ModelAnswer | RowFault:
        outcome = await self._ask(body)
        if isinstance(outcome, ModelAnswer):
            self._store.put(digest, outcome)
        return outcome

    def stopped_or(self, outcome: Outcome) -> Outcome:
        """Return an outcome, unless the work has ended and the function has gone on.

        Raises:
            StrandlineError: it has.
        """
        if self.stopped is not None:
            raise self.stopped
        return outcome


Rollout = Callable[[dict[str, Any], Conversation], Coroutine[Any, Any, object]]


async def hold_conversation(
    rollout: Rollout,
    row: dict[str, Any] | PromptError,
    conversation: Conversation,
    find_fault: Callable[[str], str | None] | None,
) -> Outcome:
    """Return what a function makes of a row, as one answer; None: the row is dropped.

    Args:
        find_fault: returns what is wrong with its text; None: nothing can be.

    Raises:
        StrandlineError: the work has ended, whatever the function made of that.
    """
    if isinstance(row, PromptError):
        return RowFault("unfit", str(row))
    try:
        result = await rollout(row, conversation)
    except StrandlineError:
        raise
    except RowFailedError as error:
        return conversation.stopped_or(error.fault)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        what = " ".join(f"{type(error).__name__}: {error}".split())[:_SHOWN]
        # The function may have failed to read the last answer.
        last = conversation.answers[-1].text if conversation.answers else ""
        return conversation.stopped_or(RowFault("raised", f"the conversation raised {what}", last))
    return conversation.stopped_or(_sum_up(result, conversation.answers, find_fault))


def _sum_up(
    result: object,
    answers: Sequence[ModelAnswer],
    find_fault: Callable[[str], str | None] | None,
) -> Outcome:
    if result is None:
        return None
    try:
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        return RowFault("malformed", f"what the conversation returned is no JSON: {error}")
    complaint = find_unclean(text)
    if complaint is None and find_fault is not None:
        complaint = find_fault(text)
    if complaint is not None:
        why = f"what the conversation returned is not right: {complaint}"
        return RowFault("malformed", why, text)
    prompt = sum(each.prompt_tokens for each in answers)
    completion = sum(each.completion_tokens for each in answers)
    last = answers[-1] if answers else ModelAnswer("", None, "stop", 0, 0, "")
    return ModelAnswer(text, None, last.finish, prompt, completion, last.model)


def build_messages_body(
    model: str, parameters: Mapping[str, Any], messages: Messages, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of a request of a conversation."""
    whole = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    return build_conversation(model, {**parameters, **more}, whole)


def load_rollout(name: str) -> Rollout:
    """Return the function that a pipeline names as `module:function`.

    Raises:
        ValueError: there is none, or it is not asynchronous.
    """
    module_name, _, function_name = name.partition(":")
    if not (module_name and function_name):
        msg = f"`rollout` is `module:function`, and not {name!r}"
        raise ValueError(msg)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything
        msg = f"`rollout`: {module_name!r} can't be imported ({type(error).__name__}: {error})"
        raise ValueError(msg) from None
    function = getattr(module, function_name, None)
    if not inspect.iscoroutinefunction(function):
        msg = f"`rollout`: {module_name} has no `async def {function_name}(row, ask)`"
        raise ValueError(msg)
    rollout: Rollout = function
    return rollout


def digest_rollout(rollout: Rollout) -> str:
    """Return a digest of a function's own lines, which decide what is asked."""
    try:
        lines = inspect.getsource(rollout)
    except OSError:
        lines = rollout.__qualname__
    return blake2b(lines.encode(), digest_size=16).hexdigest()
