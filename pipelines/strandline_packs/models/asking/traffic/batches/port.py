"""Interface of a vendor's batches, and the calls that all vendors share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from strandline.plan.errors import StageInterruptedError, StageStoppedError
from strandline_api.outcome.causes import Cause
from strandline_packs.models.asking.answers import (
    Endpoint,
    Reply,
    ServerRefusal,
    Setback,
    UnansweredRequest,
    Unfit,
)
from strandline_packs.models.asking.traffic.health import Clock
from strandline_packs.models.asking.traffic.judging import judge
from strandline_packs.models.asking.traffic.pace import choose_wait

JSON = "application/json"
_LOOK_SECONDS = 1.0  # longest pause between two checks whether the run stops


class BatchEnd(StrEnum):
    """State of a batch."""

    OPEN = "open"
    ENDED = "ended"  # each request has a result, or expired
    CANCELLED = "cancelled"
    FAILED = "failed"  # the vendor rejected the whole batch


class BatchProgress(NamedTuple):
    """The vendor's report on a batch.

    Attributes:
        end: state of the batch.
        what: the vendor's words about a failed batch.
        paths: paths of the files with results.
    """

    end: BatchEnd
    what: str = ""
    paths: Sequence[str] = ()


class BatchItem(NamedTuple):
    """A request in a batch: a name that is unique in the batch, and the body."""

    name: str
    body: Mapping[str, Any]


class BatchWire(Protocol):
    """A connection to a vendor."""

    async def send(
        self, method: str, path: str, body: bytes | None, kind: str
    ) -> Reply | UnansweredRequest:
        """Send a request whose body has the media type `kind`."""


class VendorCalls:
    """Calls of a vendor's interface, repeated until the vendor answers.

    Args:
        name: name of the stage and the server in messages.
        outage_limit: seconds without any answer after which the attempt ends.
        is_stopping: returns whether the run is stopping.
    """

    def __init__(
        self,
        wire: BatchWire,
        endpoint: Endpoint,
        name: str,
        outage_limit: float,
        clock: Clock,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._wire, self._endpoint, self._clock = wire, endpoint, clock
        self._name, self._limit, self.is_stopping = name, outage_limit, is_stopping

    async def get(self, path: str) -> Reply:
        """Return the answer to a GET request; see `call`."""
        return await self.call("GET", path, None)

    async def post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the JSON of the answer to a POST request; see `call`."""
        return read_object(await self.call("POST", path, json.dumps(body).encode()))

    async def call(self, method: str, path: str, body: bytes | None, kind: str = JSON) -> Reply:
        """Return an answer with a success status, or of an unknown address (404).

        Raises:
            StageStoppedError: the vendor refuses the request, or was down for too long.
            StageInterruptedError: the run stops.
        """
        begun, tries = self._clock.now(), 0
        while True:
            reply = await self._wire.send(method, path, body, kind)
            if isinstance(reply, Reply):
                is_missing = method == "GET" and reply.status == HTTPStatus.NOT_FOUND
                if is_missing or HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
                    return reply
            verdict = judge(reply, self._endpoint)
            if isinstance(verdict, ServerRefusal):
                raise StageStoppedError(f"{self._name}: {verdict.what}", is_lasting=True)
            if not isinstance(verdict, Setback):
                what = verdict.what if isinstance(verdict, Unfit) else str(verdict)
                msg = f"{self._name}: the server rejects the batch ({what})"
                raise StageStoppedError(msg, is_lasting=True)
            silent = self._clock.now() - begun
            if silent > self._limit:
                msg = f"{self._name}: the server has not responded for {silent:.0f} s; last: "
                raise StageStoppedError(msg + verdict.what, cause=Cause.MODEL_UNAVAILABLE)
            tries += 1
            await self.pause(choose_wait(tries, verdict.hold, self._clock.draw()))

    async def pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            StageInterruptedError: the run stops.
        """
        until = self._clock.now() + seconds
        while (left := until - self._clock.now()) > 0:
            if self.is_stopping():
                raise StageInterruptedError
            await self._clock.sleep(min(left, _LOOK_SECONDS))


class BatchInterface(Protocol):
    """The batch interface of a vendor.

    Attributes:
        most_requests, most_bytes: limits of a batch.
    """

    most_requests: int
    most_bytes: int

    async def create(self, calls: VendorCalls, items: Sequence[BatchItem], mark: str) -> str:
        """Send a batch, and return the vendor's id.

        Args:
            mark: random text, stored with the batch if the vendor has a place for it.
        """

    async def find(self, calls: VendorCalls, mark: str) -> str | None:
        """Return the id of the batch with a mark, or None if it can't be found."""

    async def check(self, calls: VendorCalls, batch: str) -> BatchProgress | None:
        """Return the state of a batch, or None if the vendor does not know the batch."""

    def read(self, line: Mapping[str, Any]) -> tuple[str, Reply | None]:
        """Return the name of a request, and the answer; None if the request was not begun."""


async def fetch_results(
    interface: BatchInterface, calls: VendorCalls, paths: Sequence[str]
) -> dict[str, Reply | None]:
    """Return the answers of a batch by the names of requests."""
    found = {}
    for path in paths:
        reply = await calls.get(path)
        if reply.status == HTTPStatus.NOT_FOUND:  # the vendor has deleted the file
            continue
        for line in reply.body.splitlines():
            if line.strip():
                name, answer = interface.read(json.loads(line))
                found[name] = answer
    return found


def read_object(reply: Reply) -> Mapping[str, Any]:
    """Return the JSON object of an answer, or an empty one."""
    try:
        found = json.loads(reply.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
