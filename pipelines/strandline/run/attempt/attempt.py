"""Runs one attempt: takes the folder over, runs the phases, and records how the attempt ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

from strandline.engine.core.ports import Control, RunProgress
from strandline.plan.pipeline import PipelinePlan
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.control import attach_folder, make_control
from strandline.run.attempt.engines import IN_DRIVER, check_engine
from strandline.run.attempt.folder.sampler import Sampler
from strandline.run.attempt.folder.takeover import TakenFolder, take_over
from strandline.run.attempt.outcome import AttemptResult, describe_error, to_driver_outcome
from strandline.run.attempt.phases.order import CLOSING, WORKING, advance
from strandline.run.attempt.phases.publication import deliver
from strandline.run.attempt.phases.publisher import Publisher, report_publishing
from strandline.run.attempt.phases.state import AttemptState, require
from strandline.run.attempt.sources.partitions import open_source
from strandline.run.attempt.untracked import run_untracked
from strandline.run.code.requirements import check_requirements
from strandline.run.insight.lineage.reporting import Begin, reporting
from strandline.run.insight.memory_kills import MemoryKills
from strandline.run.release.gatherer import Gatherer
from strandline.storage.errors import VolumeError


def run_attempt(
    config: AttemptConfig,
    must_stop: Callable[[], bool] = lambda: False,
    report: Callable[[RunProgress], None] = lambda _: None,
) -> AttemptResult:
    """Run a plan once, until all work is done or the attempt has to end.

    Raises:
        SpecError, LedgerError, VolumeError, and the other errors that `errors.code_of` maps: the
            attempt could not start or continue. Finished sources are kept.
    """
    check_engine(config)  # fail before anything starts
    check_requirements(config.plan)
    unreported: list[str] = []
    with closing(MemoryKills.of_this_process()) as kills:
        control = make_control(config, must_stop, report, kills)
        with control.heartbeat.beating():
            if config.volume is None:
                return run_untracked(config, control)
            with reporting(
                config.plan, config.folder, config.engine, os.environ, unreported.append
            ) as begin:
                result = _run_tracked(config.count_by_source(), control, kills, begin)
    return replace(result, incidents=(*result.incidents, *unreported))


def run_here(plan: PipelinePlan) -> AttemptResult:
    """Run a plan in this process, without a ledger."""
    return run_attempt(AttemptConfig(plan, None, engine=IN_DRIVER))


def _run_tracked(
    config: AttemptConfig, control: Control, kills: MemoryKills, begin: Begin
) -> AttemptResult:
    start = control.now()
    source, listing = open_source(config.plan, config.volume, is_run=True)
    with (
        take_over(config, control.heartbeat) as held,
        control.heartbeat.showing(held.inflight.show_work),
    ):
        begin(held.attempt, held.location)
        gatherer = Gatherer(
            held.folder, config.plan.gathering, held.session, control.heartbeat, control.note
        )
        with _recording_errors(held, kills.count):
            publisher = Publisher(config, held, gatherer, control.now, time.time)
            sampler = Sampler(held.folder, held.attempt, control.now, time.time)
            report = report_publishing(control.report, publisher, sampler)
            control = attach_folder(control, held, report)
            lists = source, listing
            state = AttemptState(config, control, start, *lists, held, gatherer, config.plan)
            result = _go_through(replace(state, publisher=publisher), sampler)
        held.end(to_driver_outcome(result, kills.count()))
    return result


def _go_through(state: AttemptState, sampler: Sampler) -> AttemptResult:
    with closing(state.gatherer):
        state = advance(state, WORKING)
    ending = require(state.ending)
    sampler.take(ending.standing.finished, ending.counts)
    with state.held.session.open():
        state = advance(state, CLOSING)
    return require(deliver(state).result)


@contextmanager
def _recording_errors(held: TakenFolder, count_kills: Callable[[], int]) -> Iterator[None]:
    """Record the outcome if an error ends the attempt."""
    try:
        yield
    except BaseException as error:
        # If the record can't be written either, raise the original error, which matters more.
        with suppress(VolumeError):
            held.end(describe_error(error, held.attempt, count_kills()))
        raise
