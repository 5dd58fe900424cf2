"""The STATE column fits a terminal: at most 60 characters, composed to fit instead of truncated."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulated_cluster import SimulatedCluster
from strandline_api.api_model import evolve
from strandline_api.outcome.causes import Cause
from strandline_api.status.pipeline_status import PipelineStatus, Progress, ScheduleStatus
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.run.report.brief import choose_form, list_problem_forms
from strandline_operator.decide.run.report.conditions import report, report_deletion
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import PassState, Verdict
from strandline_operator.model.view import Refusal, Turn
from summary_law import check_summary

LONG = st.text(st.characters(codec="utf-8"), max_size=400) | st.sampled_from(
    ("claim mine", "word " * 40, "a" * 300, "two\nlines", "x; y: z, " * 20)
)
NAMES = st.text("abc-0123456789", min_size=1, max_size=253)
STATUSES = st.builds(
    lambda **fields: fields,
    state=LONG,
    run=NAMES,
    attempt=st.integers(0, 10**9),
    retry_cause=st.none() | st.sampled_from(Cause),
    next_attempt_time=st.none() | st.floats(0, 2e9),
    progress=st.none()
    | st.builds(
        Progress,
        total=st.none() | st.integers(0, 10**15),
        finished=st.integers(0, 10**15),
        redone=st.none() | st.integers(1, 10**15),
    ),
    schedule=st.none() | st.builds(ScheduleStatus, next_time=st.none() | st.floats(0, 2e9)),
)
BLOCKS = st.none() | st.builds(Block, st.sampled_from(Reason), LONG)


def make_new() -> SimulatedCluster:
    cluster = SimulatedCluster()
    cluster.pass_once()
    return cluster


def make_suspended() -> SimulatedCluster:
    cluster = SimulatedCluster()
    cluster.edit(suspend=True)
    cluster.settle()
    return cluster


def make_held_back() -> SimulatedCluster:
    cluster = make_new()
    cluster.turn = Turn(is_open=False)
    return cluster


def make_failed() -> SimulatedCluster:
    cluster = SimulatedCluster.running()
    cluster.finish(64)
    return cluster


STAGES = (make_new, SimulatedCluster.running, make_suspended, make_held_back, make_failed)


@cache
def make_pass(make: Callable[[], SimulatedCluster]) -> Pass:
    cluster = make()
    view = cluster.view()
    assert view.pipeline.spec is not None
    return Pass(view, view.pipeline.spec, cluster.limits, cluster.time, 0.0)


def write_status(facts: Pass, fields: dict[str, object], block: Block | None) -> PipelineStatus:
    status = evolve(facts.view.pipeline.status, **fields)  # type: ignore[arg-type]
    written = report(facts, PassState(facts.view, Verdict(status, block=block))).status
    assert written is not None
    return written


@given(make=st.sampled_from(STAGES), fields=STATUSES, block=BLOCKS)
def test_any_state_has_a_summary_that_fits_and_is_not_cut(
    make: Callable[[], SimulatedCluster], fields: dict[str, object], block: Block | None
) -> None:
    status = write_status(make_pass(make), fields, block)
    check_summary(status)
    assert status.summary


@given(st.lists(st.builds("{}: {}".format, NAMES, LONG) | LONG, max_size=4))
def test_an_invalid_spec_has_a_summary_that_fits(problems: list[str]) -> None:
    message = "; ".join(problems)
    brief = choose_form(message, *list_problem_forms(tuple(problems)))
    check_summary(PipelineStatus(state=message, summary=brief))
    assert brief


@given(LONG)
def test_a_deletion_has_a_summary_that_fits(waits_for: str) -> None:
    facts = make_pass(SimulatedCluster.running)
    status = report_deletion(facts, PassState(facts.view), waits_for).status
    assert status is not None
    check_summary(status)


@pytest.mark.parametrize(
    ("reason", "detail", "summary"),
    [
        (
            Reason.IMAGE_NOT_PULLED,
            "pod corpus-1: " * 9,
            "a node cannot pull an image of the attempt",
        ),
        (Reason.CLAIM_MISSING, "claim mine", "a claim that `storage` names does not exist"),
        (
            Reason.NO_ROOM,
            "head pod corpus-1: " * 9,
            "no node has room for a pod, and none can be added",
        ),
        (Reason.NAME_TAKEN, "corpus-1 exists", "name taken"),
        (Reason.CLAIM_FULL, "claim mine", "the volume is full: claim mine"),
        (Reason.KUBERAY_SILENT, "corpus", "KubeRay does not act on the attempt's RayJob"),
    ],
)
def test_an_obstacle_is_named_as_exactly_as_fits(reason: Reason, detail: str, summary: str) -> None:
    status = write_status(make_pass(SimulatedCluster.running), {}, Block(reason, detail))
    assert status.summary == f"attempt 1: {summary}"


def test_a_failed_run_is_summarized_by_its_last_attempt() -> None:
    cluster = SimulatedCluster.running()
    cluster.edit(retry={"eligibleCauses": ["Killed"]})
    cluster.finish(1)
    assert cluster.status.state == (
        "attempt 1 ended with ApplicationError, which is missing from eligibleCauses"
    )
    assert cluster.status.summary == "attempt 1 ended with ApplicationError"


def test_a_wait_for_many_pipelines_names_them_or_counts_them() -> None:
    cluster = SimulatedCluster()
    cluster.edit(after=[{"name": "licences"}, {"name": "tokens"}, {"name": "raw"}])
    cluster.settle()
    assert cluster.status.summary == "waits for licences, tokens, raw"
    cluster.edit(after=[{"name": f"pipeline-with-a-long-name-{number}"} for number in range(3)])
    cluster.settle()
    assert cluster.status.summary == "waits for 3 other pipelines"


def test_an_invalid_spec_is_summarized_by_its_field() -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    cluster.edit(sink={"use": "NO"})
    cluster.settle()
    assert cluster.status.summary == "invalid spec: spec.sink.use"


def test_missing_permissions_are_summarized() -> None:
    cluster = SimulatedCluster()
    cluster.unread = (Refusal("pods", "", 403, "words " * 30, verb="list"),)
    cluster.settle()
    assert cluster.status.summary == "the operator lacks a permission that it needs"


def test_a_suspended_pipeline_has_no_next_start() -> None:
    cluster = SimulatedCluster.running()
    cluster.finish(1)
    due = cluster.status.next_attempt_time
    assert due is not None
    starts = [cluster.status.next_start_time]
    cluster.edit(suspend=True)
    cluster.settle()
    starts.append(cluster.status.next_start_time)
    assert cluster.status.next_attempt_time == due
    assert cluster.status.summary == "suspended; set `suspend` to false to resume"
    cluster.edit(suspend=False)
    cluster.settle()
    assert [*starts, cluster.status.next_start_time] == [due, None, due]


def test_an_attempt_behind_an_obstacle_has_no_next_start() -> None:
    cluster = SimulatedCluster()
    cluster.edit(after=[{"name": "raw"}])
    cluster.settle()
    assert cluster.status.next_attempt_time is not None
    assert cluster.status.next_start_time is None


def test_the_condition_has_the_full_text() -> None:
    cluster = SimulatedCluster.running()
    status = write_status(make_pass(SimulatedCluster.running), {}, Block(Reason.NO_ROOM, "x" * 99))
    summary = status.find_condition(ConditionType.SUCCEEDED)
    assert summary is not None
    assert "x" * 99 in summary.message
    assert "x" * 99 in status.state
    assert cluster.status.summary == cluster.status.state == "attempt 1: Running"
