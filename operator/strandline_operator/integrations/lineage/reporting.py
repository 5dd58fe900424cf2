"""Delivers attempts' ends to a lineage system, in a separate thread.

OpenLineage's client blocks, and a receiver may be slow or unavailable. Ends therefore wait in a
bounded queue, and each end is retried until the receiver accepts or rejects it. An end that can't
be delivered is logged and counted. This process sends no end twice. OpenLineage's own environment
variables enable and configure the receiver. This module must not depend on what follows from an
end, or on which ends are reported.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from importlib.util import find_spec
from itertools import chain, repeat
from typing import Any

from strandline_api.outcome.lineage import is_wanted, keeping_variables
from strandline_api.status.enums import LineageState
from strandline_operator.model.plan import AttemptEnd

SENT, FAILED, DROPPED = "sent", "failed", "dropped"
MOST_WAITING = 1000  # maximum number of ends; enough if the receiver is unavailable for minutes
_MOST_KNOWN = 10_000  # maximum number of states; passes record a state long before it is dropped
CLOSE_SECONDS = 5.0  # maximum seconds to wait for remaining ends when the operator stops
# Seconds before each retry. The last value repeats.
PAUSES = (1.0, 5.0, 30.0, 60.0)
_CLIENT = "openlineage"
_FIRST_OF_SERVERS = 500
_Key = tuple[str, int]  # pipeline uid and attempt number
_LOGGER = logging.getLogger(__name__)


def start_reporting(
    environment: Mapping[str, str],
    note: Callable[[str], None],
    clock: Callable[[], float],
) -> EndReporter | None:
    """Start reporting if the environment enables it and the client is installed, or return None.

    Args:
        note: function that receives the result of an end: `sent`, `failed`, or `dropped`. Any
            thread may call it.
        clock: function that returns the current time in seconds since the epoch.
    """
    if not is_wanted(environment):
        return None
    if find_spec(_CLIENT) is None:
        line = "lineage: the client is not installed; use an image with strandline[lineage]"
        _LOGGER.warning("%s", line)
        return None
    return EndReporter(note, clock)


class EndReporter:
    """Sends ends in the order of their arrival.

    Args:
        note, clock: as in `start_reporting`.
        most: maximum number of waiting ends.
        pauses: seconds before each retry.
    """

    def __init__(
        self,
        note: Callable[[str], None],
        clock: Callable[[], float],
        most: int = MOST_WAITING,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._note, self._clock, self._pauses = note, clock, pauses
        self._is_closing = threading.Event()
        self._waiting: queue.Queue[AttemptEnd | None] = queue.Queue(most)
        self._states: dict[_Key, LineageState] = {}
        self._lock = threading.Lock()
        # Use a daemon thread, so that it can't delay the exit of the process.
        self._thread = threading.Thread(target=self._work, name="lineage", daemon=True)
        self._thread.start()

    def report(self, end: AttemptEnd) -> None:
        """Queue an end without blocking, unless it was queued before.

        An end is dropped if too many ends are waiting. A later pass submits a pending end again.
        """
        with self._lock:
            if _identify(end) in self._states:
                return
            try:
                self._waiting.put_nowait(end)
            except queue.Full:
                self._note(DROPPED)
                _log(end, "dropped, because too many wait for the receiver")
            else:
                self._keep(end, LineageState.PENDING)

    def find_state(self, pipeline_uid: str, number: int) -> LineageState | None:
        """Return whether an attempt's end was sent or rejected, or None while it is pending."""
        with self._lock:
            state = self._states.get((pipeline_uid, number))
        return None if state is LineageState.PENDING else state

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Send the remaining ends within the given time."""
        self._is_closing.set()
        # Do not wait for a full queue; its thread ends with the process.
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            seconds = 0.0
        self._thread.join(seconds)
        if self._thread.is_alive():
            _LOGGER.warning("lineage: %s ends were not sent", self._waiting.qsize())

    def _work(self) -> None:
        while (end := self._waiting.get()) is not None:
            state = self._deliver(end)
            with self._lock:
                self._keep(end, state)
            self._note(SENT if state is LineageState.SENT else FAILED)

    def _keep(self, end: AttemptEnd, state: LineageState) -> None:
        # Drop the oldest state. A pass has recorded it in a status by now.
        if len(self._states) >= _MOST_KNOWN:
            del self._states[next(iter(self._states))]
        self._states[_identify(end)] = state

    def _deliver(self, end: AttemptEnd) -> LineageState:
        """Send an end until it is accepted or rejected. It stays pending if the operator stops."""
        for pause in chain(self._pauses, repeat(self._pauses[-1])):
            try:
                self._send(end)
            except Exception as error:  # noqa: BLE001 - a receiver may fail in any way, and the next end is still sent
                is_refused = _is_refusal(error)
                is_last = is_refused or self._is_closing.is_set()
                what = "not sent" if is_last else "not sent yet"
                _log(end, f"{what}: {type(error).__name__}: {error}")
                # Keep the end pending, because the receiver may be available to the next operator
                # process.
                if is_last:
                    return LineageState.REFUSED if is_refused else LineageState.PENDING
            else:
                return LineageState.SENT
            self._is_closing.wait(pause)
        raise AssertionError  # unreachable: the pauses never end

    def _send(self, end: AttemptEnd) -> None:
        from strandline_operator.integrations.lineage.events import make_end  # noqa: PLC0415 - needs the extra

        client = _make_client()
        try:
            client.emit(make_end(end, self._clock()))
        finally:
            client.close(CLOSE_SECONDS)


def _identify(end: AttemptEnd) -> _Key:
    return end.pipeline_uid, end.number


def _is_refusal(error: Exception) -> bool:
    """Return True if the receiver has responded with an error that retrying would not change."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    is_passing = status in {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
    return isinstance(status, int) and not is_passing and status < _FIRST_OF_SERVERS


def _log(end: AttemptEnd, what: str) -> None:
    about = {"pipeline": f"{end.namespace}/{end.pipeline}", "attempt": end.name}
    _LOGGER.warning("lineage: an attempt's end was %s", what, extra=about)


def _make_client() -> Any:  # noqa: ANN401 - a class of an optional extra
    from openlineage.client import OpenLineageClient  # noqa: PLC0415 - needs the extra

    with keeping_variables(os.environ):
        return OpenLineageClient()
