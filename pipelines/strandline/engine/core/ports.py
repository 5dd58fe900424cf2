"""The engine port and its inputs: the listing to read, and the control of a run.

The module contains only protocols and plain data, so that tests can replace every part.
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
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.receipt import Failure, Receipt, StageCounts
from strandline.plan.stages.ends import Source
from strandline.plan.task import Task
from strandline.storage.volume.inflight import InFlightTable
from strandline_api.outcome.work_lost import WorkLost

ADMIT_BATCH = 256

Admitted = list[tuple[ListedSource, Source]]
# Observes a part of a call: the stage, which is set up and can be called again; the call's input
# as it was before the call; the new tasks of the part, and their receipt.
Observe = Callable[[StagePlan, Sequence[Task], Sequence[Task], Receipt], None]


class WorkCost(NamedTuple):
    """The amount of work in an attempt.

    Attributes:
        worked: seconds of all calls.
        lost: seconds of work that must be repeated, by reason.
    """

    worked: float = 0.0
    lost: WorkLost = WorkLost()


NO_WORK = WorkCost()


class Ending(NamedTuple):
    """The results of an engine that has stopped.

    Attributes:
        standing: counts of sources by state, confirmed by the ledger.
        counts: counts of each stage, by name, in order.
        listed: number of sources listed so far; the whole listing if `is_listed`.
        is_listed: whether the listing reached its end.
        incidents: one sentence for each worker that was lost and replaced.
        pools: the workers of each stage, by name, in order.
        failures: the first failures of sources.
        memory_failures: stages in which a source failed because its workers were killed for memory.
        work: the work done, as far as the engine can measure it.
        redone: number of finished sources of an older recipe that were to be replaced.
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
    """Incidents among the workers of a run.

    Attributes:
        sentences: one sentence for each worker that was lost and replaced.
        memory_failures: see `Ending`.
    """

    sentences: list[str] = field(default_factory=list)
    memory_failures: list[str] = field(default_factory=list)


class RunProgress(NamedTuple):
    """Progress that an engine reports during a run.

    Attributes:
        list_pools: returns the workers of each stage, in order, counted at the time of the call.
        bottleneck: the stage that sets the pace, or None if unknown.
        notes: sentences for the log; the sequence only grows.
        dashboard: host and port of Ray's own dashboard; None if there is no dashboard.
        quarantined: number of listed sources that are not tried any more.
        leaving: amount of work that remains on departing nodes, by the node's name in the notice:
            calls that will end in time, and data that has not been copied.
        measure_work: returns the work so far, computed at the time of the call.
        redone: see `Ending`.
        redo_reason: where redone sources start again and what has changed; empty if nothing is
            redone.
        failed_before: number of sources that failed in earlier phases of the attempt.
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
        """Number of sources that have failed in the attempt."""
        return self.failed_before + len(self.flow.failed)


class DepartureNotice(NamedTuple):
    """A notice that a node is about to leave.

    Attributes:
        node: the node's address, or its id in Ray.
        goes_at: time of the departure, by the driver's clock.
        why: a short reason for people; may be empty.
    """

    node: str
    goes_at: float
    why: str = ""


class Leave(NamedTuple):
    """Deadlines for calls in progress on a departing node or driver, by the driver's clock.

    Attributes:
        prompt_at: deadline of calls without a duration estimate.
        latest_at: deadline of calls that are estimated to end in time.
    """

    prompt_at: float = math.inf
    latest_at: float = math.inf


@dataclass(slots=True)
class Control:
    """The caller's side of a run: steers an engine and observes it.

    Attributes:
        must_stop: polled often; True ends the listing and drops waiting work.
        report: called often; must be fast.
        now: returns seconds from any fixed point.
        must_leave: polled once `must_stop` is True; True also abandons the calls of workers.
        find_leave: called once `must_stop` is True; returns the deadlines after which the engine
            stops waiting for calls.
        inflight: table of the work in progress on this machine's workers; None disables it.
        read_notices: polled often; returns new notices of departing nodes, each node once.
        take_memory_kills: returns how many processes were killed for memory on this machine since
            the last call.
        note: receives a sentence for the log about a notable change.
        overrun: receives the reason when a call in this process exceeds its time limit; ends the
            process.
        heartbeat: notified of each turn of an engine's loop; renews the lease.
        observe: called after each part of a call in this process; None observes nothing.
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
    observe: Observe | None = None


class ListingState(Protocol):
    """The state of a listing, which may not have been read to its end."""

    @property
    def listed(self) -> int:
        """Number of sources that were listed so far."""

    @property
    def passed(self) -> int:
        """Number of sources skipped because they were already finished."""

    @property
    def is_ended(self) -> bool:
        """Return whether the listing has no more sources."""

    @property
    def is_whole(self) -> bool:
        """Return True if the ended listing named all existing sources, or False if unknown."""

    @property
    def gaps(self) -> Sequence[str]:
        """Key prefixes of files and folders that an ended listing did not visit."""


def conclude(
    standing: Standing,
    flow: Flow,
    listing: ListingState,
    pools: Sequence[PoolState],
    incidents: Incidents | None = None,
    work: WorkCost = NO_WORK,
) -> Ending:
    """Assemble the results of a run, for any engine."""
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
    """Executes a plan. Each engine has its own setup."""

    def run(
        self,
        plan: PipelinePlan,
        listing: Listing,
        ledger: LedgerLocation | None,
        control: Control,
    ) -> Ending:
        """Run every source that the ledger releases, until all are done or a stop is requested.

        Args:
            ledger: the ledger's location; None tracks nothing.

        Raises:
            StageSetupError, ShapeError, StageBrokenError, VolumeError, and the errors of the
                ledger; on Ray also PoolBrokenError, LedgerLostError, ClusterLostError.
        """


class Listing:
    """Sources as a stream of batches, with their digests and positions.

    Args:
        sources: the output of the source stage, which is read only on demand.
        is_whole: called at the end; returns whether every existing source was listed.
        find_gaps: called at the end; returns the key prefixes that were not visited, see
            `ListingState`.

    Attributes:
        listed: number of sources so far.
        passed: number of sources that are in no batch, because they were already finished.
        is_ended: whether there are no more sources.
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
        """Return the next batch. It is empty if all its sources were skipped or none remain."""
        # Positions in the listing count from 1.
        start = self.listed + 1
        sources = self.draw_sources(size)
        return [(identify(source, each), source) for each, source in enumerate(sources, start)]

    def draw_sources(self, size: int) -> list[Source]:
        """Return the next sources in listing order; fewer than `size` at the end."""
        drawn = list(islice(self._sources, size))
        self.listed += len(drawn)
        self.is_ended = len(drawn) < size
        return drawn

    def draw_ready(self) -> Admitted:
        """Return a batch like `draw`, but wait for at most one source."""
        return self.draw(1)

    def close(self) -> None:
        """Stop listing and close the listing's open resources."""
        # Other iterators have no `close`.
        if isinstance(self._sources, Generator):
            self._sources.close()
