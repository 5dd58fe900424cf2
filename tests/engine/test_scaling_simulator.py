"""The planner controls simulated pipelines, and a linear program gives the optimum."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from scaling_player import Part, Play, Player
from scaling_simulator import (
    BEGIN,
    END,
    PAGE,
    PLAYS,
    RATIO,
    Result,
    find_best_whole,
    find_optimum,
    find_throughput,
    judge,
    print_table,
    spread,
)
from strandline.engine.autoscaler.model import NodeResources, ScalingParams

NAMES = [f"{play.name}, {len(play.nodes)} nodes" for play in PLAYS]
SETTLING = [number for number, play in enumerate(PLAYS) if not any(p.skew for p in play.parts)]
ON_EIGHT = PLAYS[0]


@cache
def judge_once(number: int) -> Result:
    return judge(PLAYS[number])


@pytest.mark.parametrize("number", range(len(PLAYS)), ids=NAMES)
def test_pools_of_ten_reach_nine_tenths_of_the_optimum(number: int) -> None:
    result = judge_once(number)

    goal = result.optimum if result.least >= 10 else result.whole
    assert result.reached >= 0.9 * goal


@pytest.mark.parametrize("number", SETTLING, ids=[NAMES[number] for number in SETTLING])
def test_nothing_changes_in_the_last_third(number: int) -> None:
    result = judge_once(number)

    late = [moment for moment in result.moments if moment.now >= result.play.seconds * 2 / 3]
    assert len(late) >= 10
    assert not any(stage.why for moment in late for stage in moment.plan.stages)


def test_costs_of_one_ten_and_two_on_eight_cpus_settle_in_half_a_minute() -> None:
    best, _ = find_best_whole(RATIO, [1.0] * 3, NodeResources(cpu=8))

    moments = Player(ON_EIGHT).run()

    assert best == 5
    assert find_throughput(moments, 30) >= 0.9 * best
    assert next(moment.now for moment in moments if moment.pace >= 0.9 * best) < 30


def test_the_linear_programme_agrees_with_arithmetic() -> None:
    optimum, workers = find_optimum(RATIO, [1.0] * 3, [NodeResources(cpu=130)], 0)

    assert optimum == pytest.approx(100)
    assert workers == pytest.approx([10, 100, 20])


def test_the_player_does_what_arithmetic_says() -> None:
    play = replace(ON_EIGHT, parts=(Part("a", 0.5, ceiling=2), Part("b", 0.1, ceiling=1)))

    assert find_throughput(Player(play).run(), 30) == pytest.approx(4, rel=0.02)


def test_a_slow_stage_holds_back_earlier_stages() -> None:
    play = replace(ON_EIGHT, parts=(Part("fast", 0.05), Part("slow", 5.0, ceiling=1)))
    player = Player(play)

    player.run()

    assert all(exposed.queue <= 200 for exposed in player.exposed_groups)
    assert player.exposed_groups[0].tasks_in < 300


def test_at_the_end_of_the_listing_the_last_stage_gets_the_room() -> None:
    parts = (Part("first", 1.0), Part("last", 1.0, fan=0, later=4.0, changes_at=20))
    play = Play("end", parts, spread(1, NodeResources(cpu=10)), seconds=300, sources=400)
    players = Player(play), Player(play, ScalingParams(gain=1e9))

    moved, held = (player.run() for player in players)

    assert players[0].is_done
    assert max(moment.workers[1] for moment in moved) > max(moment.workers[1] for moment in held)
    assert moved[100].done > held[100].done


def test_a_lost_node_costs_its_share_and_no_more() -> None:
    play = next(play for play in PLAYS if play.lost)

    moments = Player(play).run()

    before, after = find_throughput(moments[:30], 20), find_throughput(moments, 60)
    assert after >= 0.9 * before * 3 / 4
    assert not any(moment.plan.below for moment in moments[35:])


def test_the_page_has_the_table_that_the_command_prints() -> None:
    table = print_table([judge_once(number) for number in range(len(PLAYS))])

    kept = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip()
    assert kept == table, "run tests/engine/scaling_simulator.py --write"
