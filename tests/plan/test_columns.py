"""Missing columns of a stage are found when a pipeline is planned."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.plan.planning import plan_spec
from strandline.plan.stages.columns import Columns, find_missing, trace_columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_api.documents.problems import SpecError
from strandline_api.objects.pipeline import CurationPipeline
from strandline_packs.sources.files import Files
from strandline_packs.text.normalise_text import NormaliseText

ACTIONS = ("add", "drop", "select")
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.lists(st.sampled_from("abcd"), min_size=1, max_size=3)),
    max_size=8,
)


class Acting(Stage):
    """Adds columns, drops some, or selects some; to drop or select a column requires it."""

    def __init__(self, action: str, names: list[str]) -> None:
        super().__init__()
        self.action, self.names = action, tuple(names)

    def process(self, task: Task) -> Task:
        return task

    def list_needed_columns(self) -> tuple[str, ...]:
        return () if self.action == "add" else self.names

    def change_columns(self, columns: Columns) -> Columns:
        if self.action == "add":
            return columns.having(self.names)
        return columns.without(self.names) if self.action == "drop" else Columns(self.names)


class Silent(Stage):
    """Declares no columns."""

    def process(self, task: Task) -> Task:
        return task


class OwnNormalisation(NormaliseText):
    """Overrides the work of its base class."""

    def process(self, task: Task) -> Task:
        return task


class OwnFiles(Files):
    """Derives from a class with declared columns, and does not override its work."""


@given(STEPS)
def test_law_the_first_stage_that_would_fail_is_found(steps: list[tuple[str, list[str]]]) -> None:
    stages = [(str(number), Acting(*step)) for number, step in enumerate(steps)]
    found = find_missing(trace_columns(stages), {})
    there: set[str] = set()
    for position, (action, names) in enumerate(steps):
        if action != "add" and not there.issuperset(names):
            assert found is not None
            assert found.position == position
            return
        there = {"add": there | set(names), "drop": there - set(names), "select": set(names)}[
            action
        ]
    assert found is None


@given(STEPS, STEPS)
def test_law_stages_after_one_without_declarations_are_not_rejected(
    before: list[tuple[str, list[str]]], after: list[tuple[str, list[str]]]
) -> None:
    stages: list[tuple[str, Stage]] = [("early", Acting(*step)) for step in before]
    stages.append(("silent", Silent()))
    # After `select`, the columns are known again.
    late = [(action, names) for action, names in after if action != "select"]
    stages += [("late", Acting(*step)) for step in late]
    found = find_missing(trace_columns(stages), {})
    if found is not None and found.position < len(before):
        return
    gone: set[str] = set()
    for position, (action, names) in enumerate(late, len(before) + 1):
        if action == "drop" and gone.intersection(names):
            assert found is not None
            assert found.position == position
            assert "'late' removes" in found.hint
            return
        gone = gone - set(names) if action == "add" else gone | set(names)
    assert found is None


@pytest.mark.parametrize(
    ("before", "after", "column"),
    [
        ("extract-text", "decode-python", "content"),
        ("measure-images", "resize-images", "picture"),
        ("decode-python", "extract-text", "content"),
    ],
)
def test_a_removed_column_is_missing_even_if_others_are_unknown(
    before: str, after: str, column: str
) -> None:
    with pytest.raises(SpecError) as caught:
        plan("read-jsonl", before, after, source="jsonl-files")
    (problem,) = caught.value.problems
    assert f"reads {column!r}, but the columns are: key, " in problem.message
    assert f"others (without {column})" in problem.message
    assert problem.suggestion == (
        f"{before!r} removes {column!r}: put {after!r} before it, or keep the column"
    )


def test_the_stage_that_removes_a_column_is_named_if_all_columns_are_known() -> None:
    select = {"use": "select-columns", "with": {"columns": ["key"]}}
    with pytest.raises(SpecError) as caught:
        plan("read-files", "parse-documents", select, "normalise-text")
    (problem,) = caught.value.problems
    assert problem.suggestion == (
        "'select-columns' removes 'text': put 'normalise-text' before it, or keep the column"
    )


def test_a_new_name_of_a_column_that_is_not_selected_is_refused() -> None:
    select = {"use": "select-columns", "with": {"columns": ["text"], "rename": {"txt": "body"}}}
    with pytest.raises(SpecError, match="`rename` names 'txt', which is not in `columns`"):
        plan("read-files", "parse-documents", select)
    twice = {"columns": ["text", "key"], "rename": {"text": "key"}}
    with pytest.raises(SpecError, match="two columns would be called 'key'"):
        plan("read-files", "parse-documents", {"use": "select-columns", "with": twice})


@pytest.mark.parametrize(
    ("stage", "is_open"),
    [(OwnNormalisation(), True), (NormaliseText(), False), (OwnFiles(paths=["x"]), False)],
)
def test_declarations_do_not_apply_to_a_subclass_that_overrides_the_work(
    stage: Stage, *, is_open: bool
) -> None:
    (step,) = trace_columns([("own", stage)])
    assert step.after.is_open == is_open


def plan(*stages: Any, source: str = "files") -> None:
    spec = {
        "source": {"use": source, "with": {"paths": ["in/*"]}},
        "stages": [stage if isinstance(stage, dict) else {"use": stage} for stage in stages],
        "sink": {"use": "jsonl"},
    }
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "notes"},
        "spec": spec,
    }
    plan_spec(CurationPipeline.model_validate(document))


def test_a_stage_before_its_reader_is_rejected_and_the_reader_named() -> None:
    with pytest.raises(SpecError) as caught:
        plan("parse-documents")
    (problem,) = caught.value.problems
    assert str(problem) == (
        "spec.stages[0]: stage 'parse-documents' reads 'content', but the columns are: key, path, "
        "size, mtime_ns; 'read-files' or 'split-video' before it adds 'content'"
    )


def test_parameters_declare_the_columns() -> None:
    select = {"use": "select-columns", "with": {"columns": ["text"], "rename": {"text": "body"}}}
    with pytest.raises(SpecError, match="'normalise-text' reads 'text', but the columns are: body"):
        plan("read-files", "parse-documents", select, "normalise-text")
    plan(
        "read-files",
        "parse-documents",
        select,
        {"use": "normalise-text", "with": {"column": "body"}},
    )


def test_rows_of_unknown_fields_may_have_any_column() -> None:
    plan("read-jsonl", "normalise-text", source="jsonl-files")
