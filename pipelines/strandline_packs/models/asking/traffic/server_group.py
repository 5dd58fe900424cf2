"""Shares requests among several servers by weight, and passes over servers that do not answer.

Fallback servers get requests only while all other servers are passed over. The module must not
depend on the meaning of answers beyond the status.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from strandline_packs.models.asking.answers import Reply, UnansweredRequest
from strandline_packs.models.asking.traffic.pace import find_backoff, read_hold

# A server with these statuses would refuse other requests too: key, credit, address, rate.
_REFUSALS = frozenset(
    {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.PAYMENT_REQUIRED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)


class ServerConnection(Protocol):
    """A connection to a server."""

    async def post(self, path: str, body: bytes) -> Reply | UnansweredRequest:
        """Send a POST request, and return the response or the reason for its absence."""

    async def close(self) -> None:
        """Close the connections."""


@dataclass(slots=True)
class GroupMember:
    """A server of a group.

    Attributes:
        url: address in messages.
        connection: sends requests to the server.
        weight: share of the requests, relative to other servers.
        is_fallback: whether the server gets requests only while no other server answers.
        failures: consecutive failures.
        closed_until: time before which the server is passed over.
        credit: how many requests the server is behind; see `ServerGroup`.
    """

    url: str
    connection: ServerConnection
    weight: int = 1
    is_fallback: bool = False
    failures: int = 0
    closed_until: float = float("-inf")
    credit: float = 0.0


class ServerGroup:
    """Posts each request to one of several servers, and to the next one if that server fails.

    Requests are shared by smooth weighted round robin, as in nginx: each choice adds every server's
    weight to its credit, takes the server with the most credit, and subtracts the sum of weights.

    Args:
        members: the servers, in order of preference.
        name: name of the stage in messages.
        now: clock in seconds from any fixed point.
        report: receives lines for users.
    """

    def __init__(
        self,
        members: Sequence[GroupMember],
        name: str,
        now: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        self._members, self._name = members, name
        self._now, self._report = now, report

    async def post(self, path: str, body: bytes) -> Reply | UnansweredRequest:
        """Send a request to servers until one answers. Return the last response."""
        untried = list(self._members)
        while True:
            member = self._choose(untried)
            reply = await member.connection.post(path, body)
            untried.remove(member)
            if not _is_failure(reply):
                self._open(member)
                return reply
            self._close(member, reply)
            # A request that timed out may be too long for any server, and the caller decides.
            is_late = isinstance(reply, UnansweredRequest) and reply.is_late
            if is_late or not self._list_open(untried):
                return reply

    async def close(self) -> None:
        """Close the connections to all servers."""
        for member in self._members:
            await member.connection.close()

    def _list_open(self, members: Sequence[GroupMember]) -> list[GroupMember]:
        now = self._now()
        return [each for each in members if each.closed_until <= now]

    def _choose(self, members: Sequence[GroupMember]) -> GroupMember:
        able = self._list_open(members)
        candidates = [each for each in able if not each.is_fallback] or able
        if not candidates:  # all are passed over: try the server that opens first
            return min(members, key=lambda each: each.closed_until)
        for each in candidates:
            each.credit += each.weight
        member = max(candidates, key=lambda each: each.credit)
        member.credit -= sum(each.weight for each in candidates)
        return member

    def _open(self, member: GroupMember) -> None:
        if member.failures:
            self._report(f"{self._name}: the server {member.url} responds again")
        member.failures, member.closed_until = 0, float("-inf")

    def _close(self, member: GroupMember, reply: Reply | UnansweredRequest) -> None:
        is_outdated = member.closed_until > self._now()  # a request sent before the last failure
        hold = read_hold(reply.headers) if isinstance(reply, Reply) else None
        if not is_outdated:
            member.failures += 1
        wait = max(find_backoff(member.failures), hold or 0.0)
        member.closed_until = max(member.closed_until, self._now() + wait)
        if member.failures == 1 and not is_outdated:
            what = str(reply.status) if isinstance(reply, Reply) else reply.what
            self._report(
                f"{self._name}: the server {member.url} does not answer ({what}); its requests go "
                "to the other servers"
            )


def _is_failure(reply: Reply | UnansweredRequest) -> bool:
    if isinstance(reply, UnansweredRequest):
        return True
    return reply.status in _REFUSALS or reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR
