"""What an engine needs from outside: a ledger to tell, a listing to draw from, someone to ask.

Protocols and plain data only, so that an engine can be run with anything in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, Protocol

from strandline.engine.core.flow import Flow
from strandline.engine.core.heartbeat import Heart
from strandline.engine.core.odd_sources import identify
from strandline.engine.core.pools import PoolState
from strandline.ledger.entries import RELEASED, Listed, Standing
from strandline.ledger.keeper import Keeper
from strandline.plan.receipt import Counts, Event, Failure
from strandline.plan.stage import Source
from strandline.storage.volume.inflight import InFlightTable

ADMIT_BATCH = 256

Admitted = list[tuple[Listed, Source]]


class Ending(NamedTuple):
    """What is left when an engine has stopped.

    Attributes:
        standing: how the sources stand, confirmed by the ledger.
        counts: what went through each stage, by name, in order.
        listed: sources listed; the whole listing where `is_listed`.
        is_listed: the listing came to its end.
        incidents: workers that were lost and replaced, a sentence each.
        pools: the workers of each stage, by name, in order.
    """

    standing: Standing
    counts: dict[str, Counts]
    listed: int
    is_listed: bool
    incidents: list[str]
    pools: Mapping[str, PoolState] = MappingProxyType({})


class Progress(NamedTuple):
    """What an engine shows while it runs.

    Attributes:
        list_pools: the workers of each stage, in order; counted when asked.
        bottleneck: the stage that sets the pace, where that is known.
        notes: what is worth a line in the log, a sentence each; it grows.
        dashboard: host and port of Ray's own; None where there is none.
        quarantined: listed sources that are not tried any more.
    """

    flow: Flow
    listed: int
    skipped: int
    finished: int
    is_listed: bool
    incidents: list[str]
    list_pools: Callable[[], Sequence[PoolState]] = tuple
    bottleneck: str | None = None
    notes: Sequence[str] = ()
    dashboard: str | None = None
    quarantined: int = 0


@dataclass(slots=True)
class Control:
    """How the outside steers an engine and watches it.

    Attributes:
        must_stop: asked often; True ends the listing and drops what waits.
        report: told often; must be quick.
        now: seconds from any fixed point.
        must_leave: asked often once `must_stop` is True; True gives up what is with workers too.
        inflight: is shown what is with the workers of this machine.
        take_memory_kills: processes that were killed for memory on this machine since it was
            asked last.
        notes: changes of the pools that are worth a line in the log.
        overrun: is told that a call in this process takes longer than it may, and why; it ends the
            process.
        memory_failures: stages in which a source failed since its workers were killed for memory.
        heart: is told of each turn of an engine's loop, and renews the lease.
    """

    must_stop: Callable[[], bool]
    report: Callable[[Progress], None]
    now: Callable[[], float]
    must_leave: Callable[[], bool] = lambda: False
    inflight: InFlightTable | None = None
    take_memory_kills: Callable[[], int] = lambda: 0
    overrun: Callable[[str], None] = lambda _: None
    incidents: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    memory_failures: list[str] = field(default_factory=list)
    heart: Heart = field(default_factory=lambda: Heart(lambda: 0.0))


class Drawn(Protocol):
    """A listing as far as it was drawn."""

    @property
    def listed(self) -> int:
        """Sources so far."""

    @property
    def is_ended(self) -> bool:
        """True once there are no more."""

    @property
    def is_whole(self) -> bool:
        """True where what an ended listing has not named is not there; False says nothing."""


def conclude(
    standing: Standing, flow: Flow, listing: Drawn, control: Control, pools: Sequence[PoolState]
) -> Ending:
    """What is left of a run, whoever carried it out."""
    counts = {queue.name: queue.counts for queue in flow.queues}
    return Ending(
        standing,
        counts,
        listing.listed,
        listing.is_ended,
        control.incidents,
        dict(zip(counts, pools, strict=True)),
    )


class Ledger(Protocol):
    """The ledger as an engine in the same process sees it."""

    def admit(self, batch: Sequence[Listed]) -> list[int]:
        """Which sources of a listing batch are released; see `Keeper.admit`."""

    def forward(self, events: Sequence[Event], failures: Sequence[Failure]) -> None:
        """Tell what happened; nobody waits for what becomes of it."""

    def end_listing(self, total: int, *, is_whole: bool) -> None:
        """The listing is at its end; see `Keeper.end_listing`."""

    def drain(self, *, anything_died: bool) -> Standing:
        """How the sources stand, after everything told has been counted."""

    def count_finished(self) -> int:
        """Sources finished so far by this attempt."""

    def beat(self) -> None:
        """This attempt is alive; may be called from a thread of its own."""


class KeeperLedger:
    """A keeper in this process.

    Args:
        time: wall clock, seconds since the epoch.
    """

    def __init__(self, keeper: Keeper, time: Callable[[], float]) -> None:
        self._keeper = keeper
        self._time = time
        self._told = 0

    def admit(self, batch: Sequence[Listed]) -> list[int]:
        return self._keeper.admit(batch)

    def forward(self, events: Sequence[Event], failures: Sequence[Failure]) -> None:
        self._told += 1
        self._keeper.apply(self._told, events, failures)

    def end_listing(self, total: int, *, is_whole: bool) -> None:
        self._keeper.end_listing(total, is_whole=is_whole)

    def drain(self, *, anything_died: bool) -> Standing:
        return self._keeper.drain(self._told, anything_died=anything_died)

    def count_finished(self) -> int:
        return self._keeper.finished

    def beat(self) -> None:
        self._keeper.beat(self._time())


class NoLedger:
    """For runs without a checkpoint: everything is released, nothing is kept."""

    def __init__(self) -> None:
        self._released = 0
        self._failed: set[bytes] = set()

    def admit(self, batch: Sequence[Listed]) -> list[int]:
        self._released += len(batch)
        return [RELEASED] * len(batch)

    def forward(self, events: Sequence[Event], failures: Sequence[Failure]) -> None:  # noqa: ARG002
        self._failed.update(failure.source for failure in failures)

    def end_listing(self, total: int, *, is_whole: bool) -> None:
        pass

    def drain(self, *, anything_died: bool) -> Standing:  # noqa: ARG002
        failed = len(self._failed)
        return Standing(self._released - failed, 0, failed, 0, 0)

    def count_finished(self) -> int:
        return 0

    def beat(self) -> None:
        pass


class Listing:
    """Sources as a stream of batches, with their digests and places.

    Args:
        sources: what the source stage lists; drawn no faster than asked for.
        is_whole: asked at the end: whether all that is there was listed.
    """

    def __init__(
        self, sources: Iterator[Source], is_whole: Callable[[], bool] = lambda: True
    ) -> None:
        self._sources = sources
        self._is_whole = is_whole
        self.listed = 0
        self.is_ended = False

    @property
    def is_whole(self) -> bool:
        """See `Drawn`."""
        return self._is_whole()

    def draw(self, size: int = ADMIT_BATCH) -> Admitted:
        """The next batch; an empty one ends the listing."""
        drawn = list(islice(self._sources, size))
        self.is_ended = len(drawn) < size
        batch = []
        for source in drawn:
            self.listed += 1
            batch.append((identify(source, self.listed), source))
        return batch

    def close(self) -> None:
        """List no more; what the listing has open is closed."""
        if isinstance(self._sources, Generator):
            self._sources.close()
