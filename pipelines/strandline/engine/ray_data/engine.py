"""The engine on Ray Data: windows of sources, each one a dataset with every stage an operator.

Ray Data moves the rows, sizes the pools and starts lost workers anew. This room admits sources,
tells the ledger what comes out, and bounds what Ray Data would try for ever. Nothing of a source is
told before it is over, so whatever cuts a window short loses work and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from strandline.engine.call.setup import StageSetupError
from strandline.engine.call.slots import Slot
from strandline.engine.call.wire import unpack_receipt
from strandline.engine.core.pools import PoolBrokenError, PoolState
from strandline.engine.ray.connection import first_line, unwrap
from strandline.engine.ray.driver import POLL_SECONDS, DrivenEngine, Driver, DriverInputs
from strandline.engine.ray_data.losses import DEATHS_PER_TASK, WorkerLosses
from strandline.engine.ray_data.window import (
    Stream,
    StreamEnd,
    Window,
    Windows,
    quiet,
    size_workers,
)
from strandline.engine.ray_data.worker import read_notes
from strandline.plan.errors import StrandlineError
from strandline.plan.receipt import Failure, Receipt

# Many, since each window starts its workers anew; the table of work in flight has room for them.
WINDOW_SOURCES = 4096
# Where stages join groups, all that a window was fanned out into is kept until none is missing.
GROUP_SOURCES = 256
WINDOWS_LOST = 4


class WindowLostError(StrandlineError):
    """Ray Data gave up one window after another."""


class _RayDataDriver(Driver):
    def __init__(self, inputs: DriverInputs) -> None:
        super().__init__(inputs)
        plan, control = inputs.plan, inputs.control
        self._first = plan.stages[0].name
        self._losses = WorkerLosses([stage.name for stage in plan.stages], control, self._incidents)
        sizes = size_workers(plan, inputs.connection.cpus)
        self._windows = Windows(plan, sizes, inputs.outputs, self._losses.actor)
        joins = any(stage.group for stage in plan.stages)
        self._size = GROUP_SOURCES if joins else WINDOW_SOURCES
        self._shown: set[bytes] = set()
        self._lost_in_a_row = 0

    def _run(self) -> None:
        while not self._flow.is_stopped:
            self._look_around()
            self._fill()
            waiting = self._flow.queues[0].waiting
            slots = [waiting.popleft() for _ in range(min(len(waiting), self._size))]
            if slots:
                self._play(slots)
            elif self._flow.suspects:
                self._flow.release_suspects()
            else:
                break

    def _stop_workers(self) -> None:
        self._windows.stop()
        self._losses.stop()

    def _count_pools(self) -> Sequence[PoolState]:
        return self._losses.look()

    def _has_losses(self) -> bool:
        return self._losses.anything_died

    def _fill(self) -> None:
        """Ask the ledger until a window is full or the listing has ended."""
        while not (self._listing.is_ended or self._flow.is_stopped):
            if len(self._flow.queues[0]) >= self._size:
                return
            self._admission.ask(is_full=False, limit=POLL_SECONDS)
            if self._admission.asked is not None:
                self._admission.take(self._get(self._admission.asked))
            self._look_around()

    def _play(self, slots: list[Slot]) -> None:
        """Work on a window until all that came of it is told."""
        window = Window(slots)
        self._flow.queues[0].running = len(slots)
        self._show(window.open)
        stream = self._windows.stream(slots)
        ended = None
        try:
            ended = self._follow(window, stream)
        except (PoolBrokenError, StageSetupError) as error:
            if self._is_ray_stopping():  # programs of the stages may have been ended as well
                self._losses.anything_died = True
                return
            if isinstance(error, StageSetupError):
                raise
            self._note_losses()
            error.cause = self._losses.find_cause()
            raise
        finally:
            if ended is None:
                self._losses.leave()
            stream.close()
            self._hide(set(self._shown))
        if ended is not None:
            self._note_losses()
            self._take_rest(window, ended.error)

    def _follow(self, window: Window, stream: Stream) -> StreamEnd | None:
        """Describe what comes out of a window; None where the time to wait for it is over."""
        while not (self._flow.is_stopped and self._control.must_leave()):
            item = stream.take(POLL_SECONDS)
            if isinstance(item, StreamEnd):
                return item
            if item is not None:
                for stage, packed in read_notes(item):
                    self._take(window, stage, unpack_receipt(packed))
            self._ledger.flush()
            self._look_around()
        return None

    def _take(self, window: Window, stage: int, receipt: Receipt) -> None:
        if receipt.has_failures and self._is_ray_stopping():
            self._losses.anything_died = True  # the next attempt does it again
            return
        if receipt.failures:
            self._note_losses()
            failures = tuple(self._losses.name_cause(failure) for failure in receipt.failures)
            receipt = receipt._replace(failures=failures)
        self._flow.refuse_uniform(stage, receipt)
        report = window.take(receipt)
        self._ledger.forward(report.events, report.failures)
        self._flow.complete(stage, [], receipt, None)
        self._flow.queues[0].running = len(window.open)
        self._hide(report.finished)

    def _take_rest(self, window: Window, error: BaseException | None) -> None:
        """Have what a window has left tried again; an error that is not Ray's is raised."""
        if self._is_ray_stopping():  # the next attempt does it again
            self._losses.anything_died = True
            return
        if isinstance(error, RayTaskError):
            error = unwrap(error)
        if error is not None:
            self._check_alive()
            if not isinstance(error, RayError):
                raise error
        if window.open and not self._flow.is_stopped:
            self._lose(window, first_line(error) if error else "not all that went in came out")
        elif not window.open:
            self._lost_in_a_row = 0

    def _lose(self, window: Window, why: str) -> None:
        """Queue a lost window's rest again: last, and apart where one of it may be to blame."""
        rest = list(window.open.values())
        self._losses.anything_died = True
        self._incidents.sentences.append(
            f"a window of Ray Data was lost, {len(rest)} sources are tried again: {why}"
        )
        # A window that went with a node is the fault of no source, and of no stage.
        is_of_node = self._losses.has_lost_node()
        exposed = 0 if is_of_node else len(rest)
        poisoned = self._flow.requeue(0, rest, exposed, holds=True, most_deaths=DEATHS_PER_TASK)
        message = f"Ray Data lost {DEATHS_PER_TASK} windows over it; the last: {why}"
        failures = [
            Failure(slot.source, slot.key, slot.token, self._first, message) for slot in poisoned
        ]
        self._flow.fail(failures)
        self._ledger.forward((), failures)
        is_over = window.has_finished or bool(poisoned) or is_of_node
        self._lost_in_a_row = 0 if is_over else self._lost_in_a_row + 1
        if self._lost_in_a_row >= WINDOWS_LOST:
            msg = f"Ray Data lost {WINDOWS_LOST} windows in a row; the last: {why}"
            raise WindowLostError(msg)

    def _note_losses(self) -> None:
        self._losses.note(self._get(self._losses.ask()))

    def _show(self, sources: Collection[bytes]) -> None:
        # A death of this process has to do with them only where they are on its machine.
        if self._control.inflight and len(ray.nodes()) == 1:
            self._shown.update(sources)
            self._control.inflight.queue(self._shown)
            self._control.inflight.process(self._shown)

    def _hide(self, sources: Collection[bytes]) -> None:
        if self._control.inflight:
            self._control.inflight.settle(self._shown.intersection(sources))
        self._shown.difference_update(sources)

    def _look_around(self) -> None:
        """Begin a turn, and now and then look whether all are alive."""
        was_stopped = self._flow.is_stopped
        self._begin_turn()
        if self._flow.is_stopped and not was_stopped:
            self._losses.leave()  # workers would begin what is not wanted any more
        if not self._is_look_due():
            return
        self._check_alive()
        self._note_losses()
        if self._ledger.is_tracked:
            self._finished = self._get(self._ledger.count_finished())

    def _check_alive(self) -> None:
        self._connection.check_alive()
        if self._ledger.is_tracked and ray.wait([self._ledger.watch], timeout=0)[0]:
            raise self._ledger.explain()

    def _get(self, reference: Any) -> Any:  # noqa: ANN401 - whatever an actor answers
        try:
            if self._ledger.is_tracked:  # the ledger may be what takes long
                self._ledger.wait(reference)
            return ray.get(reference)
        except RayTaskError as error:
            raise unwrap(error) from None
        except RayError:
            if self._ledger.is_tracked:  # the ledger's watch may need a moment to know why
                ray.wait([self._ledger.watch], timeout=POLL_SECONDS)
            self._check_alive()
            raise


class RayDataEngine(DrivenEngine):
    """The engine on the operators of Ray Data."""

    driver = _RayDataDriver
    surrounding = quiet
