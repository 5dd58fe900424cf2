"""A task is blamed for the workers that it loses, unless a lost node explains the loss."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.preemption.blame import Blame, WorkerDeath

nodes = st.sampled_from(["a", "b", "c"])
tasks = st.sampled_from([b"x", b"y"])
deaths = st.lists(st.tuples(tasks, nodes, st.floats(0.0, 100.0)), max_size=12)


@given(deaths=deaths, gone=st.sets(nodes))
def test_law_only_blame_for_lost_nodes_is_withdrawn(
    deaths: list[tuple[bytes, str, float]], gone: set[str]
) -> None:
    blame = Blame()
    for task, node, sure_at in deaths:
        blame.note([task], WorkerDeath(node, sure_at))
    blame.inherit(b"child", b"x")
    blame.forgive(gone)
    for task, of in ((b"x", b"x"), (b"y", b"y"), (b"child", b"x")):
        left = [sure_at for each, node, sure_at in deaths if each == of and node not in gone]
        assert blame.count(task) == len(left)
        assert blame.find_sure_at([task]) == max(left, default=0.0)


def test_losses_of_contact_with_surviving_nodes_all_count() -> None:
    blame = Blame()
    assert blame.note_out_of_reach([b"x", b"y"], "a") == 1
    assert blame.note_out_of_reach([b"x"], "b") == 2
    blame.forgive(["a"])
    assert blame.note_out_of_reach([b"x"], "c") == 2
    assert blame.note_out_of_reach([], "c") == 0


def test_a_task_inherits_no_blame_from_an_unblamed_task() -> None:
    blame = Blame()
    blame.inherit(b"child", b"x")
    assert blame.count(b"child") == 0
