"""Notices to drivers of running attempts about nodes that are about to be removed, one per node.

A notified driver can move its data off a node in time. Without a notice the data is lost, so the
operator does not wait long and a failure is not an error. Sent notices are only recorded in memory:
after a restart they are sent again, which drivers accept. The module must not depend on the reasons
for which nodes are removed.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from strandline_api.outcome.reader_token import (
    derive_former_notice_token,
    derive_notice_token,
)
from strandline_operator.cluster.api import Api
from strandline_operator.cluster.driver import DriverAddress, send_notice
from strandline_operator.cluster.errors import ApiError
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Departure

_LOGGER = logging.getLogger(__name__)
# Responses of older drivers, which lack the endpoint.
_UNKNOWN = frozenset({404, 405, 501})
_TAKEN, _REFUSED = 200, 401
MOST_TRIES = 5
# Maximum number per pass; the most urgent nodes come first, and the next pass sends the rest.
MOST_AT_ONCE = 32
RETRY_SECONDS = 1.0
_Mark = tuple[str, str]


@dataclass(slots=True)
class _Report:
    """Notices to the driver of an attempt.

    Attributes:
        tries: number of unsuccessful tries, by pod and mark.
        is_deaf: whether the driver does not support notices.
    """

    attempt: str
    accepted_marks: set[_Mark] = field(default_factory=set)
    tries: dict[_Mark, int] = field(default_factory=dict)
    is_deaf: bool = False


@dataclass(slots=True)
class DepartureReports:
    """Sent notices by pipeline uid; each pipeline has one running attempt."""

    _reports: dict[str, _Report] = field(default_factory=dict)

    async def report(
        self, api: Api, pipeline: str, departures: tuple[Departure, ...], limits: Limits
    ) -> bool:
        """Send new notices to a driver; return whether any remain to be sent soon.

        Args:
            limits: contain the key for tokens, and the default port of drivers.
        """
        if not departures:
            return False
        report = self._find(pipeline, departures[0].attempt)
        due = [each for each in departures if _is_due(report, each)]
        due.sort(key=lambda each: each.seconds)
        await asyncio.gather(*(_report(api, report, each, limits) for each in due[:MOST_AT_ONCE]))
        return any(_is_due(report, each) for each in departures)

    def forget(self, pipeline: str) -> None:
        """Forget a deleted pipeline."""
        self._reports.pop(pipeline, None)

    def _find(self, pipeline: str, attempt: str) -> _Report:
        report = self._reports.get(pipeline)
        if report is None or report.attempt != attempt:
            report = self._reports[pipeline] = _Report(attempt)
        return report


def _identify(departure: Departure) -> _Mark:
    return departure.pod, departure.mark


def _is_due(report: _Report, departure: Departure) -> bool:
    mark = _identify(departure)
    return (
        not report.is_deaf
        and mark not in report.accepted_marks
        and report.tries.get(mark, 0) < MOST_TRIES
    )


async def _report(api: Api, report: _Report, departure: Departure, limits: Limits) -> None:
    mark = _identify(departure)
    report.tries[mark] = report.tries.get(mark, 0) + 1
    token = derive_notice_token(limits.token_key, departure.attempt)
    address = DriverAddress(departure.head, departure.port or limits.driver_port, token)
    body = {"node": departure.node, "seconds": departure.seconds, "why": departure.why}
    try:
        status = await send_notice(api, address, body)
        if status == _REFUSED:  # the operator's previous release created the attempt
            former = derive_former_notice_token(departure.attempt)
            status = await send_notice(api, address._replace(token=former), body)
    except ApiError as error:
        _LOGGER.info("failed to notify a driver that %s: %s", departure.why, error)
        return
    if status in _UNKNOWN:
        report.is_deaf = True
    elif status == _TAKEN:
        report.accepted_marks.add(mark)
        _LOGGER.info("notified a driver: %s, in %g s", departure.why, departure.seconds)
