"""Work: chooses cuts by a trial, looks ahead in the listing, and processes sources."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial

from strandline.engine.core.ports import Control, Ending, Listing
from strandline.ledger.location import LedgerLocation
from strandline.ledger.writer.writer import LedgerWriter
from strandline.plan.pipeline import PipelinePlan
from strandline.run.attempt.engines import IN_DRIVER, make_engine, works_in_driver
from strandline.run.attempt.phases.look_ahead import look_ahead, pass_over
from strandline.run.attempt.phases.state import AttemptState, require
from strandline.run.attempt.sources.partitions import find_removed_folders
from strandline.run.revise.cuts.auto_cuts import AutoCuts, CutSettings, run_trial
from strandline.run.revise.cuts.plan import plan_cuts
from strandline.run.revise.dead_letters.rejoining import RejoiningWriter
from strandline.run.revise.redo import join_endings, show_whole
from strandline.run.revise.redoing import Redo, RedoingWriter
from strandline.storage.outputs.ports import OutputLocation


def try_cuts(state: AttemptState) -> AttemptState:
    """Choose the stages that keep a cut. If necessary, run a trial with a few sources.

    A retrial of dead letters keeps no cuts.

    Precondition: the schema is settled.
    """
    held = state.held
    settings = CutSettings() if state.is_retrial else state.config.cuts
    cuts = AutoCuts(state.plan, settings, held.folder, held.session.open, held.location)
    state = replace(state, cuts=cuts)

    def run(plan: PipelinePlan, listing: Listing) -> Ending:
        return run_engine(state, plan, listing, is_trial=True)

    trial = run_trial(cuts, state.list_sources, state.control.must_stop, run)
    return replace(state, trial=trial)


def look_at_listing(state: AttemptState) -> AttemptState:
    """Remove finished sources from the listing, and find out whether any source remains.

    A retrial always processes all its dead letters.

    Precondition: cuts are chosen.
    """
    if state.is_retrial:
        return state
    control, ledger = state.control, _locate_ledger(state)
    with state.held.session.open() as store:
        # The affinity counts usable cores, `cpu_count` all cores of the machine.
        cores, finished = len(os.sched_getaffinity(0)), store.count()["finished"]
        listing = pass_over(state.listing, ledger, finished, cores, control.now)
        if works_in_driver(state.config.engine):  # this engine starts fast, so do not look ahead
            return replace(state, listing=listing)
        listing, is_left = look_ahead(listing, store, control)
    return replace(state, listing=listing, is_left=is_left)


def work(state: AttemptState) -> AttemptState:
    """Process the listed sources.

    Precondition: cuts are chosen.
    """
    cuts, trial = require(state.cuts), state.trial
    plan = state.plan if state.is_retrial else plan_cuts(cuts.plan_chosen())
    ending = run_engine(state, plan, state.listing)
    return replace(state, ending=ending if trial is None else join_endings(ending, trial.ending))


def run_engine(
    state: AttemptState,
    plan: PipelinePlan,
    listing: Listing,
    redo: Redo | None = None,
    *,
    is_trial: bool = False,
) -> Ending:
    """Process a listing with the engine according to a plan, and close the listing.

    Args:
        redo: selects the finished sources to replace, or None to process unfinished sources.
        is_trial: whether the listing is the trial of cuts.
    """
    config, held, cuts = state.config, state.held, require(state.cuts)
    # Without work, avoid the seconds that Ray takes to start.
    is_idle = redo is None and not state.is_left
    chosen = replace(config, engine=IN_DRIVER) if is_idle else config
    engine = make_engine(chosen, _locate_outputs(state), held.session)
    ledger = replace(
        _locate_ledger(state, redo),
        room=cuts.measure_room(),
        worth=cuts.worth,
        is_trial=is_trial,
        trial=None if is_trial or state.trial is None else state.trial.trial,
    )
    with closing(listing):  # a thread may be reading the listing ahead
        return engine.run(plan, listing, ledger, _show_redone(state.control, redo))


def _show_redone(control: Control, redo: Redo | None) -> Control:
    if redo is None:
        return control
    report = control.report
    return replace(control, report=lambda progress: report(show_whole(progress, redo)))


def _locate_outputs(state: AttemptState) -> OutputLocation:
    held, is_on_driver = state.held, state.plan.output is None
    return OutputLocation(
        held.location, held.writer, held.folder.writers_lock, is_on_driver=is_on_driver
    )


def _choose_writer(state: AttemptState, redo: Redo | None) -> Callable[..., LedgerWriter] | None:
    """Return the constructor of a writer for finished sources, or None for the usual writer."""
    if state.config.dead_letters is not None:
        stale_cuts = [stage.name for stage in state.plan.stages]
        return partial(RejoiningWriter, state.config.dead_letters, stale_cuts)
    return None if redo is None else partial(RedoingWriter, redo)


def _locate_ledger(state: AttemptState, redo: Redo | None = None) -> LedgerLocation:
    config, plan, held = state.config, state.plan, state.held
    return LedgerLocation(
        held.folder.ledger,
        held.attempt,
        held.session.uid,
        _locate_outputs(state),
        plan.deletes_removed,
        config.quarantine.after,
        held.folder.shards if plan.gathering else None,
        deletes_within=find_removed_folders(state.source),
        part_suffix=state.source.part_suffix,
        tolerances=plan.tolerances,
        make_writer=_choose_writer(state, redo),
    )
