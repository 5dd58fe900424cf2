"""Reads figures about requests to a model from a stage's counters: number, tokens, cost, duration.

Counters are sums, so counters of workers and attempts can be added. Durations are known only up to
the bounds of a bin. This module has no side effects, and must not depend on the client or the
display.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import NamedTuple

SENT, FROM_LOG = "requests", "requests answered by the log"
PROMPT_TOKENS, COMPLETION_TOKENS = "spent: prompt tokens", "spent: completion tokens"
ESTIMATED = "requests with estimated tokens"
COST = "spent: cost, in millionths"
COST_PARTS = 1_000_000  # costs are counted in millionths of the currency unit
_CENT = 0.01
_COARSE = "spent: cost, in thousandths"  # counter of releases up to 0.2
_COSTS = {COST: COST_PARTS, _COARSE: 1000}
# Bounds in seconds. They grow by a factor of about two, so a percentile is exact up to that factor.
LIMITS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
SHARES = (0.5, 0.95, 0.99)


def name_time(seconds: float) -> str:
    """Return the name of the counter for responses of this duration."""
    limit = next((limit for limit in LIMITS if seconds <= limit), math.inf)
    return _name_limit(limit)


def _name_limit(limit: float) -> str:
    if limit == math.inf:
        return f"answered over {LIMITS[-1]} s"
    return f"answered within {limit:>5} s"


class RequestFigures(NamedTuple):
    """Figures about the requests of a stage.

    Attributes:
        sent: number of requests, regardless of their result.
        from_log: number of responses that were taken from the log instead.
        prompt_tokens, completion_tokens: numbers of paid tokens.
        cost: cost of the tokens, or None if there are no prices.
        times: for each share in `SHARES`, a duration in seconds within which at least that share of
            responses arrived. Infinite beyond the last bound; empty if there are no responses.
        estimated: number of requests whose token counts the server did not report.
    """

    sent: int = 0
    from_log: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    times: tuple[float, ...] = ()
    estimated: int = 0

    @property
    def has_any(self) -> bool:
        """Return True if the stage sent a request or took a response from the log."""
        return bool(self.sent or self.from_log)


NO_REQUESTS = RequestFigures()


def read_figures(counters: Mapping[str, int]) -> RequestFigures:
    """Return the request figures in a stage's counters, or `NO_REQUESTS`."""
    # If a run continued after an upgrade, the counters of both units exist.
    costs = [counters[name] / parts for name, parts in _COSTS.items() if name in counters]
    return RequestFigures(
        counters.get(SENT, 0),
        counters.get(FROM_LOG, 0),
        counters.get(PROMPT_TOKENS, 0),
        counters.get(COMPLETION_TOKENS, 0),
        sum(costs) if costs else None,
        _find_times(counters),
        counters.get(ESTIMATED, 0),
    )


def _find_times(counters: Mapping[str, int]) -> tuple[float, ...]:
    limits = (*LIMITS, math.inf)
    sums = list(accumulate(counters.get(_name_limit(limit), 0) for limit in limits))
    whole = sums[-1]
    if not whole:
        return ()
    # Nearest rank: find the first bound within which at least that share of responses arrived.
    ranks = [max(1, math.ceil(share * whole)) for share in SHARES]
    return tuple(
        next(limit for limit, seen in zip(limits, sums, strict=True) if seen >= rank)
        for rank in ranks
    )


def format_cost(cost: float) -> str:
    """Format an amount of money with two decimals, or below a cent with two significant digits."""
    if cost == 0 or cost >= _CENT or not math.isfinite(cost):
        return f"{cost:,.2f}"
    return f"{cost:.{1 - math.floor(math.log10(cost))}f}"
