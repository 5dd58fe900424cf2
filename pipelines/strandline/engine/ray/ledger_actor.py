"""The ledger's writer in an actor on the driver's node, and the driver's proxy for it.

Messages are numbered, and the driver does not wait for them. The call of `watch` ends only with an
error, so the driver notices immediately if the ledger fails or its process dies.
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
SILENT_LOOKS = 2  # number of checks without a response before a stopped run gives up
# Maximum bytes of a message, unless the events of a single call are larger.
MESSAGE_BYTES = 1 << 20
# Collect events for this long, because a message costs both sides as much as a hundred events.
GATHER_SECONDS = 0.05


class LedgerLostError(StrandlineError):
    """Raised if the ledger's process died. Committed work is kept."""


class LedgerActor:
    """Hosts the ledger's writer. A lock serializes calls and the watch, which run on two threads.

    After an error in a call whose result is not awaited, the actor does no more work, because the
    counts may be incomplete.
    """

    def __init__(self, location: LedgerLocation) -> None:
        self._lock = threading.Lock()
        self._failed = threading.Event()
        self._error: Exception | None = None
        self._steps = 0
        # Keep the session open as long as this process lives. The engine ends the actor with a
        # kill.
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
        """See `LedgerWriter.apply`. `watch` raises the errors."""

        def note_progress() -> None:
            events = [event for part in packed for event in unpack_events(part)]
            failed = [Failure(*failure) for failure in failures]
            self._writer.apply(number, events, failed)

        self._do(note_progress)

    def renew_lease(self, time: float) -> None:
        """Renew the lease, even during a long call of the writer. `watch` raises the errors."""
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
        """Return the number of durably finished sources so far."""
        return self._writer.finished

    def count_steps(self) -> int:
        """Return how many steps the writer has done. The number also grows during long calls."""
        return self._steps

    def watch(self) -> None:
        """Commit groups when their time has come, and raise errors of other calls. Never return."""
        while not self._failed.wait(GROUP_SECONDS):
            self._do(self._writer.commit_due)
        assert self._error is not None  # stored before the event is set
        raise self._error

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Lock the writer for a call. If an earlier call failed, raise its error instead."""
        with self._lock:
            if self._error is not None:
                raise self._error
            yield

    def _do(self, note_progress: Callable[[], None]) -> None:
        """Run a step of the writer whose result is not awaited. `watch` raises the errors."""
        # Hold the lock until the error is stored; otherwise the next holder would miss the error.
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
    """The driver's proxy for the ledger: numbers messages and sends them without waiting.

    Args:
        location: the ledger's location; None tracks nothing.
        note_progress: called when the ledger makes progress while the driver waits for a response.
        now: returns seconds from any fixed point.
        check_alive: raises an error if Ray is known to have died.
        is_stopping: returns whether Ray may have been stopped together with the run.
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
        self._events: deque[bytes] = deque()  # each item has the packed events of one call
        self._failures: list[Failure] = []
        self._due = 0.0
        self._sent = 0
        self._pending: list[Any] = []
        self._actor: Any = None
        self.finished = 0
        self.watch: Any = None
        if location is None:
            return
        # The ledger is on the driver's disk, so the actor must run on this node.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        # Use concurrency groups: their methods respond even during a long call of the writer.
        actor_class = ray.remote(num_cpus=0, concurrency_groups={"watch": 1, "life": 1})(
            LedgerActor
        )
        self._actor = actor_class.options(max_restarts=0, scheduling_strategy=here).remote(location)
        self.watch = self._actor.watch.options(concurrency_group="watch").remote()

    @property
    def is_tracked(self) -> bool:
        """Return False if the run has no ledger."""
        return self._actor is not None

    def admit(self, batch: Sequence[ListedSource], passed: int = 0) -> Any:  # noqa: ANN401 - an object reference
        """Return a reference to the result of `LedgerWriter.admit`."""
        return self._actor.admit.remote(pack_listed(batch), passed)

    def count_finished(self) -> int:
        """Return the last known number of finished sources."""
        return self.finished

    def ask_finished(self) -> Any:  # noqa: ANN401 - an object reference
        """Request the number of finished sources. Return a reference to the response."""
        return self._aside(self._actor.count_finished)

    def renew_lease(self, time: float) -> None:
        """Request a renewal of the lease without waiting. Any thread may call this method."""
        if self._actor is None:
            return
        with suppress(Exception):  # if Ray is gone, the driver's loop detects that
            self._aside(self._actor.renew_lease, time)

    def forward(self, events: Sequence[Event], failures: Sequence[Failure]) -> None:
        """Queue events and failures for one of the next messages, in this order."""
        if self._actor is None:
            return
        if failures:  # send failures before later events are counted
            self._due = self._now()
        elif not self._has_unsent:
            self._due = self._now() + GATHER_SECONDS
        if events:
            self._events.append(pack_events(events))
        self._failures += failures

    def limit_wait(self, seconds: float) -> float:
        """Return `seconds`, or the time until `flush_due` must run if that is shorter."""
        return min(seconds, max(0.0, self._due - self._now())) if self._has_unsent else seconds

    def flush_due(self) -> None:
        """Send the queued events if they were collected for long enough."""
        if self._has_unsent and self._now() >= self._due:
            self.flush()
            # If the ledger could not take all events, the others wait another period.
            self._due = self._now() + GATHER_SECONDS

    def flush(self) -> None:
        """Send queued events until too many messages are pending. A later call sends the rest."""
        while self._has_unsent and self._has_room():
            failures = [list(failure) for failure in self._failures]
            self._sent += 1
            self._pending.append(self._actor.apply.remote(self._sent, self._take(), failures))
            self._failures = []

    @property
    def _has_unsent(self) -> bool:
        return bool(self._events or self._failures)

    def _take(self) -> list[bytes]:
        """Return the events of the next message, still packed."""
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
        """Wait until everything sent is counted and durable.

        Args:
            total: number of listed sources; None if the listing did not end.
            anything_died: whether events may be missing.
            is_whole, gaps: see `LedgerWriter.end_listing`.

        Raises:
            LedgerLostError: if the ledger's process died.
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
        """Drain the ledger if an error ends the block, so that the next attempt has all events.

        Args:
            is_reachable: returns whether Ray can still be reached.
        """
        try:
            yield
        except LedgerLostError:
            raise
        except StrandlineError:
            if self.is_tracked and is_reachable():
                with suppress(Exception):  # the error that ends the run explains more
                    self.drain(None, anything_died=True)
            raise

    def conclude(self, listing: ListingState, failed: int, *, anything_died: bool) -> Standing:
        """Return the final counts of sources: from the ledger, or from the run without a ledger.

        Args:
            listing: the state of the listing.
            failed: number of failed sources, as far as the driver can count them.
            anything_died: whether events may be missing.

        Raises:
            LedgerLostError: if the ledger's process died.
        """
        if not self.is_tracked:
            return Standing(listing.listed - failed, 0, failed, 0, 0)
        total = listing.listed if listing.is_ended else None
        is_whole, gaps = listing.is_whole, listing.gaps
        return self.drain(total, anything_died=anything_died, is_whole=is_whole, gaps=gaps)

    def explain(self) -> Exception:
        """Return the error that ended the watch."""
        try:
            ray.get(self.watch)
        except RayTaskError as error:
            return unwrap(error)
        except RayError as error:
            return _lost(error)
        return LedgerLostError("the task that watches the ledger ended unexpectedly")

    def wait(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        """Wait for a response. Progress of the ledger counts as the driver's progress.

        Raises:
            LedgerLostError: if the ledger was stopped together with Ray.
        """
        silent = 0
        while not ray.wait([reference], timeout=LOOK_SECONDS)[0]:
            self._check_alive()  # if Ray is dead, its actors never respond
            silent = 0 if self._look_at_steps() else silent + 1
            # Do not wait for Ray: after a stop signal to all processes, Ray needs seconds to end an
            # actor that no longer responds.
            if silent == SILENT_LOOKS and self._is_stopping():
                raise LedgerLostError(
                    "the ledger's process no longer responds; run the pipeline again to continue"
                )

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
        """Record the progress of the ledger. Return False if the ledger does not respond."""
        asked = self._aside(self._actor.count_steps)
        if not ray.wait([asked], timeout=LOOK_SECONDS)[0]:
            return False
        steps: int = ray.get(asked)
        if steps != self._steps:
            self._steps = steps
            self._note_progress()
        return True

    def _aside(self, method: Any, *arguments: Any) -> Any:  # noqa: ANN401 - a method of an actor, and a reference
        """Call a method of the actor without waiting for earlier messages."""
        return method.options(concurrency_group="life").remote(*arguments)


def _lost(error: Exception) -> LedgerLostError:
    return LedgerLostError(
        f"the ledger's process died ({first_line(error)}); run the pipeline again to continue"
    )
