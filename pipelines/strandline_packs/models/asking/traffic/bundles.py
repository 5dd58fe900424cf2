"""Asks for several embeddings in one request, and divides the answer among the texts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from strandline_packs.models.asking.answers import ModelAnswer, RowFault
from strandline_packs.models.asking.traffic.asker import ModelQuestion

_INPUT = "input"  # the field with one text, or a list of texts
Outcomes = list[ModelAnswer | RowFault]


class Bundler:
    """Sends questions for embeddings together.

    A server that accepts fewer texts in a request rejects the bundle; then its halves are sent, and
    later bundles are as small.

    Args:
        most: maximum number of texts in a request.
    """

    def __init__(self, most: int) -> None:
        self._most = most

    def divide(self, digests: Sequence[bytes]) -> list[Sequence[bytes]]:
        """Divide requests into bundles of at most the current maximum."""
        return [digests[at : at + self._most] for at in range(0, len(digests), self._most)]

    async def ask(
        self,
        ask: Callable[[ModelQuestion], Awaitable[ModelAnswer | RowFault]],
        questions: Sequence[ModelQuestion],
    ) -> Outcomes:
        """Return the outcome of each question.

        Args:
            ask: sends a question until it has an outcome.
        """
        if len(questions) == 1:
            return [await ask(questions[0])]
        answer = await ask(ModelQuestion(join_bodies([each.body for each in questions])))
        if isinstance(answer, ModelAnswer):
            return divide_answer(answer, [str(each.body[_INPUT]) for each in questions])
        # Either one text is at fault or the server takes fewer texts: the halves will show.
        middle = len(questions) // 2
        first = await self.ask(ask, questions[:middle])
        rest = await self.ask(ask, questions[middle:])
        if all(isinstance(each, ModelAnswer) for each in (*first, *rest)):
            self._most = max(1, min(self._most, middle))
        return [*first, *rest]


def join_bodies(bodies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one request body for the texts of several, which are otherwise equal."""
    return {**bodies[0], _INPUT: [body[_INPUT] for body in bodies]}


def divide_answer(answer: ModelAnswer, texts: Sequence[str]) -> Outcomes:
    """Divide the embeddings of a bundle, one after another, among the texts.

    Prompt tokens are divided by the texts' lengths, so their sum remains what the server reported.
    """
    assert answer.vector is not None
    width = len(answer.vector) // len(texts)
    whole = sum(map(len, texts)) + len(texts)  # an empty text counts, too
    outcomes: Outcomes = []
    length = start = 0
    for at, text in enumerate(texts):
        length += len(text) + 1
        until = answer.prompt_tokens * length // whole
        vector = answer.vector[at * width : (at + 1) * width]
        outcomes.append(answer._replace(vector=vector, prompt_tokens=until - start))
        start = until
    return outcomes
