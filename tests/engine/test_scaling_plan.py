"""Plans for typical situations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaling_cases import CPU, World, is_idle, make_inputs, make_stage
from strandline.engine.autoscaler.model import (
    Inputs,
    NodeLook,
    NodeResources,
    Placement,
    ScalingParams,
    ScalingState,
    StageLook,
)
from strandline.engine.autoscaler.planner import plan

PARAMS = ScalingParams()
EIGHT = {"n": NodeResources(cpu=8)}
RATIO = (make_stage("a", 0.1), make_stage("b", 1.0), make_stage("c", 0.2))


def wish(inputs: Inputs, state: ScalingState | None = None) -> ScalingState:
    """Return the state after the same plan has been wanted for a long time."""
    return replace(state or plan(PARAMS, ScalingState.begin(), inputs).state, wished_since=-100.0)


def test_pools_of_unknown_speed_share_idle_resources() -> None:
    stages = [make_stage(name, None) for name in "abc"]

    answer = plan(PARAMS, ScalingState.begin(), make_inputs(stages, EIGHT))

    assert [stage.starts for stage in answer.stages] == [3, 3, 2]
    assert answer["a"].why == (
        "3 more workers for 'a': its speed is still unknown, so it gets an equal share"
    )
    assert answer.throughput is None
    assert answer.bottleneck is None


def test_known_speeds_assign_workers_to_the_slowest_at_once() -> None:
    answer = plan(
        PARAMS, ScalingState.begin(), make_inputs(RATIO, EIGHT, {"n": {"a": 1, "b": 1, "c": 1}})
    )

    assert [stage.workers for stage in answer.stages] == [1, 6, 1]
    assert answer["b"].start == (Placement("n", 5),)
    assert answer["b"].why == "5 more workers for 'b': it sets the pace at 1 sources per second"
    assert answer.bottleneck == "b"
    assert answer.throughput == 5


def test_an_exchange_waits_for_patience_and_then_drains_no_more_than_needed() -> None:
    world = World(RATIO, EIGHT)
    world.allocation["n"].update({"a": 3, "b": 3, "c": 2})

    answers = [world.look() for _ in range(6)]

    assert [is_idle(answer) for answer in answers] == [True, True, True, False, False, True]
    assert answers[3]["a"].drain == (Placement("n", 2),)
    assert answers[3]["a"].why == (
        "2 fewer workers for 'a': 'b' gets its resources, and the pace rises from 3 to 5 sources "
        "per second"
    )
    assert answers[4]["b"].start == (Placement("n", 2),)
    assert world.count() == {"a": 1, "b": 5, "c": 2}


def test_an_interrupted_wish_restarts_its_patience() -> None:
    inputs = make_inputs(RATIO, EIGHT, {"n": {"a": 3, "b": 3, "c": 2}})
    wishing = plan(PARAMS, ScalingState.begin(), inputs).state
    content = make_inputs(RATIO, EIGHT, {"n": {"a": 1, "b": 6, "c": 1}}, now=2)

    assert wishing.wished_since == 0
    assert plan(PARAMS, wishing, content).state.wished_since is None


def test_a_gain_below_the_minimum_drains_no_worker() -> None:
    stages = (make_stage("a", 1.0), make_stage("b", 1.0))
    inputs = make_inputs(stages, {"n": NodeResources(cpu=21)}, {"n": {"a": 11, "b": 10}})
    better = make_inputs(stages, {"n": NodeResources(cpu=22)}, {"n": {"a": 13, "b": 9}})

    assert is_idle(plan(PARAMS, wish(inputs), inputs))
    assert not is_idle(plan(PARAMS, wish(better), better))
    assert is_idle(plan(replace(PARAMS, gain=0.5), wish(better), better))


def test_a_pool_that_has_just_grown_is_not_drained() -> None:
    inputs = make_inputs(RATIO, EIGHT, {"n": {"a": 3, "b": 3, "c": 2}}, now=100)
    state = wish(inputs)

    assert plan(PARAMS, state, inputs)["a"].drains == 2
    fresh = plan(PARAMS, replace(state, grown_at={"a": 95.1, "c": 0.0}), inputs)
    assert not fresh["a"].drains
    assert fresh["c"].drains == 1


def test_a_worker_that_waits_for_room_starts_only_in_free_room() -> None:
    stages = [make_stage("a", 1.0), make_stage("b", 4.0)]
    node = NodeLook("n", NodeResources(cpu=5), {"a": 1, "b": 1}, {"a": 2})
    stages = [
        replace(stage, ready=1, draining=node.draining.get(stage.name, 0)) for stage in stages
    ]

    answer = plan(PARAMS, ScalingState.begin(), Inputs(0, tuple(stages), (node,)))

    assert answer["b"].workers == 4
    assert answer["b"].starts == 1


def test_workers_without_a_known_node_take_room_and_are_not_started_twice() -> None:
    stage = make_stage("a", 1.0, starting=3)

    answer = plan(
        PARAMS, ScalingState.begin(), Inputs(0, (stage,), (NodeLook("n", NodeResources(cpu=4)),))
    )

    assert answer["a"].workers == 4
    assert answer["a"].starts == 1


def test_a_floor_is_restored_without_patience_at_the_cost_of_others() -> None:
    stages = (make_stage("a", 0.1), make_stage("b", 10.0), make_stage("c", 1.0, floor=2))

    answer = plan(PARAMS, ScalingState.begin(), make_inputs(stages, EIGHT, {"n": {"a": 2, "b": 6}}))

    assert sum(stage.drains for stage in answer.stages) == 2
    assert answer["a"].drain == (Placement("n", 1),)
    assert answer["a"].why == (
        "1 fewer worker for 'a': 'c' gets its resources to reach the minimum number of workers"
    )
    assert not answer.below


def test_a_floor_without_room_is_named_with_the_reason() -> None:
    stages = (
        make_stage("small", 1.0, floor=9),
        make_stage("large", 1.0, NodeResources(cpu=1, gpu=1, memory=2**31, custom={"nvdec": 1})),
    )

    answer = plan(PARAMS, ScalingState.begin(), make_inputs(stages, EIGHT))

    assert answer.below == {
        "small": "'small' has 8 of at least 9 workers: no node has room for 1 CPU",
        "large": (
            "'large' has 0 of at least 1 worker: no node is large enough for "
            "1 CPU, 1 GPU, 2 GiB of memory, 1 nvdec"
        ),
    }


def test_if_floors_do_not_fit_each_stage_first_gets_one_worker() -> None:
    stages = [make_stage(name, 1.0, floor=4) for name in "abc"]

    answer = plan(PARAMS, ScalingState.begin(), make_inputs(stages, {"n": NodeResources(cpu=5)}))

    assert [stage.starts for stage in answer.stages] == [2, 2, 1]


def test_workers_of_a_lost_node_are_replaced_without_patience() -> None:
    world = World(RATIO, {"n1": NodeResources(cpu=8), "n2": NodeResources(cpu=8)})
    for _ in range(10):
        world.look()
    del world.nodes["n1"], world.allocation["n1"]
    assert world.count() == {"a": 0, "b": 6, "c": 2}

    drained, started = world.look(), world.look()

    assert sum(stage.drains for stage in drained.stages) == 1
    assert started["a"].starts == 1
    assert started.throughput == 5


def test_a_node_that_joins_is_used_at_once() -> None:
    world = World(RATIO, EIGHT)
    for _ in range(10):
        world.look()
    before = world.look().throughput
    world.nodes["more"], world.allocation["more"] = (
        NodeResources(cpu=8),
        type(world.allocation["n"])(),
    )

    answer = world.look()

    assert sum(stage.starts for stage in answer.stages) == 8
    assert answer.throughput is not None
    assert before is not None
    assert answer.throughput >= 2 * before


def test_a_worker_must_fit_on_one_node() -> None:
    stages = [make_stage("a", 1.0, NodeResources(cpu=4))]

    answer = plan(
        PARAMS,
        ScalingState.begin(),
        make_inputs(stages, {f"n{at}": NodeResources(cpu=6) for at in range(3)}),
    )

    assert [placement.count for placement in answer["a"].start] == [1, 1, 1]


def test_room_is_made_on_one_node_for_one_worker() -> None:
    stages = (make_stage("a", 0.1), make_stage("b", 10.0, NodeResources(cpu=4)))
    allocation = {"n1": {"b": 1, "a": 1}, "n2": {"a": 5}}
    inputs = make_inputs(
        stages, {"n1": NodeResources(cpu=5), "n2": NodeResources(cpu=5)}, allocation
    )

    answer = plan(PARAMS, wish(inputs), inputs)

    assert answer["a"].drain == (Placement("n2", 4),)
    assert answer["b"].workers == 2


def test_gpu_nodes_are_left_to_stages_that_need_gpus() -> None:
    stages = (make_stage("a", 1.0), make_stage("g", 1.0, NodeResources(cpu=1, gpu=1)))
    nodes = {"cpu": NodeResources(cpu=8), "gpu": NodeResources(cpu=4, gpu=4)}

    answer = plan(PARAMS, ScalingState.begin(), make_inputs(stages, nodes))

    assert answer["g"].start == (Placement("gpu", 4),)
    assert answer["a"].start == (Placement("cpu", 5),)  # a quarter more than the four GPU workers


def test_workers_without_needs_are_limited_by_the_pace_and_the_cpus() -> None:
    free, busy = make_stage("free", 1.0, NodeResources()), make_stage("busy", 1.0, ceiling=3)

    both = plan(PARAMS, ScalingState.begin(), make_inputs((free, busy), EIGHT))
    alone = plan(PARAMS, ScalingState.begin(), make_inputs((free,), EIGHT))
    unknown = plan(
        PARAMS, ScalingState.begin(), make_inputs((make_stage("x", None, NodeResources()),), EIGHT)
    )

    assert both["free"].start == (Placement(None, 4),)
    assert alone["free"].starts == 8
    assert unknown["x"].starts == 1


def test_fan_out_and_filters_count() -> None:
    stages = (
        make_stage("list", 1.0, fan=50),
        make_stage("clip", 0.1, fan=0.1),
        make_stage("w", 1.0),
    )

    answer = plan(PARAMS, ScalingState.begin(), make_inputs(stages, {"n": NodeResources(cpu=110)}))

    assert [stage.workers for stage in answer.stages] == [10, 50, 50]
    assert answer.throughput == pytest.approx(10)


def test_the_bottleneck_is_the_lowest_level_with_a_queue() -> None:
    stages = (make_stage("a", 1.0), make_stage("b", 2.0, waiting=0), make_stage("c", 1.5))
    allocation = {"n": {"a": 1, "b": 1, "c": 1}}
    quiet = [replace(stage, waiting=0) for stage in stages]

    answer = plan(
        PARAMS, ScalingState.begin(), make_inputs(stages, {"n": NodeResources(cpu=3)}, allocation)
    )
    idle = plan(
        PARAMS, ScalingState.begin(), make_inputs(quiet, {"n": NodeResources(cpu=3)}, allocation)
    )

    assert answer.bottleneck == "c"
    assert answer["b"].level == 0.5
    assert idle.bottleneck is None


def make_end(a_waiting: int, b_waiting: int) -> Inputs:
    """Return inputs after the end of the listing: nine CPUs, of which stage `a` has seven."""
    stages = (make_stage("a", 1.0, waiting=a_waiting), make_stage("b", 1.0, waiting=b_waiting))
    nodes = {"n": NodeResources(cpu=9)}
    return make_inputs(stages, nodes, {"n": {"a": 7, "b": 2}}, sources_left=0)


def test_at_the_end_idle_stages_make_room_for_busy_stages() -> None:
    inputs = make_end(0, 100)

    answer = plan(PARAMS, wish(inputs), inputs)

    assert answer["a"].drains == 7
    assert answer["b"].workers == 9


def test_at_the_end_a_stage_that_may_get_work_keeps_its_floor() -> None:
    stages = (
        make_stage("a", 1.0, waiting=1, tasks_in=200, tasks_out=0),
        make_stage("b", 1.0, waiting=0),
        make_stage("c", 1.0, waiting=100),
    )
    inputs = make_inputs(stages, EIGHT, {"n": {"a": 1, "b": 1, "c": 6}}, sources_left=0)

    assert is_idle(plan(PARAMS, wish(inputs), inputs))


def test_a_stage_that_has_work_again_gets_its_floor_back() -> None:
    stages = (make_stage("a", 1.0, waiting=1), make_stage("b", 1.0, waiting=100))
    inputs = make_inputs(stages, EIGHT, {"n": {"b": 8}}, sources_left=0)

    answer = plan(PARAMS, ScalingState.begin(), inputs)

    assert (answer["a"].workers, answer["b"].drains) == (1, 1)


def test_at_the_end_no_worker_is_drained_for_a_few_seconds_of_work() -> None:
    inputs = make_end(0, 8)

    assert is_idle(plan(PARAMS, wish(inputs), inputs))


def test_at_the_end_no_worker_starts_without_a_task() -> None:
    stages = (make_stage("a", 1.0, waiting=0), make_stage("b", 1.0, waiting=3))
    inputs = make_inputs(stages, EIGHT, {"n": {"a": 1, "b": 1}}, sources_left=0)

    answer = plan(PARAMS, ScalingState.begin(), inputs)

    assert answer["b"].starts == 2
    assert not answer["a"].starts


def test_nothing_changes_after_the_end_of_work() -> None:
    stages = (make_stage("a", 1.0, waiting=0), make_stage("b", None, waiting=0))
    inputs = make_inputs(stages, EIGHT, {"n": {"a": 1, "b": 1}}, sources_left=0)

    answer = plan(PARAMS, ScalingState.begin(), inputs)

    assert is_idle(answer)
    assert answer.throughput is None


def test_fractions_are_counted_exactly() -> None:
    stages = [make_stage("a", 1.0, NodeResources(cpu=0.1))]

    answer = plan(PARAMS, ScalingState.begin(), make_inputs(stages, {"n": NodeResources(cpu=0.7)}))

    assert answer["a"].starts == 7


def test_a_cluster_without_nodes_and_a_pipeline_without_stages_have_plans() -> None:
    nothing = plan(PARAMS, ScalingState.begin(), Inputs(0, (), ()))
    homeless = plan(PARAMS, ScalingState.begin(), Inputs(0, (StageLook("a", CPU),), ()))

    assert nothing.stages == ()
    assert homeless.below == {"a": "'a' has 0 of at least 1 worker: there is no node"}
