"""Runs conversations about a row: the user's function sends requests and combines the answers.

Every request is looked up in the log first, and is sent only if the log has no answer. The module
must not depend on tables, or the location of the log.
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
_SHOWN = 300  # maximum length of an error in a message, in characters


class AnswerStore(Protocol):
    """Earlier answers by request."""

    def find(self, digest: bytes) -> ModelAnswer | None:
        """Return the answer to a request, or None if the request has no answer yet."""

    def put(self, digest: bytes, answer: ModelAnswer, keys: Sequence[str]) -> None:
        """Store an answer, with the keys of the rows that need the answer."""


class RowFailedError(Exception):
    """Raised if a request has no good answer. The row fails unless the function catches this error.

    Attributes:
        fault: reason for the missing answer.
    """

    def __init__(self, fault: RowFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Conversation:
    """Callable that the user's function uses to send requests for a row.

    Args:
        ask: sends the body of a request to the server.
        build: builds the body of a request from messages and parameters.
        digest: returns the digest of a request.
        store: earlier answers.
        locks: locks by digest. If two conversations need the same request, only one sends it.
        keys: key of the row, if the row has one.
    """

    def __init__(
        self,
        ask: Callable[[Mapping[str, Any]], Awaitable[ModelAnswer | RowFault]],
        build: Callable[[Messages, Mapping[str, Any]], dict[str, Any]],
        digest: Callable[[Mapping[str, Any]], bytes],
        store: AnswerStore,
        locks: dict[bytes, asyncio.Lock],
        keys: Sequence[str] = (),
    ) -> None:
        self._ask, self._build, self._digest = ask, build, digest
        self._store, self._locks, self._keys = store, locks, keys
        self.answers: list[ModelAnswer] = []
        self.stopped: StrandlineError | None = None

    async def __call__(self, messages: Messages, **parameters: Any) -> ModelAnswer:  # noqa: ANN401 - the server's
        """Send a request, and return the answer; equal requests have equal answers.

        Args:
            messages: a prompt, or a list of messages in OpenAI's form.
            parameters: parameters that replace the stage's, such as `seed` or `temperature`.

        Raises:
            RowFailedError: the request has no good answer.
        """
        if self.stopped is not None:  # the function caught the error and continued
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
            self._store.put(digest, outcome, self._keys)
        return outcome

    def stopped_or(self, outcome: Outcome) -> Outcome:
        """Return the outcome, or raise the error that the function caught and ignored.

        Raises:
            StrandlineError: the work has ended.
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
    """Run the user's function on a row. Return its result as an answer, or None to drop the row.

    Args:
        rollout: the user's function.
        row: the row, or the error that makes the row unusable.
        conversation: sends the function's requests.
        find_fault: returns the fault of the result's text, or None if the text is valid. The
            argument is None if there is no schema.

    Raises:
        StrandlineError: the work has ended, even if the function caught the error.
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
        # Show the last answer in the fault, because the function may have failed to parse it.
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
        return RowFault("malformed", f"the conversation returned a value that is not JSON: {error}")
    complaint = find_unclean(text)
    if complaint is None and find_fault is not None:
        complaint = find_fault(text)
    if complaint is not None:
        why = f"the conversation returned an invalid value: {complaint}"
        return RowFault("malformed", why, text)
    prompt = sum(each.prompt_tokens for each in answers)
    completion = sum(each.completion_tokens for each in answers)
    # A function may return a value without sending a request.
    last = answers[-1] if answers else ModelAnswer("", None, "stop", 0, 0, "")
    return ModelAnswer(text, None, last.finish, prompt, completion, last.model)


def build_messages_body(
    model: str, parameters: Mapping[str, Any], messages: Messages, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the request body for a message list or a prompt."""
    whole = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    return build_conversation(model, {**parameters, **more}, whole)


def load_rollout(name: str) -> Rollout:
    """Return the function that a pipeline names as `module:function`.

    Raises:
        ValueError: the function is missing or not asynchronous.
    """
    module_name, _, function_name = name.partition(":")
    if not (module_name and function_name):
        msg = f"`rollout` is `module:function`, not {name!r}"
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
    """Return a digest of a function's source, which determines the requests."""
    try:
        lines = inspect.getsource(rollout)
    except OSError:
        # A function that was defined interactively has no source file.
        lines = rollout.__qualname__
    return blake2b(lines.encode(), digest_size=16).hexdigest()
