"""No number or kind of lost nodes is ever blamed on a source or a stage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.exceptions import ActorDiedError, ActorUnavailableError

from node_loss_player import DEATHS, NodeLossPlayer
from strandline.engine.core.pools import DEATHS_PER_POOL, DEATHS_PER_TASK, PoolBrokenError
from strandline.engine.preemption.nodes import DEATH_SECONDS, SILENCE_SECONDS

numbers = st.integers(0, 30)
steps = st.one_of(
    st.tuples(st.just("answer"), numbers, st.integers(1, 4)),
    st.tuples(st.just("answer"), numbers, st.integers(1, 4)),
    st.tuples(st.just("lose"), numbers, st.sampled_from(sorted(DEATHS)), st.booleans()),
    st.tuples(st.just("learn")),
    st.tuples(st.just("join")),
)


def play(player: NodeLossPlayer, step: tuple[Any, ...]) -> None:
    player.clock += 1.0
    name, *rest = step
    if name == "answer":
        player.answer(*rest)
    elif name == "lose":
        choice, word, is_known = rest
        player.lose(choice, word, is_known=is_known)
    elif name == "learn":
        player.learn()
    else:
        player.join()
    if not player.nodes:
        player.join()
    player.turn()


@given(sources=st.integers(1, 3), children=st.integers(1, 6), story=st.lists(steps, max_size=60))
def test_law_no_sequence_of_lost_nodes_fails_a_source_or_breaks_a_pool(
    sources: int, children: int, story: list[tuple[Any, ...]]
) -> None:
    player = NodeLossPlayer(sources, children)
    player.join()
    player.turn()
    for step in story:
        play(player, step)
    player.finish()
    assert player.failures == []
    assert player.finished == player.sources
    for source in player.sources:
        assert set(player.reached[source]) == set(range(children))


@given(
    sources=st.integers(1, 3),
    children=st.integers(1, 6),
    story=st.lists(st.tuples(numbers, st.integers(1, 4), st.booleans()), max_size=20),
)
def test_law_nodes_evacuated_in_time_cost_nothing(
    sources: int, children: int, story: list[tuple[int, int, bool]]
) -> None:
    player = NodeLossPlayer(sources, children)
    player.join()
    for choice, size, goes in story:
        player.join()
        player.turn()
        player.answer(choice, size)
        if goes:
            player.leave(choice, size)
    player.finish()
    assert not player.losses.anything_died
    assert player.finished == player.sources
    for source in player.sources:
        assert dict(player.reached[source]) == dict.fromkeys(range(children), 1)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("word", sorted(DEATHS))
def test_law_a_source_may_lose_its_data_with_any_number_of_nodes(word: str, is_known: bool) -> None:
    player = NodeLossPlayer(1, 3)
    for _ in range(10):
        player.join()
        player.turn()
        player.answer(0, 2)  # the node now has two tasks
        player.turn()
        player.lose(0, word, is_known=is_known)
        player.join()
        player.turn()
        player.learn()
        player.clock += 1.0
        while player.answer(0, 2):
            if player.losses.replays:
                break
        player.turn()
        player.lose(0, word, is_known=is_known)
        player.learn()
    player.finish()
    assert player.failures == []
    assert player.finished == player.sources


def kill_alone(player: NodeLossPlayer, error: Exception) -> None:
    """Lose a worker of the first stage while its node stays, then replace it."""
    player.turn()
    (worker,) = [each for each in player.pools.workers if each.stage == 0]
    player.losses.take_out(worker, error)
    player.nodes.clear()
    player.pools.workers.clear()
    for pool in player.pools.pools:
        pool.workers.clear()
    player.join()


def test_law_a_task_that_kills_workers_on_live_nodes_fails() -> None:
    player = NodeLossPlayer(1, 1)
    player.join()
    for _ in range(DEATHS_PER_TASK):
        assert player.failures == []
        kill_alone(player, ActorDiedError())
    player.turn()
    assert player.failures == []  # the node may have died, too
    player.clock += DEATH_SECONDS
    player.turn()
    assert [failure.message for failure in player.failures] == [
        "lost 3 workers; the last: The actor died unexpectedly before finishing this task."
    ]


def test_law_a_worker_whose_node_is_missed_later_is_forgiven() -> None:
    player = NodeLossPlayer(1, 1)
    player.join()
    for _ in range(DEATHS_PER_TASK - 1):
        kill_alone(player, ActorDiedError())
    player.turn()
    player.lose(0, "worker", is_known=False)
    player.learn()
    player.clock += DEATH_SECONDS
    player.finish()
    assert player.failures == []
    assert player.finished == player.sources


def test_law_a_stage_that_always_loses_contact_on_live_nodes_breaks_its_pool() -> None:
    player = NodeLossPlayer(1, 1)
    player.join()
    for _ in range(DEATHS_PER_POOL + 1):
        kill_alone(player, ActorUnavailableError("keepalive watchdog timeout", b"a" * 16))
    player.clock += SILENCE_SECONDS
    with pytest.raises(PoolBrokenError, match="stage 's0' lost 4 workers in a row"):
        player.losses.judge()


@pytest.mark.parametrize("word", sorted(DEATHS))
def test_law_consecutive_node_losses_break_no_pool_even_if_noticed_late(word: str) -> None:
    nodes = 2 * DEATHS_PER_POOL
    player = NodeLossPlayer(nodes, 1)
    for _ in range(nodes):
        player.join()
    player.turn()
    for _ in range(nodes):
        player.lose(0, word, is_known=False)
    player.learn()
    player.clock += SILENCE_SECONDS
    player.losses.judge()
    player.finish()
    assert player.finished == player.sources


def test_a_worker_that_dies_on_a_departing_node_is_not_blamed() -> None:
    player = NodeLossPlayer(1, 1)
    player.join()
    for _ in range(DEATHS_PER_TASK + DEATHS_PER_POOL):
        player.turn()
        player.marks.leaving[player.nodes[0]] = player.clock + 30.0
        kill_alone(player, ActorDiedError())
    player.clock += SILENCE_SECONDS
    player.finish()
    assert player.failures == []
