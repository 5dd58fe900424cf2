"""Shapes that classes declare, and shapes that are rejected when a pipeline is built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import pytest

from strandline.plan.pipeline import StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.ends import OnRemoved, SinkStage, Source, SourceStage
from strandline.plan.stages.stage import Shape, Stage
from strandline.plan.task import FailedTask, NoneTask, Slot, Task
from strandline_api.documents.problems import SpecError
from strandline_packs.sinks.jsonl_sink import JsonlSink


class One(Stage):
    def process(self, task: Task) -> Task | None:
        return task


class Many(Stage):
    def process(self, task: Task) -> Task | list[Slot] | None:
        return [task]


class Batch(Stage):
    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        return list(tasks)


class BatchedFanOut(Stage):
    def process_batch(self, tasks: list[Task]) -> list[Task | list[Task]]:  # type: ignore[override]
        return list(tasks)


class Both(One, Batch):
    pass


class Neither(Stage):
    pass


class Shuffle(One):
    mixes_sources = True


class Numbers(SourceStage):
    def list_sources(self) -> Iterator[Source]:
        yield Source("one", "1", 1)


class Text(SinkStage):
    def write(self, task: Task, file: BinaryIO) -> None:
        file.write(str(task.data).encode())


class FannedText(Text, Many):
    pass


class BatchedText(Text, Batch):
    pass


class Archive(Numbers):
    def partition_indices(self, source: Source) -> list[str]:
        return ["archive"]


class Chunk(Text):
    def partition_indices(self, source: Source) -> list[str]:
        return ["chunk"]


ARCHIVE = Archive(on_removed=OnRemoved.DELETE)
DELETING = Numbers(on_removed=OnRemoved.DELETE)


def plan(stage: Stage, name: str = "", batch_size: int = 1, group: int | None = None) -> StagePlan:
    name = name or type(stage).__name__.lower()
    return StagePlan(name, name, stage, batch_size=batch_size, group=group)


def check(*stages: StagePlan) -> None:
    check_plan("default", "p", stages[0], stages[1:])


@pytest.mark.parametrize(
    ("stage", "group", "shape"),
    [
        (One(), None, Shape.TASK),
        (Many(), None, Shape.TASK),
        (Batch(), None, Shape.BATCH),
        (One(), 4, Shape.GROUP),
        (Numbers(), None, Shape.SOURCE),
        (Text(), None, Shape.SINK),
    ],
)
def test_a_class_has_a_shape(stage: Stage, group: int | None, shape: Shape) -> None:
    assert plan(stage, group=group).shape is shape


@pytest.mark.parametrize(("stage", "fans_out"), [(One, False), (Many, True), (Batch, False)])
def test_the_annotation_declares_fan_outs(stage: type[Stage], fans_out: bool) -> None:
    assert stage.fans_out() is fans_out


def test_a_generator_fans_out_despite_its_annotation() -> None:
    class Yields(Stage):
        def process(self, task):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            yield task

    class Returns(Stage):
        def process(self, task: Task) -> Iterator[Slot]:
            return iter([task])

    assert Yields.fans_out() is Returns.fans_out() is True


def test_an_unreadable_annotation_declares_nothing() -> None:
    class Unread(Stage):
        def process(self, task: Task) -> Elsewhere:  # type: ignore[name-defined] # noqa: F821
            return task

    assert Unread.fans_out() is False


@pytest.mark.parametrize(
    ("stages", "at", "sentence"),
    [
        ([plan(One()), plan(Text())], "spec.source", "'one' is not a source"),
        ([plan(Numbers()), plan(One())], "spec.sink", "'one' is not a sink"),
        ([plan(Numbers())], "spec.sink", "a pipeline must end with a sink"),
        (
            [plan(Numbers()), plan(Numbers(), "again"), plan(Text())],
            "spec.stages[0]",
            "'again' is a second source",
        ),
        (
            [plan(Numbers()), plan(Text()), plan(Text(), "last")],
            "spec.stages[0]",
            "'text' is a sink; only the last stage",
        ),
        (
            [plan(Numbers()), plan(Shuffle()), plan(Text())],
            "spec.stages[0]",
            "'shuffle' mixes rows of several sources",
        ),
        (
            [plan(Numbers()), plan(BatchedFanOut(), batch_size=2), plan(Text())],
            "spec.stages[0]",
            "fans out in a batch of 2, so a child has no single parent",
        ),
        (
            [plan(Numbers()), plan(Batch(), group=2), plan(Text())],
            "spec.stages[0]",
            "'batch' has a group, whose children are joined into one task",
        ),
        ([plan(Numbers()), plan(Both()), plan(Text())], "spec.stages[0]", "defines both"),
        ([plan(Numbers()), plan(Neither()), plan(Text())], "spec.stages[0]", "defines neither"),
        (
            [plan(Numbers()), plan(FannedText())],
            "spec.sink",
            "'fannedtext' is a sink, and only its `write` is called; move the code of its "
            "`process` to",
        ),
        (
            [plan(Numbers()), plan(BatchedText())],
            "spec.sink",
            "only its `write` is called; move the code of its `process_batch` to a stage before it",
        ),
        (
            [plan(Numbers()), plan(One()), plan(One()), plan(Text())],
            "spec.stages[1]",
            "the name 'one' is used twice",
        ),
        (
            [plan(Numbers()), plan(One()), plan(Chunk())],
            "spec.source.with.onRemoved",
            "must be Delete: 'chunk' combines sources that share storage",
        ),
        (
            [plan(Archive()), plan(Many()), plan(Text())],
            "spec.source.with.onRemoved",
            "must be Delete: 'archive' combines sources that share storage",
        ),
        (
            [plan(DELETING), plan(One()), plan(Many()), plan(Chunk())],
            "spec.stages[1]",
            "'many' may fan out, but 'chunk' writes sources that share storage as one task; "
            "set `group`",
        ),
        (
            [plan(DELETING), plan(Many(), group=9), plan(One()), plan(Chunk())],
            "spec.stages[0]",
            "'many' may fan out",
        ),
        (
            [
                plan(Numbers()),
                plan(Many(), "files"),
                replace(plan(Many(), "parts"), has_cut=True),
                plan(One(), "whole", group=2),
                plan(Text()),
            ],
            "spec.stages[1].keep",
            "'parts' can't be kept: it is a fan-out within a fan-out, and 'whole' joins only one "
            "of them",
        ),
    ],
)
def test_what_could_not_be_resumed_is_refused_by_name(
    stages: list[StagePlan], at: str, sentence: str
) -> None:
    with pytest.raises(SpecError) as refused:
        check(*stages)

    assert isinstance(refused.value, ValueError)
    assert [problem.path for problem in refused.value.problems] == [at]
    assert sentence in str(refused.value)


def test_a_batched_fan_out_of_one_is_allowed() -> None:
    check(plan(Numbers()), plan(BatchedFanOut()), plan(Text()))


@pytest.mark.parametrize(
    "stages",
    [
        [plan(ARCHIVE), plan(Many()), plan(Text())],
        [plan(ARCHIVE), plan(One()), plan(Batch()), plan(Chunk())],
        [plan(DELETING), plan(Many()), plan(One(), group=9), plan(Batch()), plan(Chunk())],
    ],
)
def test_sources_with_shared_storage_may_fan_out_if_joined_again(stages: list[StagePlan]) -> None:
    check(*stages)


def test_a_target_is_in_the_fingerprint_only_when_set() -> None:
    own, shared = (
        set(check_plan("default", "p", plan(Numbers()), [plan(sink)]).fingerprint.parts)
        for sink in (JsonlSink(), JsonlSink(target_bytes=9))
    )
    assert shared - own == {"jsonlsink.with.targetBytes"}
