"""Sends ends of attempts to a lineage system, from a thread that holds nothing up.

OpenLineage's client blocks, and a listener may be slow or away. Ends wait in a queue of bounded
length, and each is sent again until the listener takes or refuses it; an end that can't be sent is
a line of the log and a number. An end that is handed in again is sent once, as far as this process
remembers. Whether a listener is wanted, and where, is in the environment, in
OpenLineage's own variables. This room must not know what follows an end, nor which are reported.
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
MOST_WAITING = 1000  # ends; more than a listener that is away for minutes leaves behind
_MOST_KNOWN = 10_000  # ends; passes record what became of them long before so many follow
CLOSE_SECONDS = 5.0  # that a stop of the operator waits for what is left
# Seconds before an end is sent again, the last for all that follow.
PAUSES = (1.0, 5.0, 30.0, 60.0)
_CLIENT = "openlineage"
_FIRST_OF_SERVERS = 500
_Key = tuple[str, int]  # a pipeline's uid, and an attempt's number
_LOGGER = logging.getLogger(__name__)


def start_reporting(
    environment: Mapping[str, str],
    note: Callable[[str], None],
    clock: Callable[[], float],
) -> EndReporter | None:
    """Start to report, where the environment asks for it and the client is installed.

    Args:
        note: takes what became of an end: `sent`, `failed` or `dropped`; from any thread.
        clock: seconds since the epoch.
    """
    if not is_wanted(environment):
        return None
    if find_spec(_CLIENT) is None:
        line = "lineage: the environment asks for it; use an image with strandline[lineage]"
        _LOGGER.warning("%s", line)
        return None
    return EndReporter(note, clock)


class EndReporter:
    """Sends ends in the order in which they are handed in.

    Args:
        note, clock: as above.
        most: ends that may wait.
        pauses: before each further try.
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
        # The thread must not hold up the end of the process either.
        self._thread = threading.Thread(target=self._work, name="lineage", daemon=True)
        self._thread.start()

    def report(self, end: AttemptEnd) -> None:
        """Take an end in, without waiting, unless it was taken in before.

        An end is dropped if too many wait; a pass hands a pending one in again.
        """
        with self._lock:
            if _identify(end) in self._states:
                return
            try:
                self._waiting.put_nowait(end)
            except queue.Full:
                self._note(DROPPED)
                _log(end, "dropped, since too many wait for the listener")
            else:
                self._keep(end, LineageState.PENDING)

    def find_state(self, pipeline_uid: str, number: int) -> LineageState | None:
        """Return whether the end of an attempt was sent or refused; None if neither is known."""
        with self._lock:
            state = self._states.get((pipeline_uid, number))
        return None if state is LineageState.PENDING else state

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Send what is left, as far as it goes in that time."""
        self._is_closing.set()
        # A full queue is not waited for: its thread ends with the process.
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
        if len(self._states) >= _MOST_KNOWN:
            del self._states[next(iter(self._states))]
        self._states[_identify(end)] = state

    def _deliver(self, end: AttemptEnd) -> LineageState:
        """Send an end until it is taken, refused, or this is closed, when it stays pending."""
        for pause in chain(self._pauses, repeat(self._pauses[-1])):
            try:
                self._send(end)
            except Exception as error:  # noqa: BLE001 - whatever a listener does, the next is tried
                is_refused = _is_refusal(error)
                is_last = is_refused or self._is_closing.is_set()
                what = "not sent" if is_last else "not sent yet"
                _log(end, f"{what}: {type(error).__name__}: {error}")
                if is_last:
                    return LineageState.REFUSED if is_refused else LineageState.PENDING
            else:
                return LineageState.SENT
            self._is_closing.wait(pause)
        raise AssertionError  # the pauses have no end

    def _send(self, end: AttemptEnd) -> None:
        from strandline_operator.integrations.lineage.events import make_end  # noqa: PLC0415 - it needs the extra

        client = _make_client()
        try:
            client.emit(make_end(end, self._clock()))
        finally:
            client.close(CLOSE_SECONDS)


def _identify(end: AttemptEnd) -> _Key:
    return end.pipeline_uid, end.number


def _is_refusal(error: Exception) -> bool:
    """Return whether a listener has answered, and would answer the same again."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    is_passing = status in {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
    return isinstance(status, int) and not is_passing and status < _FIRST_OF_SERVERS


def _log(end: AttemptEnd, what: str) -> None:
    about = {"pipeline": f"{end.namespace}/{end.pipeline}", "attempt": end.name}
    _LOGGER.warning("lineage: an attempt's end was %s", what, extra=about)


def _make_client() -> Any:  # noqa: ANN401 - a class of an extra that may be missing
    from openlineage.client import OpenLineageClient  # noqa: PLC0415 - it needs the extra

    with keeping_variables(os.environ):
        return OpenLineageClient()
