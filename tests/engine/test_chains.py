"""Chains: which stages run in one worker, and that chains do not change the output."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain_player import KINDS, Pass, Played, Player, SpreadSlowly, make_plan
from example_counts import scale_examples
from strandline.engine.autoscaler.bin_packing import Units
from strandline.engine.autoscaler.water_filling import find_pace
from strandline.engine.call.slots import Slot as Waiting
from strandline.engine.call.stage import stage_call
from strandline.engine.call.stage.stage_call import StageCall
from strandline.engine.call.stage.stage_tally import StageBrokenError
from strandline.engine.core.loss_streaks import ChainStreak
from strandline.engine.flow.chains import Chain, cut_chains, explain_cut, list_apart
from strandline.engine.flow.flow import Flow
from strandline.engine.worker.chain_call import ChainCall
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import mark_streaming
from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedTask, Lineage, Slot, Task
from test_flow import make_slots, pass_on
from test_scaling_filling import fill_up, make_crew

# Fan-outs are drawn more often, because most errors occur after a fan-out.
PIPELINES = st.lists(st.sampled_from([*sorted(KINDS), "spread", "spread"]), min_size=2, max_size=7)


def isolate(plan: PipelinePlan, cuts: set[int]) -> PipelinePlan:
    """Return the same pipeline with these stages isolated."""
    stages = [replace(each, isolate=at in cuts) for at, each in enumerate(plan.stages)]
    return replace(plan, stages=tuple(stages))


def play(plan: PipelinePlan, chains: list[Chain], numbers: list[int], seed: int) -> Played:
    return Player(plan, chains, seed).play(numbers)


@settings(max_examples=scale_examples(1600))  # one example takes a few milliseconds
@given(
    kinds=PIPELINES,
    cuts=st.sets(st.integers(0, 6), max_size=3),
    numbers=st.lists(st.integers(0, 50), max_size=6, unique=True),
    seeds=st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
)
def test_law_results_of_a_source_do_not_depend_on_chains(
    kinds: list[str], cuts: set[int], numbers: list[int], seeds: tuple[int, int]
) -> None:
    plan = make_plan(kinds)
    apart = play(plan, list_apart(plan.stages), numbers, seeds[0])
    chained = play(plan, cut_chains(isolate(plan, cuts).stages), numbers, seeds[1])

    assert chained.failed.keys() == apart.failed.keys()
    ours, theirs = chained.keep_whole(), apart.keep_whole()
    assert ours.events == theirs.events
    assert ours.changes == theirs.changes
    assert ours.counts == theirs.counts
    # A replay of a failed source writes outputs again, so compare outputs only without failures.
    if not apart.failed:
        assert ours.outputs == theirs.outputs


@settings(max_examples=scale_examples(1600))  # one example takes a few milliseconds
@given(
    kinds=PIPELINES,
    cuts=st.sets(st.integers(0, 6), max_size=3),
    numbers=st.lists(st.integers(0, 50), max_size=9, unique=True),
    seeds=st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
    split=st.sampled_from([0.1, 0.3, 1.0]),
)
def test_law_results_of_a_source_do_not_depend_on_splits(
    kinds: list[str], cuts: set[int], numbers: list[int], seeds: tuple[int, int], split: float
) -> None:
    plan = make_plan(kinds)
    whole = play(plan, list_apart(plan.stages), numbers, seeds[0])
    chains = cut_chains(isolate(plan, cuts).stages)
    assert_same(Player(plan, chains, seeds[1], split=split).play(numbers), whole)


def assert_same(parted: Played, whole: Played) -> None:
    assert parted.failed.keys() == whole.failed.keys()
    ours, theirs = parted.keep_whole(), whole.keep_whole()
    assert (ours.events, ours.counts) == (theirs.events, theirs.counts)
    assert ours.changes == theirs.changes
    if not whole.failed:
        assert ours.outputs == theirs.outputs


@pytest.mark.parametrize(
    ("kinds", "cuts"),
    [
        (["pass"], set()),
        (["spread", "pass", "pass", "join", "pass"], {1, 3}),
        (["spread", "batch", "pass", "drop"], set()),
        (["pass", "batch", "pass", "keep"], set()),
        (["halve", "pass"], {0}),
        (["pass", "halve", "spread", "halve"], set()),
        (["keep", "keep", "pass"], set()),
        (["yield", "pass", "pass", "join"], {3}),
    ],
    ids=str,
)
def test_law_a_worker_that_dies_after_a_split_loses_nothing(
    kinds: list[str], cuts: set[int]
) -> None:
    plan = make_plan(kinds)
    whole = play(plan, list_apart(plan.stages), list(range(12)), 0)
    chains = cut_chains(isolate(plan, cuts).stages)
    for seed in range(30):
        player = Player(plan, chains, seed, suspected=0.0, split=0.2, deaths=0.5)
        assert_same(player.play(range(12)), whole)


@pytest.mark.parametrize("kinds", [["pass"], ["pass", "pass", "pass"], ["yield", "pass"]])
def test_only_the_running_task_stays_with_its_call(kinds: list[str]) -> None:
    plan = make_plan(kinds)
    splits = [
        Player(plan, cut_chains(plan.stages), seed, suspected=0.0, split=0.2).play(range(20)).split
        for seed in range(20)
    ]
    assert max(splits) > 0


def test_a_worker_gives_back_tasks_beyond_a_calls_size() -> None:
    plan = make_plan(["pass", "spread", "pass", "pass"])
    chains = cut_chains(plan.stages)
    given_back = [
        Player(plan, chains, seed, suspected=0.0).play(range(20)).given_back for seed in range(20)
    ]
    assert max(given_back) > 0


@pytest.mark.parametrize(
    ("first", "each", "stays"),
    [
        (0.001, 0.001, 50),  # passing the task on would take longer
        (0.05, 0.001, 50),  # the initial load time is ignored
        (0.05, 0.05, 2),
        (5.0, 0.001, 1),  # the cost is unknown, and others may wait
    ],
)
def test_a_worker_keeps_quick_tasks_of_a_slow_fan_out(
    first: float, each: float, stays: int
) -> None:
    times = iter([1.0, first, *[each] * 49])
    moment = 0.0

    def spend(task: Task) -> Task:
        nonlocal moment
        moment += next(times)
        return task

    class Fifty(Stage):
        """Fans out."""

        def process(self, task: Task) -> list[Slot]:
            """Return fifty tasks."""
            spend(task)
            return [Task(number) for number in range(50)]

    class Spend(Stage):
        """Spends time."""

        def process(self, task: Task) -> Task:
            """Return the same task."""
            return spend(task)

    stages = [StagePlan(type(stage).__name__, "s", stage) for stage in (Fifty(), Spend())]
    calls = [StageCall(stage, None, lambda: moment) for stage in stages]
    call = ChainCall(stages, calls, lambda: moment, pickle.dumps)
    (part,) = call.stream([Task([1], None, Lineage(b"s" * 16, b"t" * 16, "key"))])
    assert [emitted.link for emitted in part.receipt.emitted].count(1) == 50 - stays


@pytest.mark.parametrize("kinds", [["fail", "pass"], ["pass", "fail"], ["pass", "fail", "pass"]])
@pytest.mark.parametrize("suspected", [0.0, 1.0])
def test_unpicklable_data_fails_its_source_under_its_stage(
    kinds: list[str], suspected: float
) -> None:
    plan = make_plan(kinds)
    number = next(number for number in range(20) if fails_unpickled(kinds, number))
    played = Player(plan, cut_chains(plan.stages), 1, suspected).play([number])
    assert list(played.failed.values()) == [{f"fail-{kinds.index('fail')}"}]


def fails_unpickled(kinds: list[str], number: int) -> bool:
    """Return True if the failing stage returns unpicklable data for this number."""
    return (number + kinds.index("fail")) % 14 == 13


def test_no_more_work_is_done_for_a_failed_source() -> None:
    seen: list[int] = []

    class Half(Stage):
        """Fails at the first of the sibling tasks."""

        def process(self, task: Task) -> list[Slot]:
            """Return the same task, or fail."""
            return [FailedTask("no") if task.data[-1] == 0 else task]

    class See(Stage):
        """Records its tasks."""

        def process(self, task: Task) -> Task:
            """Return the same task."""
            seen.append(task.data[-1])
            return task

    class Three(Stage):
        """Fans out into three."""

        def process(self, task: Task) -> list[Slot]:
            """Return three tasks."""
            return [Task([*task.data, number]) for number in range(3)]

    stages = [StagePlan(type(stage).__name__, "s", stage) for stage in (Three(), Half(), See())]
    calls = [StageCall(stage, None, lambda: 0.0) for stage in stages]
    call = ChainCall(stages, calls, lambda: 0.0, pickle.dumps)
    root = Task([1], None, Lineage(b"s" * 16, b"t" * 16, "key"))
    # Siblings run singly until the duration of a task is known.
    (part,) = call.stream([root])
    assert [failure.stage for failure in part.receipt.failures] == ["Half"]
    assert (seen, part.data) == ([], [])


ONE = StagePlan("a", "a", Pass())


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({}, {}, None),
        ({"batch_size": 4}, {"batch_size": 4}, None),
        ({"batch_size": 4}, {}, None),
        ({"gpu": 1.0}, {"gpu": 1.0}, "gpu"),
        ({"memory": 1}, {"memory": 1}, "memory"),
        ({"max_memory": 1}, {"max_memory": 1}, "memory"),
        ({"custom": {"nvdec": 1.0}}, {"custom": {"nvdec": 1.0}}, None),
        ({"group": 2}, {}, None),
        ({"isolate": True}, {}, "isolate"),
        ({}, {"isolate": True}, "isolate"),
        ({}, {"group": 2}, "group"),
        ({}, {"cpu": 2.0}, "resources"),
        ({}, {"gpu": 0.5}, "resources"),
        ({}, {"memory": 1}, "resources"),
        ({}, {"custom": {"nvdec": 1.0}}, "resources"),
        ({"runtime_env": {"pip": ["x"]}}, {}, "runtimeEnv"),
        ({}, {"min_workers": 2}, None),
        ({}, {"max_workers": 3}, "workers"),
        ({"max_workers": 2}, {}, "workers"),
        ({"max_age": 1.0}, {}, "workers"),
        ({}, {"max_memory": 1}, "memory"),
        ({"max_memory": 1}, {}, "workers"),
        ({"timeout": 1.0}, {}, "timeout"),
        ({}, {"timeout": 1.0}, "timeout"),
        ({}, {"batch_size": 4}, "batchSize"),
        ({}, {"stage": SpreadSlowly(), "streams": True}, "streams"),
        ({"stage": SpreadSlowly(), "streams": True}, {}, None),
        ({}, {"streams": True}, None),
    ],
)
def test_neighbors_run_together_unless_a_worker_is_required(
    first: dict[str, Any], second: dict[str, Any], why: str | None
) -> None:
    stages = [replace(ONE, **first), replace(ONE, name="b", **second)]
    assert explain_cut(stages[:1], stages[1]) == why
    assert [len(chain.stages) for chain in cut_chains(stages)] == ([2] if why is None else [1, 1])


def test_a_chain_is_named_after_its_ends_and_has_the_needs_of_all_stages() -> None:
    stages = [replace(ONE, name=name, cpu=2.0) for name in "abc"]
    stages[1] = replace(stages[1], min_workers=3)
    (chain,) = cut_chains(stages)
    plan = chain.plan
    assert (chain.name, plan.name, plan.cpu, plan.min_workers) == ("a to c", "a to c", 2.0, 3)
    assert [chain.name for chain in list_apart(stages)] == ["a", "b", "c"]
    assert [chain.first for chain in list_apart(stages)] == [0, 1, 2]


def make_chained_flow(stages: int) -> Flow:
    plan = make_plan(["pass"] * stages)
    return Flow(plan, cut_chains(plan.stages))


def give_back_next(flow: Flow, link: int) -> list[Waiting]:
    """Return the next batch of the first chain, after its worker returned it for stage `link`."""
    batch = flow.next_batch(0)
    receipt = pass_on(batch)
    emitted = tuple(each._replace(link=link) for each in receipt.emitted)
    flow.complete(0, batch, receipt._replace(emitted=emitted), "block")
    return batch


def test_returned_tasks_run_before_new_tasks() -> None:
    flow = make_chained_flow(3)
    flow.enter(make_slots(3))
    batch = give_back_next(flow, 2)

    (first,) = flow.next_batch(0)
    assert (first.link, first.block, first.root) == (2, "block", batch[0])
    (second,) = flow.next_batch(0, 5)[:1]
    assert second.link == 0  # tasks for different links never share a call
    assert [stage.running for stage in flow.list_stages()] == [3, 0, 0]


def test_waiting_tasks_are_shown_under_their_stage() -> None:
    flow = make_chained_flow(3)
    flow.enter(make_slots(2))
    give_back_next(flow, 1)
    shown = [(stage.name, stage.waiting) for stage in flow.list_stages()]
    assert shown == [("pass-0", 1), ("pass-1", 1), ("pass-2", 0)]


def test_a_suspect_remains_a_suspect_until_the_end_of_its_chain() -> None:
    plan = make_plan(["pass", "pass", "pass"])
    flow = Flow(plan, [Chain(0, plan.stages[:2]), Chain(2, plan.stages[2:])])
    flow.enter([slot._replace(is_suspect=True, deaths=2) for slot in make_slots(1)])
    for link in (1, 0):
        batch = give_back_next(flow, link)
        assert (batch[0].is_suspect, batch[0].deaths) == (True, 2)
    (behind,) = flow.next_batch(1)
    assert (behind.is_suspect, behind.deaths) == (False, 0)


def test_a_stage_within_a_chain_that_fails_all_tasks_is_named() -> None:
    plan = make_plan(["pass", "fail"])
    numbers = [number for number in range(2000) if (number + 1) % 14 == 0]
    with pytest.raises(StageBrokenError, match="stage 'fail-1' failed each of its first"):
        play(plan, cut_chains(plan.stages), numbers, 1)


def test_the_streak_of_a_stage_ends_with_its_own_success() -> None:
    streak = ChainStreak(3)
    for source in (b"a", b"b", b"c", b"d"):
        streak.note((0, False), [source])  # the call was lost with the whole batch
        streak.end((0, True))
        streak.end((1, True))
        streak.note((2, True), [source])  # the source ran alone, so the stage is known
    assert (streak.causes, streak.culprit) == (4, 2)
    streak.end((0, False))
    assert (streak.causes, streak.culprit) == (0, None)


def test_law_only_the_first_stage_of_a_chain_yields_in_parts() -> None:
    stages = list(mark_streaming([ONE, StagePlan("b", "b", SpreadSlowly()), ONE]))
    assert [len(chain.stages) for chain in cut_chains(stages)] == [1, 2]
    assert isinstance(stages[1].stage, Stage)


def test_tasks_returned_behind_a_group_are_retried_one_by_one() -> None:
    plan = make_plan(["spread", "join", "pass"])
    flow = Flow(plan, [Chain(0, plan.stages[:1]), Chain(1, plan.stages[1:])])
    slots = [slot._replace(link=1) for slot in make_slots(3)]
    flow.queues[1].waiting.extend(slots)
    batch = flow.next_batch(1, 3)
    assert len(batch) == 3
    flow.requeue(1, batch, 3, holds=False, most_deaths=3)
    assert [flow.next_batch(1, 3)[0].source for _ in range(3)] == [slot.source for slot in slots]
    flow.requeue(1, slots, 3, holds=True, most_deaths=3)
    assert len(flow.suspects) == 3


def test_a_call_that_is_answered_in_parts_counts_its_tasks_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage_call, "PART_TASKS", 2)
    plan = make_plan(["yield", "pass"])
    calls = [StageCall(stage, None, lambda: 0.0) for stage in plan.stages]
    call = ChainCall(plan.stages, calls, lambda: 0.0, pickle.dumps)
    parts = list(call.stream([Task([6], None, Lineage(b"s" * 16, b"t" * 16, "key"))]))
    assert len(parts) > 1
    assert sum(part.receipt.counts.tasks_in for part in parts) == 1
    assert sum(part.receipt.counts.tasks_out for part in parts) == 4


@given(
    stages=st.lists(
        st.tuples(st.floats(0.01, 20), st.sampled_from([0.1, 1.0, 5.0])), min_size=2, max_size=6
    ),
    need=st.integers(1, 3),
    nodes=st.lists(st.integers(3, 12), min_size=1, max_size=4),
)
def test_law_a_chain_on_all_workers_is_at_least_as_fast_as_separate_pools(
    stages: list[tuple[float, float]], need: int, nodes: list[int]
) -> None:
    # Costs per source: the cost of a task times the number of tasks that earlier fan-outs make.
    costs = [cost * math.prod(fan for _, fan in stages[:at]) for at, (cost, _) in enumerate(stages)]
    apart = [make_crew(1 / cost, (need,)) for cost in costs]
    together = [make_crew(1 / sum(costs), (need,))]
    units: list[Units] = [(node,) for node in nodes]

    best = find_pace(apart, fill_up(apart, units))

    assert find_pace(together, fill_up(together, units)) >= best * (1 - 1e-9)
