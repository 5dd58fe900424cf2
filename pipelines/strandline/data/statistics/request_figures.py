"""What requests to a model were like, as counters of a stage say: how many, of what, and how long.

Counters are sums, so those of workers and attempts can be joined; a time is known to the bounds of
a bin. Pure. It must not know what asks, nor where it is shown.
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
COST_PARTS = 1_000_000  # parts of the currency, in which costs are counted
_CENT = 0.01
_COARSE = "spent: cost, in thousandths"  # as releases up to 0.2 count costs
_COSTS = {COST: COST_PARTS, _COARSE: 1000}
# About twice as long each time: a percentile is known to that.
LIMITS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
SHARES = (0.5, 0.95, 0.99)


def name_time(seconds: float) -> str:
    """Return the counter of answers that took so long."""
    limit = next((limit for limit in LIMITS if seconds <= limit), math.inf)
    return _name_limit(limit)


def _name_limit(limit: float) -> str:
    if limit == math.inf:
        return f"answered over {LIMITS[-1]} s"
    return f"answered within {limit:>5} s"


class RequestFigures(NamedTuple):
    """Requests of a stage.

    Attributes:
        sent: requests, whatever came of them.
        from_log: answers that needed none.
        prompt_tokens, completion_tokens: that were spent.
        cost: of these; None: no prices are known.
        times: seconds within which the shares of answers in `SHARES` came, the bound of their bin;
            infinite beyond the last; empty where there was none.
        estimated: requests without tokens reported by the server.
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
        """Return whether a model was asked, or would have been."""
        return bool(self.sent or self.from_log)


NO_REQUESTS = RequestFigures()


def read_figures(counters: Mapping[str, int]) -> RequestFigures:
    """Return what the counters of a stage say of requests; `NO_REQUESTS` where it made none."""
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
    # The nearest rank: so many answers came within the bound, and fewer within the one before.
    ranks = [max(1, math.ceil(share * whole)) for share in SHARES]
    return tuple(
        next(limit for limit, seen in zip(limits, sums, strict=True) if seen >= rank)
        for rank in ranks
    )


def format_cost(cost: float) -> str:
    """Format an amount of money: with cents, and below a cent with two digits that count."""
    if cost == 0 or cost >= _CENT or not math.isfinite(cost):
        return f"{cost:,.2f}"
    return f"{cost:.{1 - math.floor(math.log10(cost))}f}"
