"""Limits the requests per minute and in total.

A rate limit is stored as the earliest time of the next request. Every request moves that time
forward by the request's share of a minute. This module does no I/O, and times are arguments. It
must not depend on where the times are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from strandline.data.statistics.request_figures import format_cost
from strandline_packs.models.asking.answers import Usage

_MINUTE = 60.0
_PER_PRICE = 1_000_000  # prices are per million tokens
_LONGEST = 3600.0  # maximum length of one wait, in seconds
# The clocks of nodes differ by less than this. A clock that is further behind was set back.
_SKEW = 60.0


class TokenPrices(NamedTuple):
    """Prices per million tokens, in any currency."""

    prompt: float = 0.0
    completion: float = 0.0


class SpentTotals(NamedTuple):
    """Totals of all attempts so far.

    Attributes:
        requests: sent requests, answered or not.
        prompt_tokens, completion_tokens: tokens of all answers, as counted by the server.
        estimated: requests without tokens reported by the server.
    """

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of prompts and answers."""
        return self.prompt_tokens + self.completion_tokens

    def add(self, usage: Usage) -> SpentTotals:
        """Return the totals with the tokens of a request added."""
        return self._replace(
            prompt_tokens=self.prompt_tokens + usage.prompt,
            completion_tokens=self.completion_tokens + usage.completion,
            estimated=self.estimated + (not usage.is_known),
        )

    def price(self, prices: TokenPrices) -> float:
        """Return the cost of the tokens."""
        prompt = self.prompt_tokens * prices.prompt
        return (prompt + self.completion_tokens * prices.completion) / _PER_PRICE


class SpendingTerms(NamedTuple):
    """Limits that a pipeline sets for a stage; None for no limit.

    Attributes:
        requests_per_minute, tokens_per_minute: rates of all workers together.
        requests, tokens, cost: totals over all attempts.
        prices: prices of tokens.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    requests: int | None = None
    tokens: int | None = None
    cost: float | None = None
    prices: TokenPrices = TokenPrices()

    @property
    def is_bounded(self) -> bool:
        """Return whether any limit is set, so that an account is needed."""
        return any(bound is not None for bound in self[:-1])

    def find_end(self, spent: SpentTotals) -> str | None:
        """Return a description of the first exhausted limit, or None if requests are allowed."""
        return next(self._list_ends(spent), None)

    def _list_ends(self, spent: SpentTotals) -> Iterator[str]:
        if self.requests is not None and spent.requests >= self.requests:
            yield f"{spent.requests:,} of {self.requests:,} requests"
        guessed = f"; estimated for {spent.estimated:,} requests" if spent.estimated else ""
        if self.tokens is not None and spent.tokens >= self.tokens:
            yield f"{spent.tokens:,} of {self.tokens:,} tokens{guessed}"
        cost = spent.price(self.prices)
        if self.cost is not None and cost >= self.cost:
            of = f"{format_cost(cost)} of {format_cost(self.cost)}"
            yield f"{of}, which is {spent.tokens:,} tokens{guessed}"


class NextTimes(NamedTuple):
    """Earliest times of the next request under both rates, in seconds since the epoch.

    Attributes:
        requests, tokens: earliest time under the rate of requests, and of tokens.
        seen: clock time of the last request.
    """

    requests: float = 0.0
    tokens: float = 0.0
    seen: float = 0.0

    def follow_clock(self, now: float) -> NextTimes:
        """Return the times adjusted to a clock that was set back, so the waits stay the same."""
        behind = self.seen - now
        if behind <= _SKEW:
            return self
        return NextTimes(self.requests - behind, self.tokens - behind, now)

    def find_wait(self, terms: SpendingTerms, now: float) -> float:
        """Return the seconds until both rates permit a request."""
        bounds = (terms.requests_per_minute, self.requests), (terms.tokens_per_minute, self.tokens)
        times = [time for rate, time in bounds if rate is not None]
        return max([0.0, *(min(time - now, _LONGEST) for time in times)])

    def take(self, terms: SpendingTerms, tokens: int, now: float) -> NextTimes:
        """Return the times after a request with a number of tokens."""
        return NextTimes(
            _move(self.requests, terms.requests_per_minute, 1, now),
            _move(self.tokens, terms.tokens_per_minute, tokens, now),
            max(self.seen, now),
        )

    def correct(self, terms: SpendingTerms, tokens: int) -> NextTimes:
        """Return the times after a request used `tokens` more than were reserved."""
        if terms.tokens_per_minute is None:
            return self
        return self._replace(tokens=self.tokens + tokens * _MINUTE / terms.tokens_per_minute)


def _move(time: float, rate: float | None, number: int, now: float) -> float:
    if rate is None:
        return time
    # Start at `now` or later: unused time must not permit a burst.
    return max(time, now) + number * _MINUTE / rate
