"""Replaces finished sources of older recipes in phases, after all other sources are done.

Sources with the latest starting point come first. If the cut of a source is damaged, the source
loses the cut and gets an earlier starting point, so it belongs to a later phase. The caller passes
a function that runs a phase on an engine.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from strandline.engine.core.ports import Ending, Listing, RunProgress
from strandline.ledger.records.entries import SETTLED, Change, FinishedEntry, SourceRecord, Standing
from strandline.ledger.store.recipes import read_recipes
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import mark_streaming
from strandline.plan.receipt import StageCounts
from strandline.run.revise.cuts.auto_cuts import TRIAL_SOURCES, AutoCuts
from strandline.run.revise.cuts.plan import add_cuts, plan_cuts
from strandline.run.revise.listing import (
    RedoListing,
    RedoStarts,
    Survey,
    describe_redo,
    read_starts,
)
from strandline.run.revise.redoing import READING, Redo
from strandline.run.revise.starts.rules import RULES, describe_start
from strandline.run.revise.starts.start import Start

Run = Callable[[PipelinePlan, Listing, Redo], Ending]


class RedoTools(NamedTuple):
    """The functions and settings of an attempt that the phases use.

    Attributes:
        open_store: opens the ledger for reading.
        list_sources: starts a new listing of all sources.
        location: folder or URL of the outputs.
        run: runs a phase.
        must_stop: returns whether no further phase may start.
        note: receives a sentence for each phase.
        cuts: decides which cuts are kept.
    """

    open_store: Callable[[], AbstractContextManager[Store]]
    list_sources: Callable[[], Listing]
    location: str
    run: Run
    must_stop: Callable[[], bool]
    note: Callable[[str], None]
    cuts: AutoCuts


def replace_older(plan: PipelinePlan, before: Ending, tools: RedoTools) -> Ending:
    """Replace finished sources of older recipes, and return the ending of the whole attempt.

    Args:
        before: ending of the work on all other sources.
    """
    with tools.open_store() as store:
        starts = read_starts(store, plan)
        look = None if starts is None else starts.survey(store)
        progress = store.read_meta("progress") or {}
    if starts is None or look is None or not (look.total or look.refused):
        return before
    starts, look = _leave_out_missing(plan, starts, look, tools)
    remaining = progress.get("remaining")
    remaining = None if remaining is None else remaining + look.total
    total, reason = look.total, describe_redo(look)
    ending, tried = _count_refused(before, look)._replace(redone=total), set[Start]()
    # Begin with the latest starting point. A source that loses a damaged cut gets an earlier
    # starting point, whose phase follows.
    while left := look.starts.keys() - tried:
        if tools.must_stop():
            return ending._replace(is_listed=False)
        start = max(left, key=starts.rank)
        is_trial = tools.cuts.needs_trial
        listed = tools.list_sources()
        listing = RedoListing(plan, listed, tools.open_store, starts, start, tools.location)
        # A trial covers only a few sources, so the other sources with this starting point follow.
        if is_trial:
            listing.limit(TRIAL_SOURCES)
        else:
            tried.add(start)
        if not listing.has_any():
            tried.add(start)
            listing.close()
            continue
        tools.note(f"redo: sources of an older recipe are replaced, {describe_start(start)}")
        standing = ending.standing
        redo = Redo(
            starts.list_above(start),
            bool(start.rule) and not RULES[start.rule].reads_cut,
            standing.finished,
            remaining,
            total,
            reason,
            listed=ending.listed,
            skipped=max(0, standing.skipped - look.total),
            quarantined=standing.quarantined,
            failed=standing.failed,
        )
        chosen = tools.cuts.plan_trial() if is_trial else tools.cuts.plan_chosen()
        ran = tools.run(plan_from(chosen, start), listing, redo)
        ending = join_endings(ending, ran)
        if is_trial:
            tools.cuts.learn(ran)
        starts, look = _survey(plan, tools)
    with tools.open_store() as store:
        store.write(Change(meta={SETTLED: read_recipes(store)[-1].since}))
    return _add_leftover(ending, look.total + look.refused)


def _leave_out_missing(
    plan: PipelinePlan, starts: RedoStarts, look: Survey, tools: RedoTools
) -> tuple[RedoStarts, Survey]:
    """Find the starting points again after excluding files that are missing.

    Without this step, many missing files, such as a removed folder, would make the stage that reads
    them look broken.
    """
    for name, rule in RULES.items():
        if any(start.rule == name for start in look.starts):
            with tools.open_store() as store:
                rule.note_missing(store, tools.location, partial(_starts_by, starts, name))
            # A source without these files may get a starting point from the next rule.
            starts, look = _survey(plan, tools)
    return starts, look


def _starts_by(
    starts: RedoStarts, rule: str, source: bytes, entry: FinishedEntry, record: SourceRecord
) -> bool:
    return starts.is_due(entry) and starts.find(source, entry, record).rule == rule


def _survey(plan: PipelinePlan, tools: RedoTools) -> tuple[RedoStarts, Survey]:
    with tools.open_store() as store:
        starts = read_starts(store, plan)
        assert starts is not None  # a ledger's recipes do not change during an attempt
        return starts, starts.survey(store)


def show_whole(progress: RunProgress, redo: Redo) -> RunProgress:
    """Return the progress of the whole attempt, given the progress of a phase."""
    return progress._replace(
        listed=redo.listed,
        is_listed=True,
        finished=redo.finished + progress.finished,
        skipped=redo.skipped,
        quarantined=redo.quarantined + progress.quarantined,
        redone=redo.total,
        redo_reason=redo.reason,
        failed_before=redo.failed,
    )


def _add_leftover(ending: Ending, number: int) -> Ending:
    if not number:
        return ending
    # Sources keep an old recipe if they failed, are quarantined, or are no longer listed.
    sentence = f"redo: {number} sources keep the output of an older recipe"
    return ending._replace(incidents=[*ending.incidents, sentence])


def _count_refused(ending: Ending, look: Survey) -> Ending:
    """Count quarantined sources, which are not replaced, as quarantined instead of skipped."""
    standing = ending.standing
    moved = standing._replace(
        skipped=standing.skipped - look.refused, quarantined=standing.quarantined + look.refused
    )
    return ending._replace(standing=moved)


def join_endings(before: Ending, redone: Ending) -> Ending:
    """Join two endings. The first ending counts the sources of the second ending as skipped."""
    counts: dict[str, StageCounts] = {}
    for part in (before.counts, redone.counts):
        for stage, more in part.items():
            counts.setdefault(stage, StageCounts()).add(more)
    return before._replace(
        standing=_join_standings(before.standing, redone.standing),
        counts=counts,
        is_listed=before.is_listed and redone.is_listed,
        incidents=[*before.incidents, *redone.incidents],
        pools={**redone.pools, **before.pools},
        failures=(*before.failures, *redone.failures),
        work=before.work._replace(worked=before.work.worked + redone.work.worked),
        memory_failures=(*before.memory_failures, *redone.memory_failures),
    )


def _join_standings(before: Standing, redone: Standing) -> Standing:
    tried = redone.finished + redone.failed + redone.unfinished + redone.quarantined
    return Standing(
        before.finished + redone.finished,
        before.skipped - tried,
        before.failed + redone.failed,
        before.unfinished + redone.unfinished,
        before.removed,
        before.quarantined + redone.quarantined,
    )


def plan_from(plan: PipelinePlan, start: Start) -> PipelinePlan:
    """Return the plan of the stages after a starting point."""
    if start.after is None:
        return plan_cuts(plan)
    names = [stage.name for stage in plan.stages]
    reader = RULES[start.rule].open_reader(plan, start)
    reading = StagePlan(READING, READING, reader, stores=plan.stages[0].stores)
    below = (reading, *add_cuts(plan.stages[names.index(start.after) + 1 :]))
    return replace(plan, stages=tuple(mark_streaming(below)))
