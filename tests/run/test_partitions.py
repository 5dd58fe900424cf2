"""The listing of groups: one key, one version, and one task per group, and errors before work."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain as chain_of
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from partition_stages import Steps, plan_steps
from strandline.ledger.errors import DuplicateKeyError
from strandline.plan.errors import code_of
from strandline.plan.partition import ChainFinding, LargestGroup, StorageGroups
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.ends import SinkStage, Source, SourceStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline.run.attempt.sources.chaining import PartitionError, find_chaining
from strandline.run.attempt.sources.partitions import open_listing
from strandline_api.documents.problems import SpecError
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.sinks.parquet_partitions import ParquetPartitions
from strandline_packs.sinks.zarr_sink import ZarrSink


def list_groups(plan: PipelinePlan) -> list[Source]:
    listing, groups = open_listing(plan), []
    while not listing.is_ended:
        groups += [source for _, source in listing.draw(3)]
    return groups


def read_members(groups: list[Source]) -> dict[str, list[str]]:
    return {group.key: (group.meta or {})["members"] for group in groups}


def test_sources_that_share_are_listed_as_one_the_largest_group_first() -> None:
    groups = list_groups(plan_steps([3, 10, 11, 12, 20, 21]))
    assert read_members(groups) == {
        "group/tens/step 01": ["step 010", "step 011", "step 012"],
        "group/tens/step 02": ["step 020", "step 021"],
        "group/tens/step 00": ["step 003"],
    }
    assert [group.data for group in groups] == [[10, 11, 12], [20, 21], [3]]
    assert list(read_members(groups)) == [group.key for group in groups]


def test_a_source_that_shares_nothing_is_a_group_with_its_own_key() -> None:
    groups = list_groups(plan_steps([7, 8], by="step 007"))
    assert [(group.key, group.data) for group in groups] == [
        ("group/tens/step 007", [7]),
        ("step 008", [8]),
    ]


def test_sources_and_sinks_both_define_groups() -> None:
    groups = list_groups(plan_steps(range(30), per_file=15))
    assert [len(group.data) for group in groups] == [30]  # step 14 joins tens 0 and 1 etc.
    groups = list_groups(plan_steps(range(30), per_file=5))
    assert [len(group.data) for group in groups] == [10, 10, 10]


def versions(plan: PipelinePlan) -> dict[str, str]:
    return {group.key: group.version for group in list_groups(plan)}


@pytest.mark.parametrize(
    "changed",
    [
        plan_steps(range(5, 25), changed=(12,)),
        plan_steps([*range(5, 12), *range(13, 25)]),
    ],
    ids=["a member changed", "a member removed or added"],
)
def test_a_changed_member_changes_the_version_of_its_group_only(changed: PipelinePlan) -> None:
    before, after = versions(plan_steps(range(5, 25))), versions(changed)
    assert before.keys() == after.keys()
    assert [key for key in before if before[key] != after[key]] == ["group/tens/step 01"]


@given(
    steps=st.lists(st.integers(0, 60), min_size=1, max_size=20, unique=True),
    per_file=st.sampled_from([1, 4]),
    data=st.data(),
)
def test_the_order_of_the_listing_does_not_matter(
    steps: list[int], per_file: int, data: st.DataObject
) -> None:
    one, other = (
        list_groups(plan_steps(order, per_file=per_file))
        for order in (steps, data.draw(st.permutations(steps)))
    )
    assert one == other
    joining = StorageGroups()
    for step in steps:
        joining.add({f"tens {step // 10}", f"file {step // per_file}"})
    assert len(one) == len({joining.find(item) for item in range(len(steps))})
    assert sorted(key for group in one for key in group.meta["members"]) == [  # type: ignore[index]
        f"step {step:03d}" for step in sorted(steps)
    ]


def test_tables_of_members_become_one_in_key_order() -> None:
    class Tables(Steps):
        def list_sources(self) -> Iterator[Source]:
            for source in super().list_sources():
                yield source._replace(data=pa.table({"n": [source.data]}), meta={"colour": "red"})

    (group,) = list_groups(replace_source(Tables(steps=(3, 1, 2))))
    assert group.data.to_pydict() == {"n": [1, 2, 3]}
    assert group.meta == {"colour": "red", "members": ["step 001", "step 002", "step 003"]}


def test_a_source_may_define_its_own_join() -> None:
    class Sums(Steps):
        def join(self, tasks: list[Task]) -> Task:
            keys = [task.key for task in tasks]
            return Task(sum(task.data for task in tasks), {"first": keys[0]})

    (group,) = list_groups(replace_source(Sums(steps=(3, 1, 2))))
    assert (group.data, (group.meta or {})["first"]) == (6, "step 001")


def replace_source(source: SourceStage, sink: SinkStage | None = None) -> PipelinePlan:
    last = StagePlan("tens", "tens", sink or ParquetPartitions(by=r"step \d\d"))
    return check_plan("default", "waves", StagePlan("steps", "steps", source), [last])


def fail_to_list(plan: PipelinePlan) -> str:
    with pytest.raises(SpecError) as caught:
        list_groups(plan)
    assert code_of(caught.value) is ExitCode.BAD_SPEC
    return str(caught.value)


def test_a_group_above_max_group_is_refused_by_a_chain() -> None:
    borders_apart = plan_steps(range(4, 16), per_file=8, max_group=10)
    assert fail_to_list(borders_apart) == (
        "spec.source.with.maxGroup: 12 sources share storage and would form one group; the limit "
        "is 10: 'step 004' - step 00 (tens) - 'step 008' - file 1 (steps) - 'step 010'; raise "
        "maxGroup, or align the boundaries of sources and shared storage"
    )
    assert len(list_groups(plan_steps(range(4, 16), per_file=8, max_group=12))) == 1


def test_a_long_chain_is_shown_by_its_ends() -> None:
    message = fail_to_list(plan_steps(range(130), per_file=13, max_group=10))
    assert message.startswith("spec.source.with.maxGroup: 130 sources share storage")
    assert message.count("'step ") == 4
    assert " - ... - 'step 1" in message


def test_the_default_bound_holds_for_sources_with_parameters_of_their_own() -> None:
    class Bare(SourceStage):
        class Params(Stage.Params):
            on_removed: Any = Steps.Params.model_fields["on_removed"].default

        def list_sources(self) -> Iterator[Source]:
            for number in range(1001):
                yield Source(f"step 00{number}", "1", number)

    message = fail_to_list(replace_source(Bare()))
    assert message.startswith("spec.source.with.maxGroup: 1001 sources share storage")


def test_a_key_that_is_listed_twice_is_refused() -> None:
    with pytest.raises(DuplicateKeyError, match="'step 003' is listed twice: as item 1 and as i"):
        list_groups(plan_steps([3, 4, 3]))


def test_a_source_named_like_a_group_is_refused() -> None:
    class Odd(Steps):
        def list_sources(self) -> Iterator[Source]:
            yield from super().list_sources()
            yield Source("group/tens/step 00", "1", 9)

    plan = replace_source(Odd(steps=(1,)), ParquetPartitions(by=r"^step \d\d"))
    with pytest.raises(DuplicateKeyError, match="'group/tens/step 00' is also the name of a group"):
        list_groups(plan)


def test_tables_that_can_not_be_joined_are_reported_with_their_group() -> None:
    class Unlike(Steps):
        def list_sources(self) -> Iterator[Source]:
            for source in super().list_sources():
                values = [1] if source.data == 1 else ["x"]
                yield source._replace(data=pa.table({"n": values}))

    with pytest.raises(PartitionError) as caught:
        list_groups(replace_source(Unlike(steps=(1, 2))))
    assert str(caught.value).startswith(
        "the sources of the group 'group/tens/step 00' can't be joined: ArrowTypeError: "
    )


@pytest.mark.parametrize("answer", ["chunk 3", [3], 3, None])
def test_invalid_partition_names_are_refused(answer: Any) -> None:
    class Odd(ParquetPartitions):
        def partition_indices(self, source: Source) -> Any:
            return answer

    with pytest.raises(PartitionError) as caught:
        list_groups(replace_source(Steps(steps=(1,)), Odd(by="x")))
    assert code_of(caught.value) is ExitCode.BAD_SPEC
    assert str(caught.value).startswith(
        "stage 'tens' can't determine the partitions of source 'step 001': TypeError: "
        "partition_indices must return a list of names"
    )


def test_an_error_in_partition_indices_is_reported_with_its_source() -> None:
    class Broken(Steps):
        def partition_indices(self, source: Source) -> list[str]:
            raise KeyError(source.data)

    with pytest.raises(
        PartitionError,
        match="'steps' can't determine the partitions of source 'step 001': K",
    ):
        list_groups(replace_source(Broken(steps=(1,))))


def test_keys_and_names_may_hold_invalid_unicode() -> None:
    class Odd(Steps):
        def list_sources(self) -> Iterator[Source]:
            yield Source("step 00\udcff", "1", 1)

    groups = list_groups(replace_source(Odd(steps=()), ParquetPartitions(by=".*")))
    assert read_members(groups) == {"group/tens/step 00\udcff": ["step 00\udcff"]}


def test_an_empty_listing_is_refused() -> None:
    assert "'steps' lists no sources" in fail_to_list(plan_steps([]))


class Runs(ParquetPartitions):
    """Writes one file for a fixed number of consecutive steps."""

    class Params(ParquetPartitions.Params):
        """The number of steps per file."""

        by: str = "never"
        steps_a_file: int = Field(ge=4)

    params: Params
    chunked_by = "steps_a_file"

    def partition_indices(self, source: Source) -> list[str]:
        return [f"run {int(source.key[5:]) // self.params.steps_a_file}"]


def chain(chunk: int, steps: int = 60, **params: Any) -> PipelinePlan:
    source = Steps(steps=tuple(range(steps)), **params)
    return replace_source(source, Runs(steps_a_file=chunk))


def look(plan: PipelinePlan) -> ChainFinding | None:
    return find_chaining(plan, lambda: 0.0)


FIELD = "spec.sink.with.stepsAFile"


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        (chain(7, per_file=6), ChainFinding(LargestGroup(42, 60, True), True, FIELD, 6, 6)),
        (chain(7, 13, per_file=2), ChainFinding(LargestGroup(13, 13, True), True, FIELD, 6, 6)),
        (chain(4, 12, per_file=3), ChainFinding(LargestGroup(12, 12, True), True, FIELD, 6, 6)),
        (plan_steps(range(30), per_file=15), ChainFinding(LargestGroup(30, 30, True), True)),
        (chain(7, per_file=40), ChainFinding(LargestGroup(60, 60, True), True)),
    ],
    ids=["smaller", "8 holds most", "3 is out of bounds", "no chunk", "no chunk would do"],
)
def test_a_chain_of_most_sources_is_detected_and_a_better_chunk_suggested(
    plan: PipelinePlan, found: ChainFinding
) -> None:
    assert look(plan) == found


@pytest.mark.parametrize(
    "plan",
    [
        chain(6, per_file=6),
        chain(5, per_file=6),  # two groups of half of the sources
        chain(60),  # one chunk of the requested size
        replace_source(Steps(steps=()), Runs(steps_a_file=4)),
        chain(7, 2, changed=(1,)),
    ],
)
def test_short_chains_are_not_reported(plan: PipelinePlan) -> None:
    assert look(plan) is None


def test_the_first_sources_show_a_chain_that_is_too_long_whatever_follows() -> None:
    plan = chain(7, 10_000, per_file=6, max_group=10)
    assert look(plan) == ChainFinding(LargestGroup(21, 21, True), False, FIELD, 6, 6)
    assert fail_to_list(plan).endswith(
        f"align the boundaries of sources and shared storage, as with {FIELD}: 6"
    )


def test_a_look_at_a_slow_listing_ends_without_a_verdict() -> None:
    plan = chain(7, per_file=6)
    assert look(plan) is not None
    clock = chain_of([0.0] * 20, count(9.0))
    assert find_chaining(plan, clock.__next__) is None
    assert next(clock) == 10.0


def test_a_listing_that_fails_shows_no_chain() -> None:
    class Broken(Steps):
        def list_sources(self) -> Iterator[Source]:
            yield from super().list_sources()
            raise ValueError

    source = Broken(steps=tuple(range(60)), per_file=6)
    assert look(replace_source(source, Runs(steps_a_file=7))) is None


def test_chunks_of_a_zarr_sink_are_tried() -> None:
    class Timed(Steps):
        def list_sources(self) -> Iterator[Source]:
            for source in super().list_sources():
                yield source._replace(meta={"time": source.data})

    source = Timed(steps=tuple(range(48)), per_file=24)
    found = look(replace_source(source, ZarrSink(chunk=10)))
    assert found == ChainFinding(LargestGroup(48, 48, True), True, "spec.sink.with.chunk", 12, 24)


def test_two_sources_of_one_step_are_refused() -> None:
    class Placed(Steps):
        def list_sources(self) -> Iterator[Source]:
            positions = {"a.nc": 3, "b.nc": 4, "c.nc": 3}
            return (Source(key, "1", [], {"time": at}) for key, at in positions.items())

    with pytest.raises(PartitionError, match=r"'a\.nc' and 'c\.nc' have the same position, time 3"):
        list_groups(replace_source(Placed(steps=[1]), ZarrSink(chunk=2)))
