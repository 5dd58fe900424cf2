"""One attempt: take the folder over, run the engine, publish, say how it ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from strandline.engine.core.heartbeat import Heart
from strandline.engine.core.pools import RayOptions
from strandline.engine.core.ports import Control, Ending, KeeperLedger, Listing, NoLedger, Progress
from strandline.engine.inline import run_inline
from strandline.ledger.gather.pieces import Shelf
from strandline.ledger.keeper import Keeper
from strandline.ledger.lease import OnChange
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Counts
from strandline.plan.stage import SourceStage
from strandline.run.attempt.engines import check_engine, dump_as_ray_does, find_ray_engine
from strandline.run.attempt.gather import Gatherer, held_aside, make_gatherer
from strandline.run.attempt.outcome import (
    Outcome,
    describe_error,
    describe_overrun,
    judge,
    to_driver_outcome,
)
from strandline.run.attempt.partitions import open_source
from strandline.run.attempt.publishing import Publisher, make_publisher
from strandline.run.attempt.takeover import Approach, Held, opened, take_over
from strandline.run.code.requirements import check_requirements
from strandline.run.history.records import Trigger, Witness, find_progress
from strandline.run.history.sampling import Sampler
from strandline.run.supervise.memory_kills import MemoryKills
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.ownership import read_owner, refuse_other
from strandline.storage.outputs.remote import open_outputs, resolve_place
from strandline.storage.volume.locks import hold_shared
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Checkpoint, Quarantine

# Of the grace period so much is left for flushing, publishing and the end of processes.
MARGIN_SHARE = 1 / 3
MARGIN_MOST = 10.0


class Grace:
    """Counts from the moment at which it first sees that a stop is asked for.

    Args:
        must_stop: asks.
        period: seconds until whoever asked may use force.
        now: seconds from any fixed point.
    """

    def __init__(
        self, must_stop: Callable[[], bool], period: float, now: Callable[[], float]
    ) -> None:
        self._must_stop = must_stop
        self._working = period - min(MARGIN_MOST, period * MARGIN_SHARE)
        self._now = now
        self._began: float | None = None

    def is_over(self) -> bool:
        """True once what is in flight is to be given up."""
        if not self._must_stop():
            return False
        if self._began is None:
            self._began = self._now()
        return self._now() - self._began >= self._working


_STDERR = 2


@dataclass(frozen=True, slots=True)
class Options:
    """How to run, as opposed to what.

    Attributes:
        volume: folder that holds ledger and attempts; None: no ledger, nothing is tracked.
        engine: one of `engines.ENGINES`.
        address: of an existing Ray cluster; None starts a local one.
        workers: workers of the local Ray, None: one a core.
        on_change: what to do when the pipeline has changed.
        quarantine, checkpoint: as the pipeline says.
        trigger, after, parent: see `Approach`.
        stall: seconds without a sign of life after which it counts as dead; None: any number.
    """

    volume: Path | None
    engine: str = "ray"
    address: str | None = None
    workers: int | None = None
    on_change: OnChange = OnChange.FAIL
    quarantine: Quarantine = field(default_factory=Quarantine)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    trigger: Trigger = Trigger.RUN
    after: Cause | None = None
    parent: int | None = None
    stall: float | None = None


def run_attempt(
    plan: PipelinePlan,
    options: Options,
    must_stop: Callable[[], bool] = lambda: False,
    report: Callable[[Progress], None] = lambda _: None,
) -> Outcome:
    """Run a plan once, as far as it goes.

    Raises:
        SpecError, LedgerError, VolumeError and the rest of `errors.code_of`: the attempt could
            not begin or not go on; what is finished is kept.
    """
    check_engine(options.engine, plan, options.address)  # before anything is begun
    check_requirements(plan)
    kills = MemoryKills.of_this_process()
    grace = Grace(must_stop, options.checkpoint.grace_period_seconds, time.monotonic)
    control = Control(
        must_stop,
        report,
        time.monotonic,
        must_leave=grace.is_over,
        take_memory_kills=kills.take,
        heart=Heart(time.monotonic, options.stall),
    )
    try:
        with control.heart.beating():
            if options.volume is None:
                return _run_untracked(plan, options, control)
            return _run_tracked(plan, options, options.volume, control, kills)
    finally:
        kills.close()


def _run_untracked(plan: PipelinePlan, options: Options, control: Control) -> Outcome:
    begun = time.monotonic()
    source, listing = open_source(plan)
    place = _require_output(plan)
    control = replace(control, overrun=partial(_leave_call, None))
    refuse_other(place, read_owner(place), None)
    if plan.gathering:
        ending = _run_aside(plan, listing, options, control, place)
    elif options.engine == "inline":
        outputs = open_outputs(place)
        ending = run_inline(plan, listing, NoLedger(), outputs, control, dump_as_ray_does)
    else:
        ray_options = RayOptions(options.address, options.workers, place)
        ending = find_ray_engine(options.engine)(plan, listing, None, ray_options, control)
    outcome = _conclude(plan, source, ending, options, control)
    return replace(outcome, output=place, seconds=time.monotonic() - begun)


def _run_aside(
    plan: PipelinePlan, listing: Listing, options: Options, control: Control, place: str
) -> Ending:
    """Run with a ledger that is gone in the end, and leave the artifacts beside the output."""
    options = replace(options, quarantine=Quarantine())
    with held_aside(place) as held:
        gatherer = make_gatherer(plan, held, control.heart, control.notes.append)
        ending = _run_engine(plan, listing, options, control, held, gatherer)
        gatherer.gather(is_whole=True)
        gatherer.put_beside(place)
        gatherer.check()
    return ending


def _run_tracked(
    plan: PipelinePlan, options: Options, volume: Path, control: Control, kills: MemoryKills
) -> Outcome:
    begun, killed = time.monotonic(), kills.count()
    source, listing = open_source(plan)
    if options.checkpoint.source_metrics:
        plan = replace(plan, stages=tuple(replace(one, is_metered=True) for one in plan.stages))
    folder = PipelineFolder.of(volume, plan.namespace, plan.name)
    approach = Approach(
        options.on_change,
        options.trigger,
        options.after,
        options.parent,
        options.quarantine.after,
    )
    with (
        take_over(plan, folder, approach, control.heart) as held,
        control.heart.showing(held.inflight.show_work),
    ):
        gatherer = make_gatherer(plan, held, control.heart, control.notes.append)
        try:
            publisher = make_publisher(
                plan, options.checkpoint, held, gatherer, time.monotonic, time.time
            )
            sampler = Sampler(folder, held.attempt, time.monotonic, time.time)
            report = _keep_too(control.report, publisher, sampler)
            watched = replace(
                control, report=report, inflight=held.inflight, overrun=partial(_leave_call, held)
            )
            with closing(gatherer):
                ending = _run_engine(plan, listing, options, watched, held, gatherer)
            sampler.take(ending.standing.finished, ending.counts)
            outcome = _conclude(plan, source, ending, options, control)
            with _renewed(held, gatherer, control.heart) as store:
                # What is told to stop has little time; the next attempt puts all in order.
                is_stopped = control.must_stop()
                gatherer.gather(is_whole=not is_stopped, is_brief=is_stopped)
                outcome = replace(
                    outcome,
                    attempt=held.attempt,
                    output=held.place,
                    seconds=time.monotonic() - begun,
                    remaining=find_progress(store, held.attempt).remaining,
                )
                publisher.publish(outcome.to_json()["sources"], outcome.counts, is_final=True)
            gatherer.check()
        except BaseException as error:
            with suppress(VolumeError):
                held.end(describe_error(error, held.attempt, kills.count() - killed))
            raise
        held.end(to_driver_outcome(outcome, kills.count() - killed))
    return outcome


@contextmanager
def _renewed(held: Held, gatherer: Gatherer, heart: Heart) -> Iterator[Store]:
    """The ledger after the engine has ended, its lease renewed for as long as the rest takes."""
    with opened(held.folder) as store, gatherer.sharing(store):
        store.keep_lease(held.attempt, held.uid)
        with heart.renewing(lambda: store.beat(time.time())):
            yield store


def _leave_call(held: Held | None, message: str) -> None:
    """End this process with the call that hangs in it: nothing else can end that.

    What was in flight stays marked, so that the next attempt knows whom to suspect.
    """
    if held is not None:
        with suppress(VolumeError):
            outcome = describe_overrun(message, held.attempt)
            held.end(outcome, Witness.SUPERVISOR)
    with suppress(OSError):
        os.write(_STDERR, f"strandline: error: {message}\n".encode(errors="backslashreplace"))
    os._exit(int(ExitCode.APPLICATION_ERROR))


def _conclude(
    plan: PipelinePlan, source: SourceStage, ending: Ending, options: Options, control: Control
) -> Outcome:
    code, message = judge(ending, was_stopped=control.must_stop(), quarantine=options.quarantine)
    listed = Counts(tasks_out=ending.listed, counters=source.counters)
    evidence = tuple(
        Evidence(
            Cause.OOM_KILLED,
            f"workers of stage {stage!r} were killed for memory",
            "ray",
            {"stage": stage},
        )
        for stage in dict.fromkeys(control.memory_failures)
    )
    return Outcome(
        code=code,
        message=message,
        total=ending.listed if ending.is_listed else None,
        standing=ending.standing,
        counts={plan.source.name: listed, **ending.counts},
        incidents=tuple(ending.incidents),
        evidence=evidence,
        pools=ending.pools,
    )


def _keep_too(
    report: Callable[[Progress], None], publisher: Publisher, sampler: Sampler
) -> Callable[[Progress], None]:
    """A report that also takes samples and publishes, every so often."""

    def report_and_keep(progress: Progress) -> None:
        report(progress)
        sampler.report(progress)
        counts = {queue.name: queue.counts for queue in progress.flow.queues}
        publisher.publish_due(lambda: _spell_sources(progress), counts)

    return report_and_keep


def _spell_sources(progress: Progress) -> dict[str, Any]:
    """How the sources stand in the middle of an attempt; finished ones as the ledger says."""
    return {
        "total": progress.listed if progress.is_listed else None,
        "finished": progress.finished,
        "failed": len(progress.flow.failed),
        "skipped": progress.skipped,
    }


def _require_output(plan: PipelinePlan) -> str:
    if plan.output is None:
        problem = Problem("spec.sink.with.path", "required where there is no volume to write to")
        raise SpecError((problem,))
    return resolve_place(plan.output)


def _run_engine(
    plan: PipelinePlan,
    listing: Listing,
    options: Options,
    control: Control,
    held: Held,
    gatherer: Gatherer,
) -> Ending:
    if options.engine == "inline":
        return _run_inline(plan, listing, options, control, held, gatherer)
    from strandline.engine.ray.ledger_actor import LedgerPlace  # noqa: PLC0415 - `inline` needs no Ray

    ledger = LedgerPlace(
        held.folder.ledger,
        held.attempt,
        held.uid,
        held.place,
        plan.deletes_removed,
        options.quarantine.after,
        held.folder.shards if plan.gathering else None,
        held.folder.writers_lock,
    )
    ray_options = RayOptions(
        options.address,
        options.workers,
        held.place,
        writer=held.writer,
        writers_lock=held.folder.writers_lock,
        keeps_sinks=plan.output is None,
    )
    return find_ray_engine(options.engine)(plan, listing, ledger, ray_options, control)


def _run_inline(
    plan: PipelinePlan,
    listing: Listing,
    options: Options,
    control: Control,
    held: Held,
    gatherer: Gatherer,
) -> Ending:
    writer = hold_shared(held.folder.writers_lock)
    outputs = open_outputs(held.place, held.writer)
    shelf = Shelf(held.folder.shards, held.attempt)
    try:
        with closing(shelf), opened(held.folder) as store, gatherer.sharing(store):
            store.keep_lease(held.attempt, held.uid)
            keeper = Keeper(
                store,
                outputs,
                held.attempt,
                time.monotonic,
                quarantine_after=options.quarantine.after,
                deletes_vanished=plan.deletes_removed,
                shelf=shelf if plan.gathering else None,
            )
            keeper.work = control.heart.work
            ledger = KeeperLedger(keeper, time.time)
            return run_inline(plan, listing, ledger, outputs, control, dump_as_ray_does)
    finally:
        os.close(writer)
