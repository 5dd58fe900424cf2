"""Notifies drivers of running attempts about nodes that are about to be removed.

A notified driver can move its data off a node in time. Without a notice, the data on the node is
lost, as in any node failure, so a failed notice is not an error and the operator does not wait
long. Only memory records which notices were sent. After a restart of the operator, they are sent
again, which drivers accept. This module must not depend on why nodes are removed.
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
# Status codes from older drivers, which lack the endpoint.
_UNKNOWN = frozenset({404, 405, 501})
_TAKEN, _REFUSED = 200, 401
MOST_TRIES = 5
# Maximum number of notices per pass. The most urgent nodes come first; the next pass sends the
# rest.
MOST_AT_ONCE = 32
RETRY_SECONDS = 1.0
_Mark = tuple[str, str]


@dataclass(slots=True)
class _Report:
    """Notices that were sent to the driver of an attempt.

    Attributes:
        attempt: uid of the attempt.
        accepted_marks: pods and marks of notices that the driver accepted.
        tries: number of tries, by pod and mark.
        is_deaf: whether the driver does not support notices.
    """

    attempt: str
    accepted_marks: set[_Mark] = field(default_factory=set)
    tries: dict[_Mark, int] = field(default_factory=dict)
    is_deaf: bool = False


@dataclass(slots=True)
class DepartureReports:
    """Sent notices by pipeline uid. A pipeline has at most one running attempt."""

    _reports: dict[str, _Report] = field(default_factory=dict)

    async def report(
        self, api: Api, pipeline: str, departures: tuple[Departure, ...], limits: Limits
    ) -> bool:
        """Send new notices to a driver. Return True if any have to be sent again soon.

        Args:
            limits: settings with the token key and the default port of drivers.
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
