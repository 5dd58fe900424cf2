"""What a family of servers has to define, and the question that it gives a form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from strandline_packs.models.asking.answers import Endpoint, Usage, Verdict


class RowQuestion(NamedTuple):
    """A question about a row.

    Attributes:
        prompt: the text.
        system: instructions before it; None or empty: none.
        pictures: bytes of files.
    """

    prompt: str
    system: str | None = None
    pictures: Sequence[bytes] = ()


class AnswerParts(NamedTuple):
    """An answer with a good status, taken apart.

    Attributes:
        body: the whole of it.
        item: the part with the text or the vector.
        model: as the server calls it.
    """

    body: Mapping[str, Any]
    item: Mapping[str, Any]
    model: str


class ModelProtocol(Protocol):
    """The protocol of a family of servers.

    Attributes:
        name: in messages, such as `OpenAI's protocol`.
        paths: behind the server's URL, by endpoint.
    """

    name: str
    paths: Mapping[Endpoint, str]

    def list_headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of each request; None: the server needs no key."""

    def build_body(
        self,
        endpoint: Endpoint,
        model: str,
        parameters: Mapping[str, Any],
        question: RowQuestion,
    ) -> dict[str, Any]:
        """Return the body of a request.

        Raises:
            PromptError: a picture has a format that servers do not take.
        """

    def complain(self, body: Mapping[str, Any], text: str, complaint: str) -> dict[str, Any]:
        """Return a request that follows an answer which is not as it was asked for."""

    def shrink(self, body: Mapping[str, Any], *, is_short: bool = True) -> dict[str, Any]:
        """Return a request with the same parameters and as little work as possible.

        Args:
            is_short: its answer may have a single token.
        """

    def find_items(self, body: Mapping[str, Any], endpoint: Endpoint) -> object:
        """Return the list of answers in a body; anything else where it has none."""

    def judge(self, parts: AnswerParts, endpoint: Endpoint) -> Verdict:
        """Return the verdict on an answer that has no error in it."""

    def read_usage(self, body: Mapping[str, Any]) -> Usage:
        """Return the tokens that an answer reports; none if it reports none."""
