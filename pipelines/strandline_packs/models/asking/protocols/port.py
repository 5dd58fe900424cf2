"""Interface of a server protocol, and the question that a protocol encodes as a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from strandline_packs.models.asking.answers import Endpoint, Usage, Verdict


class RowQuestion(NamedTuple):
    """A question about a row.

    Attributes:
        prompt: the text.
        system: instructions before the prompt; None or empty if there are no instructions.
        pictures: contents of picture files.
    """

    prompt: str
    system: str | None = None
    pictures: Sequence[bytes] = ()


class AnswerParts(NamedTuple):
    """The parts of an answer with a success status.

    Attributes:
        body: the complete answer.
        item: the first part with a text or a vector.
        model: the server's name for the model.
        items: all parts with a text or a vector.
        expected: how many parts the request asked for.
    """

    body: Mapping[str, Any]
    item: Mapping[str, Any]
    model: str
    items: Sequence[Any] = ()
    expected: int = 1


class ModelProtocol(Protocol):
    """The protocol of a family of servers.

    Attributes:
        name: name in messages, such as `OpenAI's protocol`.
        paths: paths below the server's URL, by endpoint.
    """

    name: str
    paths: Mapping[Endpoint, str]

    def list_headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of every request; `key` is None if the server needs no key."""

    def build_body(
        self,
        endpoint: Endpoint,
        model: str,
        parameters: Mapping[str, Any],
        question: RowQuestion,
    ) -> dict[str, Any]:
        """Return the body of a request.

        Raises:
            PromptError: servers do not support the format of a picture.
        """

    def complain(self, body: Mapping[str, Any], text: str, complaint: str) -> dict[str, Any]:
        """Return a follow-up request that asks the model to correct an invalid answer."""

    def shrink(self, body: Mapping[str, Any], *, is_short: bool = True) -> dict[str, Any]:
        """Return a probe: a request with the same parameters and as little work as possible.

        Args:
            is_short: whether the answer may be limited to one token.
        """

    def count_items(self, body: Mapping[str, Any]) -> int:
        """Return the number of answers that a request asks for."""

    def find_items(self, body: Mapping[str, Any], endpoint: Endpoint) -> object:
        """Return the list of answers in a body; any other value means no answers."""

    def judge(self, parts: AnswerParts, endpoint: Endpoint) -> Verdict:
        """Return the verdict on an answer that contains no error."""

    def read_usage(self, body: Mapping[str, Any]) -> Usage:
        """Return the reported tokens of an answer, or zero counts if the server reports nothing."""
