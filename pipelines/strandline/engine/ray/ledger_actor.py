"""The writer in an actor of its own on the driver's node, and the driver's end of the line to it.

Messages are numbered and not waited for. A call that never returns tells the driver at once when
the ledger fails or its process dies.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from strandline.engine.call.wire import Plain, pack_events, unpack_events
from strandline.engine.core.ports import ListingState
from strandline.engine.ray.connection import first_line, unwrap
from strandline.ledger.access.session import LedgerSession
from strandline.ledger.location import LedgerLocation
from strandline.ledger.records.entries import ListedSource, Standing
from strandline.ledger.records.packing import pack_listed, unpack_listed
from strandline.ledger.writer.opening import opened_writer
from strandline.ledger.writer.writer import GROUP_SECONDS
from strandline.plan.errors import StrandlineError
from strandline.plan.receipt import Event, Failure

PENDING_CALLS = 1000
LOOK_SECONDS = 1.0
SILENT_LOOKS = 2  # without an answer, when a run is being stopped
# A message holds no more than that, unless a single call has said more.
MESSAGE_BYTES = 1 << 20
# So long events gather: a message costs both ends as much as a hundred of them.
GATHER_SECONDS = 0.05


class LedgerLostError(StrandlineError):
    """The ledger's process died; what was committed is kept."""


class LedgerActor:
    """Hosts the ledger's writer; a lock joins calls, from one thread, and the watch, from another.

    After an error that is not waited for, no more is done: what is counted may not be whole.
    """

    def __init__(self, location: LedgerLocation) -> None:
        self._lock = threading.Lock()
        self._failed = threading.Event()
        self._error: Exception | None = None
        self._steps = 0
        # The session stays open as long as this process lives: the engine ends the actor by a kill.
        self._opened = ExitStack()
        self._session = LedgerSession(location.path, location.attempt, location.uid)
        writer = opened_writer(self._session, location, time.monotonic)
        self._writer = self._opened.enter_context(writer)
        self._writer.note_progress = self._note_progress

    def admit(self, packed: bytes, passed: int = 0) -> list[int]:
        """See `LedgerWriter.admit`."""
        batch = unpack_listed(packed)
        with self._working():
            return self._writer.admit(batch, passed)

    def apply(self, number: int, packed: list[bytes], failures: list[Plain]) -> None:
        """See `LedgerWriter.apply`; an error is told by `watch`."""

        def note_progress() -> None:
            events = [event for part in packed for event in unpack_events(part)]
            failed = [Failure(*failure) for failure in failures]
            self._writer.apply(number, events, failed)

        self._do(note_progress)

    def renew_lease(self, time: float) -> None:
        """Renew the lease, however long a call of the writer takes; `watch` tells of an error."""
        try:
            self._session.renew(time)
        except Exception as error:  # noqa: BLE001 - nobody waits for this call: the watch tells
            self._fail(error)

    def end_listing(self, total: int, *, is_whole: bool, gaps: Sequence[str] = ()) -> None:
        """See `LedgerWriter.end_listing`."""
        with self._working():
            self._writer.end_listing(total, is_whole=is_whole, gaps=gaps)

    def drain(self, number: int, *, anything_died: bool) -> Standing:
        """See `LedgerWriter.drain`."""
        with self._working():
            return self._writer.drain(number, anything_died=anything_died)

    def count_finished(self) -> int:
        """Return sources made durable so far."""
        return self._writer.finished

    def count_steps(self) -> int:
        """Return what the writer has done so far; it grows during a call that takes long."""
        return self._steps

    def watch(self) -> None:
        """Commit groups that are due and raise what goes wrong; never return."""
        while not self._failed.wait(GROUP_SECONDS):
            self._do(self._writer.commit_due)
        assert self._error is not None  # set before the event
        raise self._error

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Lock the writer for a call; an error that was not waited for is raised first."""
        with self._lock:
            if self._error is not None:
                raise self._error
            yield

    def _do(self, note_progress: Callable[[], None]) -> None:
        """Have the writer do what is not waited for: `watch` tells of an error."""
        # Held to the end, or the next one to take the lock would not know of the error.
        with self._lock:
            if self._error is not None:
                return
            try:
                note_progress()
            except Exception as error:  # noqa: BLE001 - told by the watch
                self._fail(error)

    def _note_progress(self) -> None:
        self._steps += 1

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._failed.set()


class RayLedger:
    """The driver's end: numbers messages and sends them without waiting.

    Args:
        location: of the ledger; None: nothing is tracked.
        note_progress: is told that the ledger works, while its answer is waited for.
        now: seconds from any fixed point.
        check_alive: raises an error where Ray is known to have died.
        is_stopping: returns whether Ray may have been asked to stop together with the run.
    """

    def __init__(
        self,
        location: LedgerLocation | None,
        note_progress: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
        check_alive: Callable[[], None] = lambda: None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_stopping = is_stopping
        self._note_progress = note_progress
        self._check_alive = check_alive
        self._now = now
        self._steps = 0
        self._events: deque[bytes] = deque()  # the events of a call each
        self._failures: list[Failure] = []
        self._due = 0.0
        self._sent = 0
        self._pending: list[Any] = []
        self._actor: Any = None
        self.finished = 0
        self.watch: Any = None
        if location is None:
            return
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor_class = ray.remote(num_cpus=0, concurrency_groups={"watch": 1, "life": 1})(
            LedgerActor
        )
        self._actor = actor_class.options(max_restarts=0, scheduling_strategy=here).remote(location)
        self.watch = self._actor.watch.options(concurrency_group="watch").remote()

    @property
    def is_tracked(self) -> bool:
        """Return False where the run keeps no ledger."""
        return self._actor is not None

    def admit(self, batch: Sequence[ListedSource], passed: int = 0) -> Any:  # noqa: ANN401 - an object reference
        """Return a reference to `LedgerWriter.admit`'s answer."""
        return self._actor.admit.remote(pack_listed(batch), passed)

    def count_finished(self) -> int:
        """Return the number of finished sources that was last learned."""
        return self.finished

    def ask_finished(self) -> Any:  # noqa: ANN401 - an object reference
        """Return a reference to the number of finished sources."""
        return self._aside(self._actor.count_finished)

    def renew_lease(self, time: float) -> None:
        """Have the lease renewed, in whatever thread; without a wait for it."""
        if self._actor is None:
            return
        with suppress(Exception):  # Ray may be gone; the driver's loop learns of that otherwise
            self._aside(self._actor.renew_lease, time)

    def forward(self, events: Sequence[Event], failures: Sequence[Failure]) -> None:
        """Describe what happened; sent with one of the next messages, in this order."""
        if self._actor is None:
            return
        if failures:  # events that come after them are not to be counted before
            self._due = self._now()
        elif not self._has_unsent:
            self._due = self._now() + GATHER_SECONDS
        if events:
            self._events.append(pack_events(events))
        self._failures += failures

    def limit_wait(self, seconds: float) -> float:
        """Return how long, of `seconds`, to wait for anything else until `flush_due` is due."""
        return min(seconds, max(0.0, self._due - self._now())) if self._has_unsent else seconds

    def flush_due(self) -> None:
        """Send what was told, where it has gathered for long enough."""
        if self._has_unsent and self._now() >= self._due:
            self.flush()
            # The rest that the ledger had no room for waits as long again.
            self._due = self._now() + GATHER_SECONDS

    def flush(self) -> None:
        """Send what was told, as far as the ledger keeps up; the rest waits for the next call."""
        while self._has_unsent and self._has_room():
            failures = [list(failure) for failure in self._failures]
            self._sent += 1
            self._pending.append(self._actor.apply.remote(self._sent, self._take(), failures))
            self._failures = []

    @property
    def _has_unsent(self) -> bool:
        return bool(self._events or self._failures)

    def _take(self) -> list[bytes]:
        """Return the events of the next message, as they were forwarded."""
        parts: list[bytes] = []
        size = 0
        while self._events and (not parts or size + len(self._events[0]) <= MESSAGE_BYTES):
            parts.append(self._events.popleft())
            size += len(parts[-1])
        return parts

    def drain(
        self,
        total: int | None,
        *,
        anything_died: bool,
        is_whole: bool = True,
        gaps: Sequence[str] = (),
    ) -> Standing:
        """Wait until all that was told is counted and durable.

        Args:
            total: sources listed, None where the listing did not end.
            is_whole, gaps: see `LedgerWriter.end_listing`.

        Raises:
            LedgerLostError: its process died.
        """
        while self._has_unsent:
            self.flush()
            self._check(timeout=0.01)
        if total is not None:
            self._get(self._actor.end_listing.remote(total, is_whole=is_whole, gaps=gaps))
        standing: Standing = self._get(
            self._actor.drain.remote(self._sent, anything_died=anything_died)
        )
        return standing

    @contextmanager
    def recording(self, is_reachable: Callable[[], bool]) -> Iterator[None]:
        """Make durable what was told where an error ends the block: the next attempt is to know.

        Args:
            is_reachable: whether there still is a Ray to ask.
        """
        try:
            yield
        except LedgerLostError:
            raise
        except StrandlineError:
            if self.is_tracked and is_reachable():
                with suppress(Exception):  # why the run is given up says more
                    self.drain(None, anything_died=True)
            raise

    def conclude(self, listing: ListingState, failed: int, *, anything_died: bool) -> Standing:
        """Return how the sources stand in the end, by the ledger or, without one, by what was seen.

        Args:
            failed: sources that failed, as far as the driver knows.

        Raises:
            LedgerLostError: its process died.
        """
        if not self.is_tracked:
            return Standing(listing.listed - failed, 0, failed, 0, 0)
        total = listing.listed if listing.is_ended else None
        is_whole, gaps = listing.is_whole, listing.gaps
        return self.drain(total, anything_died=anything_died, is_whole=is_whole, gaps=gaps)

    def explain(self) -> Exception:
        """Explain why the watch has ended."""
        try:
            ray.get(self.watch)
        except RayTaskError as error:
            return unwrap(error)
        except RayError as error:
            return _lost(error)
        return LedgerLostError("the ledger's watch ended without a reason")

    def wait(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        """Wait for an answer; what the ledger does meanwhile is the driver's work.

        Raises:
            LedgerLostError: it was asked to stop together with Ray, and has done so.
        """
        silent = 0
        while not ray.wait([reference], timeout=LOOK_SECONDS)[0]:
            self._check_alive()  # an actor of a dead Ray never answers
            silent = 0 if self._look_at_steps() else silent + 1
            # After a signal to all, Ray needs seconds to end an actor that does nothing any more.
            if silent == SILENT_LOOKS and self._is_stopping():
                raise LedgerLostError("the ledger does not answer any more; run again to go on")

    def stop(self) -> None:
        """End the actor."""
        if self._actor is not None:
            ray.kill(self._actor)

    def _has_room(self) -> bool:
        if len(self._pending) >= PENDING_CALLS:
            number = len(self._pending)
            _, self._pending = ray.wait(self._pending, num_returns=number, timeout=0)
        return len(self._pending) < PENDING_CALLS

    def _check(self, timeout: float) -> None:
        if ray.wait([self.watch], timeout=timeout)[0]:
            raise self.explain()

    def _get(self, reference: Any) -> Any:  # noqa: ANN401 - whatever the call returns
        try:
            self.wait(reference)
            return ray.get(reference)
        except RayTaskError as error:
            raise unwrap(error) from None
        except RayError as error:
            raise _lost(error) from error

    def _look_at_steps(self) -> bool:
        """Note the progress of the ledger; return False if it does not answer."""
        asked = self._aside(self._actor.count_steps)
        if not ray.wait([asked], timeout=LOOK_SECONDS)[0]:
            return False
        steps: int = ray.get(asked)
        if steps != self._steps:
            self._steps = steps
            self._note_progress()
        return True

    def _aside(self, method: Any, *arguments: Any) -> Any:  # noqa: ANN401 - a method of an actor, and a reference
        """Call what waits for no message before, however much each of them has to be done."""
        return method.options(concurrency_group="life").remote(*arguments)


def _lost(error: Exception) -> LedgerLostError:
    return LedgerLostError(f"the ledger's process died ({first_line(error)}); run again to go on")
