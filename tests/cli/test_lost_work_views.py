"""The cost of lost work, shown in the progress, for an attempt, and in total."""

from __future__ import annotations

from strandline.cli.views.attempt import (
    AttemptStanding,
    AttemptSummary,
    describe_all_lost,
    describe_attempt,
    render_attempt,
)
from strandline.cli.views.format import describe_lost_work
from strandline.cli.views.running.snapshot import STARTING
from strandline.cli.views.running.snapshot_json import parse_json, render_snapshot
from strandline.engine.core.ports import WorkCost
from strandline.run.insight.records import AttemptRecord
from strandline_api.outcome.driver_outcome import (
    DriverOutcome,
    find_outcome_line,
    format_outcome_line,
)
from strandline_api.outcome.work_lost import WorkLost
from strandline_api.status.enums import Trigger

LOST = WorkLost(node=90.0, kill=10.0)
WORDS = "1 min 40 s of work is repeated, 10.0% of all (node, kill)"


def make_view(lost: WorkLost, worked: float) -> AttemptSummary:
    outcome = DriverOutcome(exit_code=0, work_seconds=worked, work_lost=lost)
    record = AttemptRecord(
        number=1,
        run="first",
        trigger=Trigger.RUN,
        previous=None,
        ledger="id",
        boot="boot",
        pid=7,
        process_started=8,
        started=0.0,
        outcome=outcome,
    )
    return AttemptSummary(record, AttemptStanding.COMPLETED, 10.0, 1)


def test_lost_work_is_shown_with_its_share_and_causes() -> None:
    assert describe_lost_work(LOST, 1000.0) == WORDS
    assert describe_lost_work(LOST, 0.0) == "1 min 40 s of work is repeated (node, kill)"
    assert describe_lost_work(WorkLost(kill=0.9), 10.0) == ""


def test_law_progress_survives_serialization() -> None:
    snapshot = STARTING._replace(work=WorkCost(1000.0, LOST))
    assert parse_json(render_snapshot(snapshot)).work == snapshot.work
    assert "workLost" not in render_snapshot(STARTING)
    for odd in ({"workLost": 7}, {"workLost": {"node": "x", "else": 3}}, {"workSeconds": "1"}):
        assert parse_json(odd).work == WorkCost()


def test_an_outcome_shows_lost_work_only_if_known() -> None:
    view = make_view(LOST, 1000.0)
    assert view.record.outcome is not None
    found = find_outcome_line(format_outcome_line(view.record.outcome))
    assert found is not None
    assert (found.work_seconds, found.work_lost) == (1000.0, LOST)
    assert "work" not in format_outcome_line(DriverOutcome(exit_code=0))


def test_lost_work_is_shown_per_attempt_and_in_total() -> None:
    view = make_view(LOST, 1000.0)
    assert any(WORDS in line for line in describe_attempt(view, []))
    assert render_attempt(view)["workLost"]["node"] == 90.0
    views = [view, make_view(WorkLost(stop=100.0), 1000.0), make_view(WorkLost(), 0.0)]
    assert describe_all_lost(views) == (
        "over all attempts, 3 min 20 s of work is repeated, 10.0% of all (node, kill, stop)"
    )
    assert describe_all_lost(views[2:]) == ""
