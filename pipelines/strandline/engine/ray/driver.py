"""How a run on Ray begins, shows itself, stops and ends.

The loop and the workers are in `engine`. The driver moves references and receipts, never data. The
ledger decides what a receipt means for a source, and the flow decides what is next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ray.exceptions import RayError

from strandline.engine.autoscaler.capacity import refuse_unmet
from strandline.engine.core.chains import Chain
from strandline.engine.core.flow import Flow
from strandline.engine.core.listing_thread import ListingThread
from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import (
    Control,
    Ending,
    Incidents,
    Listing,
    RunProgress,
    WorkCost,
    conclude,
)
from strandline.engine.ray import ledger_actor, worker
from strandline.engine.ray.admission import Admission
from strandline.engine.ray.connection import ClusterLostError, Connection, connected
from strandline.engine.ray.ledger_actor import LedgerLostError, RayLedger
from strandline.ledger.location import LedgerLocation
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan
from strandline.storage.outputs.ports import OutputLocation
from strandline_api.outcome.exit_codes import ExitCode

POLL_SECONDS = 0.5
_OWN = __name__.partition(".")[0]


class StoppedWithRayError(StrandlineError):
    """Ray has ended by the same request as the run, which went to all processes."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTERRUPTED

    def __init__(self) -> None:
        super().__init__("Ray was asked to stop together with the run; run again to go on")


class DriverInputs(NamedTuple):
    """What a driver is given.

    Attributes:
        ledger: None: nothing is tracked.
        connection: to Ray, for as long as the driver lives.
        outputs: where the sinks write.
        wait: seconds that a stage with work may wait for its first worker; None: any number.
    """

    plan: PipelinePlan
    listing: Listing
    ledger: LedgerLocation | None
    control: Control
    connection: Connection
    outputs: OutputLocation
    wait: float | None = None


class Driver(ABC):
    """Runs every source that the ledger releases, to the end or until told to stop."""

    def __init__(self, inputs: DriverInputs) -> None:
        control = inputs.control
        self._connection = inputs.connection
        self._listing = ListingThread(inputs.listing, control.now)
        self._control = control
        self._incidents = Incidents()
        self.chains = self._cut(inputs)
        self._flow = Flow(inputs.plan, self.chains)
        note, check = control.heartbeat.note_progress, self._connection.check_alive
        self._ledger = RayLedger(inputs.ledger, note, control.now, check, self._is_ray_stopping)
        self._admission = Admission(self._listing, self._ledger, self._flow)
        self._finished = 0
        self._look_due = 0.0

    def drive(self) -> Ending:
        """Run to the end; what works for this run is stopped, however it ends."""
        try:
            with (
                self._control.heartbeat.renewing(self._ledger.renew_lease),
                self._ledger.recording(self._connection.is_alive),
            ):
                self._run()
                self._report()  # the last turn would else never be told
                return self._end()
        except (ClusterLostError, LedgerLostError, RayError):
            if not self._control.must_stop():
                raise
            raise StoppedWithRayError from None
        finally:
            if self._connection.is_alive():  # a dead Ray would be asked for what died with it
                self.stop()

    def stop(self) -> None:
        """List no more, and end the workers and the ledger's actor."""
        self._listing.close()
        self._stop_workers()
        self._ledger.stop()

    @abstractmethod
    def _cut(self, inputs: DriverInputs) -> list[Chain]:
        """Return the stages as they run in workers."""

    @abstractmethod
    def _run(self) -> None:
        """Work until nothing is left to do, or nothing more is to be done."""

    @abstractmethod
    def _stop_workers(self) -> None:
        """End all that works for this run."""

    @abstractmethod
    def _count_pools(self) -> Sequence[PoolState]:
        """Return the workers of each stage, in order."""

    @abstractmethod
    def _has_losses(self) -> bool:
        """Return whether events may be missing, since a worker or what it made was lost."""

    @abstractmethod
    def _find_bottleneck(self) -> str | None:
        """Return the stage that sets the pace, if it is known."""

    @abstractmethod
    def _count_leaving(self) -> Mapping[str, int]:
        """Return what is still on nodes that are going; see `RunProgress`."""

    @abstractmethod
    def _measure_work(self) -> WorkCost:
        """Return what the run has taken so far."""

    def _begin_turn(self) -> None:
        """Show that the driver works and how far it is, and hear whether to stop."""
        self._control.heartbeat.note_progress()
        self._report()
        if self._control.must_stop() and not self._flow.is_stopped:
            self._flow.stop()

    def _report(self) -> None:
        self._control.report(
            RunProgress(
                self._flow,
                self._listing.listed,
                self._admission.skipped,
                self._finished,
                self._listing.is_ended,
                self._incidents.sentences,
                self._count_pools,
                self._find_bottleneck(),
                dashboard=self._connection.dashboard,
                quarantined=self._admission.quarantined,
                leaving=self._count_leaving(),
                measure_work=self._measure_work,
            )
        )

    def _is_ray_stopping(self) -> bool:
        """Return whether a Ray of this process's own may have been asked to stop as well."""
        return self._connection.raylet is not None and self._control.must_stop()

    def _is_look_due(self) -> bool:
        """Return True every so often, for what is too slow to be looked at in each turn."""
        now = self._control.now()
        if now < self._look_due:
            return False
        self._look_due = now + POLL_SECONDS
        return True

    def _end(self) -> Ending:
        failed = len(self._flow.failed)
        standing = self._ledger.conclude(self._listing, failed, anything_died=self._has_losses())
        pools, work = self._count_pools(), self._measure_work()
        return conclude(standing, self._flow, self._listing, pools, self._incidents, work)


@dataclass(frozen=True, slots=True)
class DrivenEngine:
    """An engine on Ray: connected for the time of a run, with a driver of its own.

    Attributes:
        outputs: where the sinks write.
        address: of an existing cluster; None starts a local one.
        workers: CPUs of the local one; None: the machine's.
        wait: seconds that a stage with work may wait for its first worker; None: any number.
        driver: what runs the plan.
    """

    outputs: OutputLocation
    address: str | None = None
    workers: int | None = None
    wait: float | None = None
    driver: ClassVar[type[Driver]]

    def run(
        self,
        plan: PipelinePlan,
        listing: Listing,
        ledger: LedgerLocation | None,
        control: Control,
    ) -> Ending:
        """See `Engine.run`."""
        modules = list_modules(plan)
        with connected(self.address, self.workers, modules) as connection:
            if connection.capacity is not None:
                refuse_unmet(plan, connection.capacity)
            inputs = DriverInputs(
                plan, listing, ledger, control, connection, self.outputs, self.wait
            )
            return self.driver(inputs).drive()


def list_modules(plan: PipelinePlan) -> list[str]:
    """Return our own modules that workers of a plan will need, for Ray to import ahead.

    A user's are not among them: what they are depends on the folder in which they are looked for,
    which Ray's processes do not know as they start.
    """
    used = [type(stage.stage).__module__ for stage in plan.stages]
    own = [name for name in used if name.partition(".")[0] == _OWN]
    return list(dict.fromkeys([worker.__name__, ledger_actor.__name__, *own]))
