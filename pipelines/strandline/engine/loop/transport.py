"""The port between a run's loop and the processes in which stages work.

A transport sends calls and receives results. It must not decide when a run ends. `RunState` applies
a result to the flow and the ledger in the same way for all transports.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from types import MappingProxyType
from typing import Any

from strandline.engine.call.slots import Slot
from strandline.engine.core.call_size import FileFilling
from strandline.engine.core.pools import PoolState, find_heaviest
from strandline.engine.core.ports import NO_WORK, Control, Incidents, ListingState, WorkCost
from strandline.engine.flow.flow import Flow
from strandline.engine.loop.admission import Admission, LedgerPort
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Receipt

_NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True)
class RunState:
    """State that the loop of a run and its transport share.

    Attributes:
        filling: decides when tasks fill a file; None if the sink has no target size.
    """

    plan: InitVar[PipelinePlan]
    flow: Flow
    listing: ListingState
    ledger: LedgerPort
    admission: Admission
    control: Control
    filling: FileFilling | None = field(init=False)
    incidents: Incidents = field(default_factory=Incidents)

    def __post_init__(self, plan: PipelinePlan) -> None:
        target = plan.stages[-1].target_bytes
        self.filling = None if target is None else FileFilling(target)

    def find_filling(self, stage: int) -> FileFilling | None:
        """Return `filling` if the stage is the sink; otherwise, return None."""
        return self.filling if stage + 1 == len(self.flow.queues) else None

    def release_suspects(self) -> None:
        """Queue the next suspects if there is no other work."""
        if self.listing.is_ended and self.flow.suspects and self.flow.is_idle():
            self.flow.release_suspects()

    def complete(
        self,
        stage: int,
        batch: list[Slot],
        receipt: Receipt,
        block: Any,  # noqa: ANN401 - see `Flow.complete`
        opened: Slot | None = None,
    ) -> None:
        """Record a part of a result in the ledger, and queue its tasks; see `Flow.complete`."""
        receipt = self.flow.meter.attach(receipt, self.flow.failed)
        filling = self.find_filling(stage)
        if filling is not None:
            filling.note(receipt)
        self.flow.refuse_uniform(stage, receipt)
        self.ledger.forward(receipt.events, receipt.failures)
        self.flow.complete(stage, batch, receipt, block, opened)


class Transport(ABC):
    """Sends calls to stages and returns their results.

    Attributes:
        dashboard: see `RunProgress`.
    """

    dashboard: str | None = None

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._flow = state.flow
        self._control = state.control

    @abstractmethod
    def turn(self) -> None:
        """Do one turn: admit sources, send calls, and take results."""

    @abstractmethod
    def close(self) -> None:
        """End the workers of this run. Also close the listing if a thread reads it."""

    @abstractmethod
    def must_leave(self) -> bool:
        """Abandon late calls of a stopped run. Return True if the run should end now."""

    @abstractmethod
    def list_pools(self) -> Sequence[PoolState]:
        """Return the workers of each stage, in order."""

    @abstractmethod
    def has_losses(self) -> bool:
        """Return whether a call was lost or abandoned, so that events may be missing."""

    def has_calls(self) -> bool:
        """Return whether a result of a worker or a response of the ledger is pending."""
        return False

    def holds_work(self) -> bool:
        """Return whether work is left that the flow does not count."""
        return False

    def can_write(self) -> bool:
        """Return whether tasks wait for the sink and can be written."""
        return len(self._flow.queues[-1]) > 0

    def find_bottleneck(self) -> str | None:
        """Return the stage that sets the pace, or None if it is unknown."""
        return find_heaviest(self._flow.counts)

    def count_leaving(self) -> Mapping[str, int]:
        """Return the number of calls and data blocks on departing nodes; see `RunProgress`."""
        return _NOTHING

    def measure_work(self) -> WorkCost:
        """Return the work of the run so far."""
        return NO_WORK

    @abstractmethod
    def lose_rest(self) -> None:
        """Count unfinished work of a stopped run as lost."""
