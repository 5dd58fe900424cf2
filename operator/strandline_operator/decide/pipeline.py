"""Runs one pass over a pipeline: selects the deciders that apply, and calls them in order.

All state that must survive the operator is in the statuses. The status records the time of a due
attempt before its object exists, and the object's name derives from its number, so a pass can be
interrupted anywhere and repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from strandline_api.api_model import evolve
from strandline_api.objects.pipeline import PipelineSpec
from strandline_operator.decide.clock_steps import settle_pipeline
from strandline_operator.decide.obstacles.obstacles import find_unread
from strandline_operator.decide.run.deadline import expire, keep_time
from strandline_operator.decide.run.dispatch import (
    dispatch,
    keep_defaults,
    make_claim,
    note_dispatched,
)
from strandline_operator.decide.run.lineage import list_ends, settle_reports
from strandline_operator.decide.run.memory import settle_memory
from strandline_operator.decide.run.progression import (
    end_others,
    follow_newest,
    launch_newest,
    note_shortages,
    warn_driver,
)
from strandline_operator.decide.run.removal import guard, remove, trim_history
from strandline_operator.decide.run.report.conditions import (
    report,
    report_edit,
    report_invalid,
    report_obstacle,
    report_preflight,
    report_published,
    report_refusals,
    report_unknown,
    report_unread,
    rest,
)
from strandline_operator.decide.run.report.events import report_changes, report_losses
from strandline_operator.decide.run.report.summary import report_progress
from strandline_operator.decide.run.requests import (
    answer,
    forget_withdrawn,
    note_first_requests,
    settle_under_way,
)
from strandline_operator.decide.run.sequence import (
    begin_first_run,
    begin_next_run,
    count_attempt,
    count_missing,
    measure_recovery,
)
from strandline_operator.decide.run.timetable.schedule import begin_scheduled_run
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import Decider, PassState, Verdict, fold
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import PassPlan
from strandline_operator.model.view import View
from strandline_operator.render.defaults import fill_in


def _settle_clock(facts: Pass, standing: PassState) -> Verdict:
    return Verdict(settle_pipeline(standing.status, facts.now))


# Deciders if too little could be read to determine what is running: nothing is decided.
_UNREAD: tuple[Decider, ...] = (note_first_requests, report_unread)
_DELETION: tuple[Decider, ...] = (remove,)
# Deciders for an invalid spec: a running attempt continues, but no further attempt starts.
_UNREADABLE: tuple[Decider, ...] = (
    note_first_requests,
    forget_withdrawn,
    keep_defaults,
    follow_newest,
    warn_driver,
    settle_under_way,
    settle_reports,
    answer,
    report_obstacle,
    report_invalid,
)
_RUN: tuple[Decider, ...] = (
    # Handle changes since the last pass.
    note_first_requests,
    _settle_clock,
    forget_withdrawn,
    keep_defaults,
    make_claim,
    begin_first_run,
    note_dispatched,
    keep_time,
    count_missing,
    # Advance each attempt by one step.
    end_others,
    launch_newest,
    note_shortages,
    follow_newest,
    warn_driver,
    settle_under_way,
    measure_recovery,
    report_losses,
    count_attempt,
    settle_reports,
    report_refusals,
    report_obstacle,
    # Start further attempts or runs if no attempt is running. First decide whether the run has
    # ended.
    begin_next_run,
    begin_scheduled_run,
    answer,
    expire,
    settle_memory,
    dispatch,
    # Clean up and report.
    trim_history,
    guard,
    report_progress,
    report,
    report_edit,
    report_preflight,
    report_published,
    report_unknown,
    report_changes,
    rest,
)


def decide(view: View, now: float, limits: Limits, drawn: float) -> PassPlan:
    """Decide the actions of one pass.

    Args:
        now: seconds since the epoch.
        drawn: a random number from [0, 1), for random jitter.
    """
    facts = Pass(view, _read_spec(view), limits, round(now, 3), drawn)
    plan = fold(facts, _choose(facts))
    return replace(plan, ends=list_ends(view, plan, limits, facts.now))


def _choose(facts: Pass) -> tuple[Decider, ...]:
    """Choose the deciders for this pass."""
    pipeline = facts.view.pipeline
    # Check this first, even before a deletion: unreadable objects would look deleted.
    if find_unread(facts.view) is not None:
        return _UNREAD
    # A pipeline that is being deleted must not create anything, even if its spec requests it.
    if pipeline.meta.is_deleting:
        return _DELETION
    return _UNREADABLE if pipeline.spec is None else _RUN


def _read_spec(view: View) -> PipelineSpec:
    """Return the spec of the pipeline, or the default spec if it is unreadable."""
    spec = fill_in(view.pipeline, view.defaults)
    if spec is not None:
        return spec
    spec_document = view.pipeline.manifest.get("spec")
    # Read `suspend` even from an invalid spec, because people set `suspend` in an emergency.
    is_suspended = isinstance(spec_document, Mapping) and spec_document.get("suspend") is True
    return evolve(_UNSPECIFIED, suspend=is_suspended)


_UNSPECIFIED = PipelineSpec.model_validate(
    {"source": {"use": "unknown"}, "sink": {"use": "unknown-sink"}}
)
