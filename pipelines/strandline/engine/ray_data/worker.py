"""A stage as Ray Data calls it: a table of rows in, a table of rows out, one stage call between.

A row is a task, what the calls before it had to say (its notes), and the team it goes with into
the next stage that joins groups. Notes travel with the data they speak of and reach the driver at
the end of the pipeline; an error that ends the attempt is a note too, so that no library stands
between it and its reader.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import ray
from ray import cloudpickle
from ray.exceptions import RayError

from strandline.engine.call.doubt import FailureDoubt
from strandline.engine.call.handover import pack_answers, read_input
from strandline.engine.call.payloads import dump, load
from strandline.engine.call.setup import (
    PackedStage,
    StageHooks,
    WorkerSite,
    load_stage,
    set_up_call,
)
from strandline.engine.call.stage.stage_call import StageCall
from strandline.engine.call.wire import Plain, pack_receipt, pack_tasks, read_lineage
from strandline.engine.core.pools import PoolBrokenError
from strandline.engine.preemption.last_words import explain_death
from strandline.engine.ray.connection import ClusterLostError, first_line
from strandline.engine.ray.worker import find_address, read_end
from strandline.engine.ray_data.losses import DEATHS_PER_POOL, DEATHS_PER_TASK, WorkPermission
from strandline.plan.errors import StageInterruptedError
from strandline.plan.receipt import Failure, Receipt, StageCounts
from strandline.plan.stage import Shape
from strandline.storage.outputs.outputs import OutputLocation
from strandline.storage.outputs.own_handles import keep_own_sockets
from strandline_api.outcome.causes import Cause

_PACK = partial(pack_tasks, dumps=cloudpickle.dumps)
_LOOK_SECONDS = 0.5
SCHEMA = pa.schema([("task", pa.large_binary()), ("notes", pa.large_binary()), ("team", "string")])


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """A stage and where it stands.

    Attributes:
        index, name: of the stage.
        plan: the pickled `StagePlan`.
        group: tasks of a team in the next stage below that joins groups; None where none does.
        deaths: the actor that hears what is begun; see `Deaths`.
        site: pipeline and attempt; see `find_folder`.
    """

    index: int
    name: str
    plan: bytes
    group: int | None
    outputs: OutputLocation
    deaths: Any
    site: WorkerSite


class StageRows:
    """Sets a stage up and runs it on tables of rows."""

    def __init__(self, position: WorkerSettings) -> None:
        self._settings = position
        self._worker = str(ray.get_runtime_context().get_actor_id())
        self._call: StageCall | None = None
        self._shape = Shape.TASK
        self._problem: Exception | None = None
        self._is_left, self._look_due = False, 0.0
        self._doubt = FailureDoubt(lambda: False, time.monotonic)
        try:
            self._set_up()
        except Exception as error:  # noqa: BLE001 - told with the first row, as itself
            self._problem = error

    def __call__(self, table: pa.Table) -> pa.Table:
        """Work on the rows that have a task; what the others say is passed on."""
        notes: list[bytes] = []
        for text in table.column("notes").to_pylist():
            notes += cloudpickle.loads(text) if text else ()
        packed = [content for content in table.column("task").to_pylist() if content is not None]
        try:
            made = self._process(packed, notes) if packed else []
            return make_rows(made, notes, self._settings.group)
        except Exception as error:  # noqa: BLE001 - the driver raises it
            return make_rows([], [*notes, cloudpickle.dumps(error)])

    def _set_up(self) -> None:
        verdict = self._begin(b"", is_one=True)
        if verdict is WorkPermission.LEAVE:
            return
        if verdict is WorkPermission.BROKEN:
            raise self._explain_losses()
        if verdict is not WorkPermission.BEGIN:
            name = self._settings.name
            msg = f"stage {name!r} lost {DEATHS_PER_TASK} workers while it was set up"
            raise PoolBrokenError(msg)
        try:
            with _dying_where_it_leaves():
                self._call = self._set_up_call()
        finally:
            self._end()

    def _set_up_call(self) -> StageCall:
        keep_own_sockets()  # Ray sees the end of this process by that of its sockets
        position, node = self._settings, str(ray.get_runtime_context().get_node_id())
        plan = load_stage(PackedStage(position.name, position.plan), cloudpickle.loads)
        self._shape = plan.shape
        hooks = StageHooks(is_stopping=self._find_stop)
        return set_up_call(plan, position.outputs, position.site, node, time.perf_counter, hooks)

    def _find_stop(self) -> bool:
        """Return whether the run has been left; the actor is asked now and then."""
        now = time.monotonic()
        if not self._is_left and now >= self._look_due:
            self._look_due = now + _LOOK_SECONDS
            with suppress(RayError):  # the next call of the stage explains it
                self._is_left = bool(ray.get(self._settings.deaths.is_left.remote()))
        return self._is_left

    def _process(self, packed: list[bytes], notes: list[bytes]) -> list[Plain]:
        if self._problem is not None:
            raise self._problem
        tasks = [unpack_row(content) for content in packed]
        if self._shape is Shape.GROUP:
            tasks.sort(key=_slot_of)
        return self._apply(tasks, notes)

    def _apply(self, tasks: list[Plain], notes: list[bytes]) -> list[Plain]:
        verdict = self._begin(_describe_call(tasks), is_one=self._is_one(tasks))
        if verdict is WorkPermission.LEAVE:
            return []  # and no word of it, so it stays unfinished
        if verdict is WorkPermission.APART:
            return [new for task in tasks for new in self._apply([task], notes)]
        if verdict is WorkPermission.BROKEN:
            raise self._explain_losses()
        if verdict is WorkPermission.FAIL:
            notes.append(self._note(self._give_up(tasks)))
            return []
        try:
            made, receipt = self._call_stage(tasks)
        except StageInterruptedError:
            return []  # and no note, so its sources stay unfinished
        finally:
            self._end()
        # A signal to all ends this process, and the driver drops what comes after the signal.
        self._doubt.concerns(receipt)
        notes.append(self._note(receipt))
        return made

    def _call_stage(self, packed: list[Plain]) -> tuple[list[Plain], Receipt]:
        assert self._call is not None  # or there were a problem
        tasks, unreadable = read_input(packed)
        data, receipt = self._call.run(tasks, unreadable)
        _, made, receipt = pack_answers(lambda _: self._settings.name, data, receipt, _PACK)
        return made, receipt

    def _is_one(self, tasks: Sequence[Plain]) -> bool:
        return len(tasks) == 1 or self._shape is Shape.GROUP

    def _begin(self, work: bytes, *, is_one: bool) -> WorkPermission:
        index, begin = self._settings.index, self._settings.deaths.begin
        try:
            node, log, _ = find_address()
            asked = begin.remote(
                self._worker, os.getpid(), index, work, is_one=is_one, node=node, log=log
            )
            return WorkPermission(ray.get(asked))
        except RayError as error:
            msg = f"stage {self._settings.name!r} lost touch with the driver: {first_line(error)}"
            raise ClusterLostError(msg) from None

    def _end(self) -> None:
        self._settings.deaths.end.remote(self._worker)

    def _note(self, receipt: Receipt) -> bytes:
        packed = pack_receipt(receipt._replace(emitted=()))  # the rows are what was emitted
        note: bytes = cloudpickle.dumps([self._settings.index, packed])
        return note

    def _give_up(self, tasks: Sequence[Plain]) -> Receipt:
        name = self._settings.name
        message = f"lost {DEATHS_PER_TASK} workers; the last: {self._explain_last(tasks)}"
        failures = [
            Failure(source, key, token, name, message, Cause.KILLED.value)
            for source, token, key, _ in map(read_lineage, tasks)
        ]
        return Receipt((), tuple(failures), (), StageCounts())

    def _explain_last(self, tasks: Sequence[Plain]) -> str:
        asked = self._settings.deaths.find_log.remote(self._settings.index, _describe_call(tasks))
        node, log = ray.get(asked)
        return explain_death("", read_end(log) if node == find_address().node else None)

    def _explain_losses(self) -> PoolBrokenError:
        name = self._settings.name
        return PoolBrokenError(f"stage {name!r} lost {DEATHS_PER_POOL} workers in a row")


def make_rows(tasks: Sequence[Plain], notes: Sequence[bytes], group: int | None = None) -> pa.Table:
    """Return rows of packed tasks.

    The first one carries the notes, alone where there is no task.
    """
    packed: list[bytes | None] = [_pack_row(task) for task in tasks]
    count = len(packed) or bool(notes)
    text = [cloudpickle.dumps(list(notes)) if notes else None, *[None] * (count - 1)][:count]
    teams = [_name_team(task, group) for task in tasks] or [""] * count
    columns = [packed or [None] * count, text, teams]
    return pa.table(
        [pa.array(column, kind.type) for column, kind in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def _pack_row(task: Plain) -> bytes:
    """Pickle a task so that its arrays are read-only in the next stage, as with other engines."""
    body, buffers = dump(task, cloudpickle.dumps)
    parts = [pickle.PickleBuffer(buffer.raw().toreadonly()) for buffer in buffers]
    return pickle.dumps((body, parts), protocol=5)


def unpack_row(content: bytes) -> Plain:
    """Return the inverse of `_pack_row`."""
    task: Plain = load(*pickle.loads(content))  # noqa: S301 - packed by this module
    return task


def read_notes(table: pa.Table) -> list[tuple[int, Plain]]:
    """Return what calls have said: the index of the stage and the packed receipt of each.

    Raises:
        Exception: one of them says that the attempt can't go on.
    """
    notes = []
    for text in table.column("notes").to_pylist():
        for note in cloudpickle.loads(text) if text else ():
            report = cloudpickle.loads(note)
            if isinstance(report, Exception):
                raise report
            notes.append(tuple(report))
    return notes


@contextmanager
def _dying_where_it_leaves() -> Iterator[None]:
    """Make a worker that exits a lost one; to Ray it would be one that has done its work."""
    try:
        yield
    except SystemExit:
        os._exit(1)


def _describe_call(tasks: Sequence[Plain]) -> bytes:
    tokens = (read_lineage(task).token for task in tasks)
    return blake2b(b"".join(tokens), digest_size=16).digest()


def _slot_of(task: Plain) -> int:
    origin = read_lineage(task).origin
    return origin.slot if origin else 0


def _name_team(task: Plain, group: int | None) -> str:
    """Return the key by which tasks are joined: slots of one fan-out, or a task by itself."""
    if group is None:
        return ""
    lineage = read_lineage(task)
    origin = lineage.origin
    if origin is None:
        return lineage.token.hex()
    return f"{origin.parent.hex()}-{origin.slot // group}"
