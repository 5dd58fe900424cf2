"""The Ray engine: a run with actors as workers, and with the ledger in a separate actor."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ray.exceptions import RayError

from strandline.engine.autoscaler.capacity import refuse_unmet
from strandline.engine.call.setup import FirstTimes
from strandline.engine.core.listing_thread import ListingThread
from strandline.engine.core.ports import Control, Ending, Listing
from strandline.engine.flow.chains import cut_chains
from strandline.engine.flow.flow import Flow
from strandline.engine.loop.loop import EngineLoop
from strandline.engine.loop.transport import RunState
from strandline.engine.ray import ledger_actor, worker
from strandline.engine.ray.admission import ActorAdmission
from strandline.engine.ray.connection import ClusterLostError, Connection, connected
from strandline.engine.ray.ledger_actor import LedgerLostError, RayLedger
from strandline.engine.ray.pool import RayPools
from strandline.engine.ray.transport import ActorTransport
from strandline.ledger.location import LedgerLocation
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan
from strandline.storage.outputs.ports import OutputLocation
from strandline_api.outcome.exit_codes import ExitCode


class StoppedWithRayError(StrandlineError):
    """Raised if Ray ended because the stop request of the run reached all processes."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTERRUPTED

    def __init__(self) -> None:
        super().__init__(
            "Ray was stopped together with the run; run the pipeline again to continue"
        )


@dataclass(frozen=True, slots=True)
class RayEngine:
    """The engine on pools of actors, connected to Ray for the duration of a run.

    Attributes:
        outputs: location of the sinks' outputs.
        address: address of an existing cluster; None starts a local Ray instance.
        workers: CPUs of the local Ray instance; None means all CPUs that this process may use.
        wait: seconds that a stage with work may wait for its first worker; None means no limit.
    """

    outputs: OutputLocation
    address: str | None = None
    workers: int | None = None
    wait: float | None = None

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
            return self.drive(plan, listing, ledger, control, connection)

    def drive(
        self,
        plan: PipelinePlan,
        listing: Listing,
        location: LedgerLocation | None,
        control: Control,
        connection: Connection,
    ) -> Ending:
        """Run a plan on Ray. On return or error, all actors of the run are stopped."""
        # Separate a sink that must run on this node; otherwise its whole chain would run on this
        # node.
        is_sink_apart = self.outputs.is_on_driver and connection.capacity is None
        chains = cut_chains(plan.stages, is_sink_apart=is_sink_apart)
        flow, drawn = Flow(plan, chains), ListingThread(listing, control.now)
        note, check = control.heartbeat.note_progress, connection.check_alive
        is_stopping = partial(connection.is_stopping, control.must_stop)
        ledger = RayLedger(location, note, control.now, check, is_stopping)
        admission = ActorAdmission(drawn, ledger, flow)
        state = RunState(plan, flow, drawn, ledger, admission, control)
        name, report = f"{plan.namespace}.{plan.name}", FirstTimes(control.note)
        pools = RayPools(
            name, chains, self.outputs, control.inflight, now=control.now, report=report
        )
        transport = ActorTransport(
            state, admission, ledger, connection, pools, self.outputs, self.wait
        )
        try:
            with (
                closing(transport),
                control.heartbeat.renewing(ledger.renew_lease),
                ledger.recording(connection.is_alive),
            ):
                return EngineLoop(state, transport).run()
        except (ClusterLostError, LedgerLostError, RayError):
            if not control.must_stop():
                raise
            raise StoppedWithRayError from None


def list_modules(plan: PipelinePlan) -> list[str]:
    """Return our own modules that the workers of a plan will need, so that Ray preloads them.

    User modules are excluded: their content depends on the module search path, which Ray's
    processes do not have at their start.
    """
    own = [type(stage.stage).__module__ for stage in plan.stages if not stage.is_foreign]
    return list(dict.fromkeys([worker.__name__, ledger_actor.__name__, *own]))
