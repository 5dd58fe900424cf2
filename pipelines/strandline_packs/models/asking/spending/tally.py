"""Counts a worker's requests, with their tokens and durations.

Counters are sums, so counters of workers and attempts can be added. This module does no I/O.
"""

from __future__ import annotations

from collections import Counter

from strandline.data.statistics.request_figures import (
    COMPLETION_TOKENS,
    COST,
    COST_PARTS,
    ESTIMATED,
    FROM_LOG,
    PROMPT_TOKENS,
    SENT,
    name_time,
)
from strandline_packs.models.asking.answers import Usage
from strandline_packs.models.asking.spending.terms import SpentTotals, TokenPrices

__all__ = ["FROM_LOG", "RequestTally"]


class RequestTally:
    """Counts requests, tokens, and durations until `take` returns the counters.

    Args:
        prices: prices of tokens; without prices, no costs are counted.
    """

    def __init__(self, prices: TokenPrices | None = None) -> None:
        self._prices = prices
        self._counts: Counter[str] = Counter()
        self._spent = SpentTotals()
        self._cost = 0  # cost that `take` has returned so far

    @property
    def requests(self) -> int:
        """Requests so far."""
        return self._spent.requests

    def begin(self) -> None:
        """Count a request that is sent."""
        self._counts[SENT] += 1
        self._spent = self._spent._replace(requests=self._spent.requests + 1)

    def note_usage(self, usage: Usage) -> None:
        """Count the tokens of a request, regardless of its outcome."""
        self._spent = self._spent._replace(
            prompt_tokens=self._spent.prompt_tokens + usage.prompt,
            completion_tokens=self._spent.completion_tokens + usage.completion,
        )
        self._counts[PROMPT_TOKENS] += usage.prompt
        self._counts[COMPLETION_TOKENS] += usage.completion
        if not usage.is_known:
            self._counts[ESTIMATED] += 1

    def note_answer(self, seconds: float) -> None:
        """Count an answer in the histogram of durations."""
        self._counts[name_time(seconds)] += 1

    def take(self) -> Counter[str]:
        """Return the counts since the last call."""
        counts, self._counts = self._counts, Counter()
        if self._prices is not None:
            # Round the total instead of the parts, so that rounding errors do not add up.
            cost = round(self._spent.price(self._prices) * COST_PARTS)
            counts[COST] = cost - self._cost
            self._cost = cost
        return counts
