"""The loop of a run: runs the transport's turns, reports progress, and ends the run.

All engines use this loop. The module must not depend on the process in which a stage works.
"""

from __future__ import annotations

from strandline.engine.core.ports import Ending, RunProgress, conclude
from strandline.engine.loop.transport import RunState, Transport


class EngineLoop:
    """Runs every source that the ledger releases, until all are finished or a stop is requested."""

    def __init__(self, state: RunState, transport: Transport) -> None:
        self._state = state
        self._flow = state.flow
        self._control = state.control
        self._transport = transport

    def run(self) -> Ending:
        """See `Engine.run`; the caller closes the transport."""
        while not self._is_done():
            self._begin_turn()
            if self._flow.is_stopped and self._transport.must_leave():
                break
            self._transport.turn()
        return self._end()

    def _is_done(self) -> bool:
        if self._transport.has_calls():
            return False
        if self._flow.is_stopped:
            # Wait only for tasks that fill a file: a stopped run does not queue any other results.
            return not (self._flow.fills_files and self._transport.can_write())
        is_over = self._state.listing.is_ended and self._flow.is_idle()
        return is_over and not self._flow.suspects and not self._transport.holds_work()

    def _begin_turn(self) -> None:
        """Record a heartbeat, report progress, and stop the flow if a stop is requested."""
        self._control.heartbeat.note_progress()
        self._report()
        if self._control.must_stop() and not self._flow.is_stopped:
            self._flow.stop()

    def _report(self) -> None:
        state, transport = self._state, self._transport
        self._control.report(
            RunProgress(
                state.flow,
                state.listing.listed,
                state.admission.skipped,
                state.ledger.count_finished(),
                state.listing.is_ended,
                state.incidents.sentences,
                transport.list_pools,
                transport.find_bottleneck(),
                dashboard=transport.dashboard,
                quarantined=state.admission.quarantined,
                leaving=transport.count_leaving(),
                measure_work=transport.measure_work,
            )
        )

    def _end(self) -> Ending:
        if self._flow.is_stopped:  # the next attempt repeats the unfinished sources
            self._transport.lose_rest()
        self._report()  # includes the last turn
        state, transport = self._state, self._transport
        died, failed = transport.has_losses(), len(self._flow.failed)
        standing = state.ledger.conclude(state.listing, failed, anything_died=died)
        pools, work = transport.list_pools(), transport.measure_work()
        return conclude(standing, self._flow, state.listing, pools, state.incidents, work)
