"""Rows between operators of Ray Data: what a task, its notes and its team become."""

from __future__ import annotations

import numpy as np
import pytest
from ray import cloudpickle

from strandline.engine.call.stage.receipts import ShapeError
from strandline.engine.call.wire import pack_tasks, unpack_task
from strandline.engine.ray_data.worker import SCHEMA, make_rows, read_notes, unpack_row
from strandline.plan.task import Lineage, Origin, Task


def make_task(slot: int | None, parent: bytes = b"p") -> Task:
    origin = None if slot is None else Origin(parent, slot, 5)
    return Task(slot, {"n": slot}, Lineage(b"s" * 16, b"t%d" % (slot or 0), "key", origin))


def test_tasks_come_back_as_they_were() -> None:
    tasks = [make_task(0), make_task(None)]

    table = make_rows(pack_tasks(tasks), [])

    back = [unpack_task(unpack_row(one)) for one in table.column("task").to_pylist()]
    assert [(task.data, task.meta, task.lineage) for task in back] == [
        (task.data, task.meta, task.lineage) for task in tasks
    ]


def test_arrays_are_read_only_in_the_next_stage() -> None:
    task = Task(np.zeros(3), {"more": np.zeros(3)}, make_task(0).lineage)
    (content,) = make_rows(pack_tasks([task]), []).column("task").to_pylist()
    back = unpack_task(unpack_row(content))
    assert back.meta is not None
    assert (back.data.flags.writeable, back.meta["more"].flags.writeable) == (False, False)


def test_the_slots_of_one_group_are_a_team_and_a_task_without_fan_out_is_its_own() -> None:
    tasks = [make_task(slot) for slot in range(5)] + [make_task(1, b"q"), make_task(None)]

    teams = make_rows(pack_tasks(tasks), [], 2).column("team").to_pylist()

    assert teams == ["70-0", "70-0", "70-1", "70-1", "70-2", "71-0", b"t0".hex()]
    assert set(make_rows(pack_tasks(tasks), []).column("team").to_pylist()) == {""}


@pytest.mark.parametrize("count", [0, 1, 3])
def test_notes_arrive_once_however_many_tasks_carry_them(count: int) -> None:
    notes = [cloudpickle.dumps([stage, ["receipt"]]) for stage in (0, 1)]

    table = make_rows(pack_tasks(make_task(slot) for slot in range(count)), notes)

    assert table.num_rows == max(1, count)
    assert read_notes(table) == [(0, ["receipt"]), (1, ["receipt"])]


def test_nothing_to_say_is_no_row() -> None:
    table = make_rows([], [])

    assert (table.num_rows, table.schema) == (0, SCHEMA)
    assert read_notes(table) == []


def test_an_error_among_the_notes_is_raised_as_itself() -> None:
    table = make_rows([], [cloudpickle.dumps(ShapeError("a bad shape"))])

    with pytest.raises(ShapeError, match="a bad shape"):
        read_notes(table)
