"""A stage as Ray Data calls it: a table of rows in, a table of rows out, one stage call between.

A row is a task, what the calls before it had to say (its notes), and the team it goes with into
the next stage that joins groups. Notes travel with the data they speak of and reach the driver at
the end of the pipeline; an error that ends the attempt is a note too, so that no library stands
between it and its reader.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
from ray import cloudpickle
from ray.exceptions import RayError

from strandline.engine.call.handover import pack_answers, read_input
from strandline.engine.call.setup import (
    find_folder,
    has_node_setup,
    name_setup_error,
    set_up_node,
    set_up_once,
    set_up_stage,
    sweep,
)
from strandline.engine.call.stage_call import StageCall
from strandline.engine.call.wire import Plain, pack_receipt, pack_tasks, read_lineage
from strandline.engine.core.pools import RayOptions
from strandline.engine.ray.connection import ClusterLostError, first_line
from strandline.engine.ray.losses import PoolBrokenError
from strandline.engine.ray_data.losses import DEATHS_PER_POOL, DEATHS_PER_TASK, Verdict
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Counts, Failure, Receipt
from strandline.plan.stage import Shape
from strandline.storage.outputs.outputs import OutputStore
from strandline.storage.outputs.remote import open_outputs
from strandline.storage.volume.locks import hold_shared
from strandline_api.outcome.causes import Cause

_PACK = partial(pack_tasks, dumps=cloudpickle.dumps)
SCHEMA = pa.schema([("task", pa.large_binary()), ("notes", pa.large_binary()), ("team", "string")])


@dataclass(frozen=True, slots=True)
class Place:
    """A stage and where it stands.

    Attributes:
        index, name: of the stage.
        plan: the pickled `StagePlan`.
        group: tasks of a team in the next stage below that joins groups; None where none does.
        deaths: the actor that hears what is begun; see `Deaths`.
        site: pipeline and attempt; see `node_setup.find_folder`.
    """

    index: int
    name: str
    plan: bytes
    group: int | None
    options: RayOptions
    deaths: Any
    site: tuple[str, str]


class StageRows:
    """Sets a stage up and runs it on tables of rows."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._worker = str(ray.get_runtime_context().get_actor_id())
        self._call: StageCall | None = None
        self._shape = Shape.TASK
        self._problem: Exception | None = None
        try:
            self._set_up()
        except Exception as error:  # noqa: BLE001 - told with the first row, as itself
            self._problem = error

    def __call__(self, table: pa.Table) -> pa.Table:
        """Work on the rows that have a task; what the others say is passed on."""
        notes: list[bytes] = []
        for said in table.column("notes").to_pylist():
            notes += cloudpickle.loads(said) if said else ()
        packed = [one for one in table.column("task").to_pylist() if one is not None]
        try:
            made = self._work_on(packed, notes) if packed else []
            return make_rows(made, notes, self._place.group)
        except Exception as error:  # noqa: BLE001 - the driver raises it
            return make_rows([], [*notes, cloudpickle.dumps(error)])

    def _set_up(self) -> None:
        verdict = self._begin(b"", is_one=True)
        if verdict is Verdict.LEAVE:
            return
        if verdict is not Verdict.BEGIN:
            name = self._place.name
            msg = f"stage {name!r} lost {DEATHS_PER_TASK} workers while it was set up"
            raise PoolBrokenError(msg)
        try:
            with _dying_where_it_leaves():
                self._call = self._set_up_call(self._load_plan())
        finally:
            self._end()

    def _set_up_call(self, plan: StagePlan) -> StageCall:
        if has_node_setup(plan):
            node = str(ray.get_runtime_context().get_node_id())
            folder = find_folder(*self._place.site, node)
            sweep(folder)
            set_up_once(folder, plan.name, lambda: set_up_node(plan, socket.gethostname()))
        self._shape = plan.shape
        outputs = _open_outputs(self._place.options) if plan.shape is Shape.SINK else None
        return StageCall(set_up_stage(plan), outputs, time.perf_counter)

    def _load_plan(self) -> StagePlan:
        try:
            plan: StagePlan = cloudpickle.loads(self._place.plan)
        except Exception as error:  # noqa: BLE001 - a module may raise anything
            what = f"stage {self._place.name!r} can't be set up in a worker"
            raise name_setup_error(what, error) from None
        return plan

    def _work_on(self, packed: list[bytes], notes: list[bytes]) -> list[Plain]:
        if self._problem is not None:
            raise self._problem
        tasks = [cloudpickle.loads(one) for one in packed]
        if self._shape is Shape.GROUP:
            tasks.sort(key=_slot_of)
        return self._work(tasks, notes)

    def _work(self, tasks: list[Plain], notes: list[bytes]) -> list[Plain]:
        verdict = self._begin(_name_work(tasks), is_one=self._is_one(tasks))
        if verdict is Verdict.LEAVE:
            return []  # and no word of it, so it stays unfinished
        if verdict is Verdict.APART:
            return [new for task in tasks for new in self._work([task], notes)]
        if verdict is Verdict.BROKEN:
            raise self._explain_losses()
        if verdict is Verdict.FAIL:
            notes.append(self._note(self._give_up(tasks)))
            return []
        try:
            made, receipt = self._call_stage(tasks)
        finally:
            self._end()
        notes.append(self._note(receipt))
        return made

    def _call_stage(self, packed: list[Plain]) -> tuple[list[Plain], Receipt]:
        assert self._call is not None  # or there were a problem
        tasks, unreadable = read_input(packed)
        data, receipt = self._call.run(tasks, unreadable)
        _, made, receipt = pack_answers(self._place.name, data, receipt, _PACK)
        return made, receipt

    def _is_one(self, tasks: Sequence[Plain]) -> bool:
        return len(tasks) == 1 or self._shape is Shape.GROUP

    def _begin(self, work: bytes, *, is_one: bool) -> Verdict:
        index, begin = self._place.index, self._place.deaths.begin
        try:
            asked = begin.remote(self._worker, os.getpid(), index, work, is_one=is_one)
            return Verdict(ray.get(asked))
        except RayError as error:
            msg = f"stage {self._place.name!r} lost touch with the driver: {first_line(error)}"
            raise ClusterLostError(msg) from None

    def _end(self) -> None:
        self._place.deaths.end.remote(self._worker)

    def _note(self, receipt: Receipt) -> bytes:
        packed = pack_receipt(receipt._replace(emitted=()))  # the rows are what was emitted
        note: bytes = cloudpickle.dumps([self._place.index, packed])
        return note

    def _give_up(self, tasks: Sequence[Plain]) -> Receipt:
        name, message = self._place.name, f"lost {DEATHS_PER_TASK} workers"
        failures = [
            Failure(source, key, token, name, message, Cause.KILLED.value)
            for source, token, key, _ in map(read_lineage, tasks)
        ]
        return Receipt((), tuple(failures), (), Counts())

    def _explain_losses(self) -> PoolBrokenError:
        name = self._place.name
        return PoolBrokenError(f"stage {name!r} lost {DEATHS_PER_POOL} workers in a row")


def make_rows(tasks: Sequence[Plain], notes: Sequence[bytes], group: int | None = None) -> pa.Table:
    """Rows of packed tasks; the first one carries the notes, alone where there is no task."""
    packed = [cloudpickle.dumps(one) for one in tasks]
    count = len(packed) or bool(notes)
    said = [cloudpickle.dumps(list(notes)) if notes else None, *[None] * (count - 1)][:count]
    teams = [_name_team(task, group) for task in tasks] or [""] * count
    columns = [packed or [None] * count, said, teams]
    return pa.table(
        [pa.array(column, kind.type) for column, kind in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def read_notes(table: pa.Table) -> list[tuple[int, Plain]]:
    """What calls have said: the index of the stage and the packed receipt of each.

    Raises:
        Exception: one of them says that the attempt can't go on.
    """
    notes = []
    for said in table.column("notes").to_pylist():
        for note in cloudpickle.loads(said) if said else ():
            told = cloudpickle.loads(note)
            if isinstance(told, Exception):
                raise told
            notes.append(tuple(told))
    return notes


@contextmanager
def _dying_where_it_leaves() -> Iterator[None]:
    """Make a worker that exits a lost one; to Ray it would be one that has done its work."""
    try:
        yield
    except SystemExit:
        os._exit(1)


def _name_work(tasks: Sequence[Plain]) -> bytes:
    tokens = (read_lineage(task).token for task in tasks)
    return blake2b(b"".join(tokens), digest_size=16).digest()


def _slot_of(task: Plain) -> int:
    origin = read_lineage(task).origin
    return origin.slot if origin else 0


def _name_team(task: Plain, group: int | None) -> str:
    """Tasks of one name are joined: a range of slots of one fan-out, or a task by itself."""
    if group is None:
        return ""
    lineage = read_lineage(task)
    origin = lineage.origin
    if origin is None:
        return lineage.token.hex()
    return f"{origin.parent.hex()}-{origin.slot // group}"


def _open_outputs(options: RayOptions) -> OutputStore:
    lock = options.writers_lock
    if lock is not None and Path(lock).parent.is_dir():
        hold_shared(lock)
    return open_outputs(options.output, f"{options.writer}-{os.getpid()}")
