"""Runs the user's code: errors become one-line messages, and failed trials are not counted.

The module must not depend on the purpose of the code.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import TypeVar, cast

from strandline.engine.call.raised_errors import explain_error
from strandline.engine.call.stage.receipts import FlushError, ShapeError, format_message
from strandline.engine.call.stage.standard_streams import StandardStreams
from strandline.plan.errors import StageStoppedError
from strandline.plan.stages.stage import Stage
from strandline.storage.access.refusals import CredentialsRefusedError
from strandline.storage.errors import VolumeError

# Errors that concern the run or the stage as a whole, not a task. These errors are raised
# unchanged.
_PASSED_ON = (
    ShapeError,
    VolumeError,
    CredentialsRefusedError,
    FlushError,
    StageStoppedError,
)

Answer = TypeVar("Answer")


class StageRaisedError(Exception):
    """Raised if the user's code raised an error. The message describes the error in one line.

    Attributes:
        kind: the name of the error's class.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class Trials:
    """Runs the code of a stage any number of times.

    Args:
        stage: the stage, whose counters are restored after a failed trial.

    Attributes:
        turn: lock that the working thread holds except while the user's code runs; None if no
            other thread inspects calls.
    """

    def __init__(self, stage: Stage) -> None:
        self.turn: threading.Lock | None = None
        self._stage = stage
        self._streams = StandardStreams()

    def run(self, work: Callable[[], Answer]) -> Answer:
        """Run the user's code, and restore the counters if it fails.

        Raises:
            StageRaisedError: if the code raised any error, or closed a standard stream.
        """
        counters = count_own(self._stage.counters)
        try:
            answer = self._do(work)
        except _PASSED_ON:
            raise
        except BaseException as error:
            if was_typed(error):
                raise
            self._streams.repair()
            self._stage.counters = counters
            raise StageRaisedError(explain_error(error), type(error).__name__) from error
        closed = self._streams.repair()
        if closed:
            self._stage.counters = counters
            what = " and ".join(closed)
            msg = f"it closed {what}, which other code writes to; leave it open"
            raise StageRaisedError(msg, "ClosedStream")
        return answer

    def _do(self, work: Callable[[], Answer]) -> Answer:
        if self.turn is None:
            return work()
        self.turn.release()
        try:
            return work()
        finally:
            self.turn.acquire()

    def probe(self, work: Callable[[], Answer]) -> Answer:
        """Run the user's code only to find out whether it raises an error. Discard its counts.

        Raises:
            StageRaisedError: if the code raised an error.
        """
        counters = count_own(self._stage.counters)
        try:
            return self.run(work)
        finally:
            self._stage.counters = counters


def was_typed(error: BaseException) -> bool:
    """Return whether a keyboard interrupt may have come from the terminal instead of the stage.

    An interrupt from the terminal reaches only the main thread, and only with the default handler.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def count_own(counted: object) -> dict[str, int]:
    """Return the valid counters of a stage, which may have replaced them with any object."""
    if not isinstance(counted, dict):
        return {}
    numbers = {name: number for name, number in counted.items() if isinstance(number, (int, float))}
    return {format_message(name): cast("int", number) for name, number in numbers.items()}
