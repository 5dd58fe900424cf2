"""One attempt: take the folder over, run the engine, publish, say how it ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import islice

from strandline.engine.core.flow import FAILURES_KEPT
from strandline.engine.core.heartbeat import Heartbeat
from strandline.engine.core.ports import (
    Control,
    DepartureNotice,
    Ending,
    Leave,
    Listing,
    RunProgress,
)
from strandline.ledger.entries import FailureRecord
from strandline.ledger.lease import OnChange
from strandline.ledger.location import LedgerLocation, Redo
from strandline.ledger.output_root import publish_list
from strandline.ledger.store.rows import list_failures
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stage import SourceStage
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.engines import (
    IN_DRIVER,
    check_engine,
    make_engine,
    works_in_driver,
)
from strandline.run.attempt.failures import group_failures
from strandline.run.attempt.folder.takeover import TakenFolder, set_back_damage, take_over
from strandline.run.attempt.outcome import (
    AttemptResult,
    conclude_attempt,
    conclude_tracked,
    describe_error,
    describe_overrun,
    to_driver_outcome,
)
from strandline.run.attempt.phases.look_ahead import look_ahead, pass_over
from strandline.run.attempt.publishing.gatherer import make_gatherer, take_aside
from strandline.run.attempt.publishing.publisher import Publisher, report_publishing
from strandline.run.attempt.sources.partitions import find_removed_folders, open_source
from strandline.run.code.requirements import check_requirements
from strandline.run.history.records import Witness, find_progress
from strandline.run.history.sampling import Sampler
from strandline.run.history.table_columns import compare_columns
from strandline.run.lineage.reporting import Begin, reporting
from strandline.run.outputs.indexing import make_index
from strandline.run.outputs.rewriting import tidy_shared
from strandline.run.redo.auto_cuts import AutoCuts, Keeping, run_trial
from strandline.run.redo.cuts import plan_keeping
from strandline.run.redo.dead_letters.counts import expect_dead_letters
from strandline.run.redo.dead_letters.retrial import list_retried, plan_retrial
from strandline.run.redo.phases import RedoTools, join_endings, replace_older, show_whole
from strandline.run.schema_inference import settle_schema
from strandline.run.supervise.memory_kills import MemoryKills
from strandline.run.supervise.notices import NoticeFile
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.outputs import OutputLocation
from strandline.storage.outputs.ownership import read_owner, refuse_other
from strandline.storage.outputs.remote import open_outputs, resolve_location
from strandline.storage.volume.locks import hold_shared, release
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Checkpoint, Quarantine
from strandline_api.status.enums import Trigger

# Share of the grace period reserved for flushing, publishing, and process shutdown.
MARGIN_SHARE = 1 / 3
MARGIN_MOST = 10.0
# A node that goes gives its pods 15 s and less, and says nothing of it: where the pipeline asks for
# no time of its own, the last word is out by this many seconds after the request to stop.
PROMPT_SECONDS = 10.0
# Of these a local Ray and the processes take so much to end, and calls of which nobody knows how
# long they take are waited for so long.
ENDING_SECONDS = 2.5
# Finished sources of which the list is written in a fraction of a second, also after a stop.
LISTED_IN_HASTE = 20_000
UNKNOWN_SECONDS = 3.0


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
        """Return whether what is in flight is to be given up."""
        if not self._must_stop():
            return False
        if self._began is None:
            self._began = self._now()
        return self._now() - self._began >= self._working

    def find_leave(self) -> Leave:
        """Return until when what is in flight is waited for."""
        if self._began is None:
            return Leave()
        latest_at = self._began + self._working
        return Leave(min(latest_at, self._began + UNKNOWN_SECONDS), latest_at)


def find_period(checkpoint: Checkpoint) -> float:
    """Return the seconds that an attempt has from the request to stop to its last word."""
    period = checkpoint.grace_period_seconds
    is_asked_for = "grace_period" in checkpoint.model_fields_set
    return period if is_asked_for else min(period, PROMPT_SECONDS - ENDING_SECONDS)


_STDERR = 2


def run_attempt(
    config: AttemptConfig,
    must_stop: Callable[[], bool] = lambda: False,
    report: Callable[[RunProgress], None] = lambda _: None,
) -> AttemptResult:
    """Run a plan once, as far as it goes.

    Raises:
        SpecError, LedgerError, VolumeError and the rest of `errors.code_of`: the attempt could
            not begin or not go on; what is finished is kept.
    """
    check_engine(config)  # before anything is begun
    check_requirements(config.plan)
    kills = MemoryKills.of_this_process()
    grace = Grace(must_stop, find_period(config.checkpoint), time.monotonic)
    notes: list[str] = []
    control = Control(
        must_stop,
        lambda progress: report(progress._replace(notes=notes)),
        time.monotonic,
        must_leave=grace.is_over,
        find_leave=grace.find_leave,
        take_memory_kills=kills.take,
        note=notes.append,
        heartbeat=Heartbeat(time.monotonic, time.time, config.stall),
    )
    unreported: list[str] = []
    try:
        with control.heartbeat.beating():
            if config.volume is None:
                return _run_untracked(config, control)
            with reporting(
                config.plan, config.folder, config.engine, os.environ, unreported.append
            ) as begin:
                outcome = _run_tracked(config.count_by_source(), control, kills, begin)
            return replace(outcome, incidents=(*outcome.incidents, *unreported))
    finally:
        kills.close()


def _run_untracked(config: AttemptConfig, control: Control) -> AttemptResult:
    if config.publishing is not None:
        message = "requires something of a ledger, and this run keeps none"
        raise SpecError((Problem("spec.publish", message, "name a volume"),))
    begun, plan = time.monotonic(), config.plan
    source, listing = open_source(plan)
    location = _require_output(plan)
    control = replace(control, overrun=partial(_leave_call, None))
    refuse_other(location, read_owner(location), None)
    if plan.gathering:
        ending = _run_aside(config, (source, listing), control, location)
    else:
        settled = _settle_schema(config, control, None)
        ending = make_engine(config, OutputLocation(location)).run(settled, listing, None, control)
    dead = sum(each.dead for each in ending.counts.values())
    outcome = conclude_attempt(config, source, ending, was_stopped=control.must_stop(), dead=dead)
    failures = [FailureRecord(each.key, 0, each.stage, each.message, 1) for each in ending.failures]
    return replace(
        outcome,
        output=location,
        seconds=time.monotonic() - begun,
        failures=tuple(failures),
        failure_groups=group_failures(failures),
    )


def _run_aside(
    config: AttemptConfig, lists: tuple[SourceStage, Listing], control: Control, location: str
) -> Ending:
    """Run with a ledger that is gone in the end, and leave the artifacts beside the output."""
    config = replace(config, quarantine=Quarantine())
    with take_aside(location, control.heartbeat) as held:
        gatherer = make_gatherer(config.plan, held, control.heartbeat, control.note)
        ending = _run_engine(config, lists, control, held)
        gatherer.gather(is_whole=True)
        gatherer.put_beside(location)
        gatherer.check()
    return ending


def _run_tracked(
    config: AttemptConfig, control: Control, kills: MemoryKills, begin: Begin
) -> AttemptResult:
    begun, killed = time.monotonic(), kills.count()
    source, listing = open_source(config.plan, config.volume, is_run=True)
    with (
        take_over(config, control.heartbeat) as held,
        control.heartbeat.showing(held.inflight.show_work),
    ):
        begin(held.attempt, held.location)
        gatherer = make_gatherer(config.plan, held, control.heartbeat, control.note)
        try:
            publisher = Publisher(config, held, gatherer, time.monotonic, time.time)
            sampler = Sampler(held.folder, held.attempt, time.monotonic, time.time)
            report = report_publishing(control.report, publisher, sampler)
            watched = replace(
                control,
                report=report,
                inflight=held.inflight,
                overrun=partial(_leave_call, held),
                read_notices=partial(_read_notices, NoticeFile(held.folder.notices)),
            )
            with closing(gatherer):
                if config.trigger is Trigger.REPAIR:
                    control.note(_repair(held, control))
                lists = source, listing
                ending = _run_engine(config, lists, watched, held)
            sampler.take(ending.standing.finished, ending.counts)
            with held.session.open() as store:
                was_stopped = control.must_stop()
                outcome = conclude_tracked(config, source, ending, store, was_stopped=was_stopped)
                # An attempt that has to stop has little time; the next one tidies up.
                is_stopped = control.must_stop()
                notes = [] if is_stopped else _tidy(config.plan, store, held, control)
                gatherer.gather(is_whole=not is_stopped, is_brief=is_stopped)
                if not is_stopped or store.count()["finished"] <= LISTED_IN_HASTE:
                    with control.heartbeat.trusting():
                        index = make_index(config.plan.sink, held.location)
                        notes += publish_list(store, held.location, held.attempt, index)
                outcome = replace(
                    outcome,
                    incidents=(*outcome.incidents, *notes),
                    attempt=held.attempt,
                    output=held.location,
                    seconds=time.monotonic() - begun,
                    remaining=find_progress(store, held.attempt).remaining,
                    failures=tuple(islice(list_failures(store, held.attempt), FAILURES_KEPT)),
                    failure_groups=group_failures(list_failures(store, held.attempt)),
                )
                outcome = publisher.publish_end(outcome, store)
            gatherer.check()
            outcome = _deliver(config, control, held, outcome)
        except BaseException as error:
            with suppress(VolumeError):
                held.end(describe_error(error, held.attempt, kills.count() - killed))
            raise
        held.end(to_driver_outcome(outcome, kills.count() - killed))
    return outcome


def _deliver(
    config: AttemptConfig, control: Control, held: TakenFolder, outcome: AttemptResult
) -> AttemptResult:
    """Hand over what a complete run has left, where the pipeline names a target."""
    if config.deliver is None or outcome.code is not ExitCode.COMPLETE:
        return outcome
    with control.heartbeat.trusting():
        where = config.deliver(held.session)
    return replace(outcome, message=f"{outcome.message}; {where}")


def _read_notices(file: NoticeFile) -> list[DepartureNotice]:
    return [DepartureNotice(*notice) for notice in file.read()]


def _repair(held: TakenFolder, control: Control) -> str:
    """Set back what is missing or hurt, before anything is listed; what was found, in words."""
    with held.session.open() as store, control.heartbeat.trusting():
        damage = set_back_damage(store, held.folder, held.location)
    return f"repair: {len(damage.again)} finished sources are done again"


def _tidy(plan: PipelinePlan, store: Store, held: TakenFolder, control: Control) -> list[str]:
    """Leave nothing in files that sources share but rows of finished sources.

    Returns:
        Incidents: what could not be tidied, and columns of a table that changed.
    """
    sink = plan.stages[-1]
    outputs = open_outputs(held.location, f"{held.writer}-{os.getpid()}")
    lock = hold_shared(held.folder.writers_lock)
    try:
        with control.heartbeat.trusting():  # how far a sink is with a file it can't say
            work = control.heartbeat.note_progress
            shared = tidy_shared(store, outputs, sink, work, control.must_stop)
            return [*shared, *compare_columns(plan.source.stage, store)]
    finally:
        release(lock)


def _leave_call(held: TakenFolder | None, message: str) -> None:
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


def _show_redone(control: Control, redo: Redo | None) -> Control:
    if redo is None:
        return control
    report = control.report
    return replace(control, report=lambda progress: report(show_whole(progress, redo)))


def _require_output(plan: PipelinePlan) -> str:
    if plan.output is not None:
        return resolve_location(plan.output)
    sink = plan.stages[-1]
    if "path" in type(sink.stage.params).model_fields:
        message = "required where there is no volume to write to"
        hint = "or call `run` with a `checkpoint_path`"
        raise SpecError((Problem("spec.sink.with.path", message, hint),))
    # A sink of one's own can't be told where to: it writes to the volume.
    message = f"required, since the sink {sink.name!r} has no parameter `path`"
    hint = "its outputs go to that folder"
    raise SpecError((Problem("checkpoint_path", message, hint),))


def _settle_schema(config: AttemptConfig, control: Control, store: Store | None) -> PipelinePlan:
    """Return the plan with the schema that its reader is to infer; work of its own is done."""

    def list_sources() -> Listing:
        return open_source(config.plan, config.volume, is_run=True)[1]

    def must_stop() -> bool:
        control.heartbeat.note_progress()
        return control.must_stop()

    renews = config.on_change is OnChange.REDO
    return settle_schema(config.plan, store, list_sources, control.note, must_stop, renews=renews)


def _run_engine(
    config: AttemptConfig,
    lists: tuple[SourceStage, Listing],
    control: Control,
    held: TakenFolder,
) -> Ending:
    (source, listing), folder = lists, held.folder
    is_left = True
    with held.session.open() as store:
        if any(stage.on_error == "deadLetter" for stage in config.plan.stages):
            expect_dead_letters(store)
        if config.dead_letters is None:
            plan = settled = _settle_schema(config, control, store)
        else:
            plan = plan_retrial(config.plan, config.dead_letters)
            mixes = config.on_change is OnChange.CONTINUE
            note = control.note
            listing = list_retried(store, held.location, config.dead_letters, note, mixes=mixes)
    outputs = OutputLocation(
        held.location, held.writer, folder.writers_lock, is_on_driver=plan.output is None
    )
    ledger = _locate_ledger(config, plan, held, source, outputs)
    keeping = Keeping() if config.dead_letters is not None else config.keeping
    cuts = AutoCuts(plan, keeping, held.folder, held.session.open, held.location)

    def run_phase(plan: PipelinePlan, listing: Listing, redo: Redo | None = None) -> Ending:
        is_idle = redo is None and not is_left
        # Ray would be started for seconds, to be told that there is nothing to do.
        chosen = replace(config, engine=IN_DRIVER) if is_idle else config
        engine = make_engine(chosen, outputs, held.session)
        bounded = replace(ledger, redo=redo, room=cuts.measure_room(), worth=cuts.worth)
        with closing(listing):  # which is drawn on, also where an engine does not even start
            return engine.run(plan, listing, bounded, _show_redone(control, redo))

    def list_sources() -> Listing:
        return open_source(config.plan, config.volume, is_run=True)[1]

    plain, ledger = ledger, replace(ledger, is_trial=True)
    tried = run_trial(cuts, list_sources, control.must_stop, run_phase)
    ledger = replace(plain, trial=None if tried is None else tried.trial)
    if config.dead_letters is None:  # a listing of these has nothing but what is left to do
        plan = plan_keeping(cuts.plan_chosen())
        with held.session.open() as store:
            cores, finished = len(os.sched_getaffinity(0)), store.count()["finished"]
            listing = pass_over(listing, ledger, finished, cores, control.now)
            if not works_in_driver(config.engine):
                listing, is_left = look_ahead(listing, store, control)
    ending = run_phase(plan, listing)
    ending = ending if tried is None else join_endings(ending, tried.ending)
    if config.on_change is not OnChange.REDO or config.dead_letters is not None:
        return ending
    asks = control.must_stop, control.note
    tools = RedoTools(held.session.open, list_sources, held.location, run_phase, *asks, cuts)
    return replace_older(settled, ending, tools)


def _locate_ledger(
    config: AttemptConfig,
    plan: PipelinePlan,
    held: TakenFolder,
    source: SourceStage,
    outputs: OutputLocation,
) -> LedgerLocation:
    folder = held.folder
    return LedgerLocation(
        folder.ledger,
        held.attempt,
        held.session.uid,
        outputs,
        plan.deletes_removed,
        config.quarantine.after,
        folder.shards if plan.gathering else None,
        deletes_within=find_removed_folders(source),
        part_suffix=source.part_suffix,
        tolerances=plan.tolerances,
        rejoins=config.dead_letters,
        stale_cuts=tuple(stage.name for stage in plan.stages) if config.dead_letters else (),
    )
