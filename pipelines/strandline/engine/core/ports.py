"""The port of an engine, and what it is given: a listing to draw from, a control to ask and tell.

Protocols and plain data only, so that an engine can be run with anything in their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, Protocol

from strandline.engine.core.odd_sources import identify
from strandline.engine.core.pools import PoolState
from strandline.engine.flow.flow import Flow
from strandline.ledger.access.heartbeat import Heartbeat
from strandline.ledger.location import LedgerLocation
from strandline.ledger.records.entries import ListedSource, Standing
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Failure, StageCounts
from strandline.plan.stages.ends import Source
from strandline.storage.volume.inflight import InFlightTable
from strandline_api.outcome.work_lost import WorkLost

ADMIT_BATCH = 256

Admitted = list[tuple[ListedSource, Source]]


class WorkCost(NamedTuple):
    """Work of an attempt.

    Attributes:
        worked: seconds of all calls.
        lost: those of them that are done again.
    """

    worked: float = 0.0
    lost: WorkLost = WorkLost()


NO_WORK = WorkCost()


class Ending(NamedTuple):
    """What is left when an engine has stopped.

    Attributes:
        standing: how the sources stand, confirmed by the ledger.
        counts: what went through each stage, by name, in order.
        listed: sources listed; the whole listing where `is_listed`.
        is_listed: the listing came to its end.
        incidents: workers that were lost and replaced, a sentence each.
        pools: the workers of each stage, by name, in order.
        failures: why sources failed, the first ones.
        memory_failures: stages in which a source failed since its workers were killed for memory.
        work: what it took, as far as the engine knows.
        redone: finished sources of an older recipe that were to be replaced.
    """

    standing: Standing
    counts: dict[str, StageCounts]
    listed: int
    is_listed: bool
    incidents: list[str]
    pools: Mapping[str, PoolState] = MappingProxyType({})
    failures: Sequence[Failure] = ()
    work: WorkCost = NO_WORK
    memory_failures: Sequence[str] = ()
    redone: int = 0


@dataclass(slots=True)
class Incidents:
    """What befell the workers of a run.

    Attributes:
        sentences: of those that were lost and replaced.
        memory_failures: see `Ending`.
    """

    sentences: list[str] = field(default_factory=list)
    memory_failures: list[str] = field(default_factory=list)


class RunProgress(NamedTuple):
    """What an engine shows while it runs.

    Attributes:
        list_pools: the workers of each stage, in order; counted when asked.
        bottleneck: the stage that sets the pace, where that is known.
        notes: what is worth a line in the log, a sentence each; it grows.
        dashboard: host and port of Ray's own; None where there is none.
        quarantined: listed sources that are not tried any more.
        leaving: what of this run nodes still have that are going: calls that will end in time, and
            data that has not left; by the name in the notice.
        measure_work: what it has taken so far; reckoned when asked.
        redone: see `Ending`.
        redo_reason: from where those go on, and since what has changed; empty: there are none.
        failed_before: sources that failed in earlier phases of the attempt.
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
    leaving: Mapping[str, int] = MappingProxyType({})
    measure_work: Callable[[], WorkCost] = WorkCost
    redone: int = 0
    redo_reason: str = ""
    failed_before: int = 0

    @property
    def failed(self) -> int:
        """Sources that have failed in the attempt."""
        return self.failed_before + len(self.flow.failed)


class DepartureNotice(NamedTuple):
    """Word that a node is going.

    Attributes:
        node: its address, or its id in Ray.
        goes_at: when, by the driver's clock.
        why: a few words for people; may be empty.
    """

    node: str
    goes_at: float
    why: str = ""


class Leave(NamedTuple):
    """Until when calls are waited for that are under way as somebody leaves, by the driver's clock.

    Attributes:
        prompt_at: those of which it is not known how long they take.
        latest_at: those that are known to end by then.
    """

    prompt_at: float = math.inf
    latest_at: float = math.inf


@dataclass(slots=True)
class Control:
    """How the outside steers an engine and watches it.

    Attributes:
        must_stop: asked often; True ends the listing and drops what waits.
        report: told often; must be quick.
        now: seconds from any fixed point.
        must_leave: asked often once `must_stop` is True; True gives up what is with workers too.
        find_leave: asked then, for calls that are not worth a wait before.
        inflight: is shown what is with the workers of this machine.
        read_notices: asked often: what was said of nodes that are going, each node once.
        take_memory_kills: processes that were killed for memory on this machine since it was
            asked last.
        note: is told, in a sentence, of a change that is worth a line in the log.
        overrun: is told that a call in this process takes longer than it may, and why; it ends the
            process.
        heartbeat: is told of each turn of an engine's loop, and renews the lease.
    """

    must_stop: Callable[[], bool]
    report: Callable[[RunProgress], None]
    now: Callable[[], float]
    must_leave: Callable[[], bool] = lambda: False
    find_leave: Callable[[], Leave] = Leave
    read_notices: Callable[[], Sequence[DepartureNotice]] = tuple
    inflight: InFlightTable | None = None
    take_memory_kills: Callable[[], int] = lambda: 0
    overrun: Callable[[str], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None
    heartbeat: Heartbeat = field(default_factory=lambda: Heartbeat(lambda: 0.0, lambda: 0.0))


class ListingState(Protocol):
    """A listing as far as it was drawn."""

    @property
    def listed(self) -> int:
        """Sources so far."""

    @property
    def passed(self) -> int:
        """Sources that were passed over, since they were found finished."""

    @property
    def is_ended(self) -> bool:
        """Return whether there are no more."""

    @property
    def is_whole(self) -> bool:
        """Return whether what an ended listing has not named is not there; False says nothing."""

    @property
    def gaps(self) -> Sequence[str]:
        """Files and folders, as keys begin, that an ended listing has not looked at."""


def conclude(
    standing: Standing,
    flow: Flow,
    listing: ListingState,
    pools: Sequence[PoolState],
    incidents: Incidents | None = None,
    work: WorkCost = NO_WORK,
) -> Ending:
    """Return what is left of a run, whoever carried it out."""
    counts, incidents = flow.counts, incidents or Incidents()
    return Ending(
        standing,
        counts,
        listing.listed,
        listing.is_ended,
        incidents.sentences,
        dict(zip(counts, pools, strict=True)),
        tuple(flow.failures),
        work,
        incidents.memory_failures,
    )


class Engine(Protocol):
    """What carries a plan out; how it is set up is each one's own."""

    def run(
        self,
        plan: PipelinePlan,
        listing: Listing,
        ledger: LedgerLocation | None,
        control: Control,
    ) -> Ending:
        """Run every source that the ledger releases, to the end or until told to stop.

        Args:
            ledger: None: nothing is tracked.

        Raises:
            StageSetupError, ShapeError, StageBrokenError, VolumeError, what the ledger raises, and
            of those on Ray PoolBrokenError, LedgerLostError, ClusterLostError.
        """


class Listing:
    """Sources as a stream of batches, with their digests and places.

    Args:
        sources: what the source stage lists; drawn no faster than asked for.
        is_whole: asked at the end: whether all that is there was listed.
        find_gaps: asked at the end: what was not looked at, see `ListingState`.

    Attributes:
        listed: sources so far.
        passed: those of them that are in no batch, since they were found finished.
        is_ended: there are no more.
    """

    def __init__(
        self,
        sources: Iterator[Source],
        is_whole: Callable[[], bool] = lambda: True,
        find_gaps: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._sources = sources
        self._is_whole = is_whole
        self._find_gaps = find_gaps
        self.listed = self.passed = 0
        self.is_ended = False

    @property
    def is_whole(self) -> bool:
        """See `ListingState`."""
        return self._is_whole()

    @property
    def gaps(self) -> Sequence[str]:
        """See `ListingState`."""
        return self._find_gaps()

    def draw(self, size: int = ADMIT_BATCH) -> Admitted:
        """Return the next batch, an empty one where all were passed over or there are no more."""
        start = self.listed + 1
        sources = self.draw_sources(size)
        return [(identify(source, each), source) for each, source in enumerate(sources, start)]

    def draw_sources(self, size: int) -> list[Source]:
        """Return the next sources as they are listed; fewer where there are no more."""
        drawn = list(islice(self._sources, size))
        self.listed += len(drawn)
        self.is_ended = len(drawn) < size
        return drawn

    def draw_ready(self) -> Admitted:
        """Return what can be had without a wait for more than one source; as `draw` else."""
        return self.draw(1)

    def close(self) -> None:
        """List no more; what the listing has open is closed."""
        if isinstance(self._sources, Generator):
            self._sources.close()
