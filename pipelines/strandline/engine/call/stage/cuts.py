"""Cuts: files with the output of one stage, from which a later run continues.

A file is an Arrow IPC stream with the payload of one task and its metadata. The module must not
depend on the stages after a cut, and does not decide whether a cut is still valid.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from strandline.engine.call.stage.failed_rows import PAYLOAD
from strandline.engine.call.stage.receipts import ReceiptDraft
from strandline.plan.receipt import CUT, NO_SLOT, Event, Output
from strandline.plan.task import Task, lineage_of
from strandline.plan.token import derive_child
from strandline.storage.outputs.disk.shards import digest_bytes
from strandline.storage.outputs.names import CUTS, name_cut
from strandline.storage.outputs.ports import OutputStore

_FACTS = b"strandline"
_KINDS = {"bytes": pa.large_binary(), "str": pa.large_string()}
_NOTHING = pa.table({}).replace_schema_metadata({_FACTS: json.dumps({"kind": "nothing"}).encode()})


class CutTask(NamedTuple):
    """A payload that was read from a cut, and the metadata of its task."""

    data: pa.Table | bytes | str
    meta: dict[str, Any] | None


class CutCall:
    """Writes the output of a stage to a cut, and passes the output on.

    Args:
        stage: the name of the stage whose output is kept.
        outputs: the location of the sink's outputs; the cut is a subfolder.
        is_lenient: whether to write a placeholder for a task that can't be kept. Otherwise such a
            task fails its source.
    """

    def __init__(self, stage: str, outputs: OutputStore, *, is_lenient: bool = False) -> None:
        self._stage = stage
        self._is_lenient = is_lenient
        self._outputs = outputs

    def write(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        """Write tasks. The files are durable on return.

        Raises:
            VolumeError: if the location can't be written to.
        """
        with self._outputs.open_aside(CUTS).grouped() as group:
            for task in tasks:
                lineage = lineage_of(task)
                try:
                    table = pack_task(task)
                except ValueError as error:
                    if not self._is_lenient:
                        writing.fail(lineage, str(error))
                        continue
                    table = _NOTHING
                slot = lineage.origin.slot if lineage.origin else NO_SLOT
                name = name_cut(lineage.token, self._stage, slot)
                written = group.write(lineage.source, name, partial(write_table, table))
                suffix = f"{CUT}{self._stage}@{slot}"
                rows = task.num_rows
                output = Output(lineage.token, suffix, written.size, written.digest, rows)
                # The task needs a new token, because the event that names the file settles the old
                # token.
                child = derive_child((lineage.token,), writing.stage, 0)
                event = Event(lineage.source, (lineage.token,), (child,), (output,))
                writing.events.append(event)
                writing.emit(task, lineage._replace(token=child))


def pack_task(task: Task) -> pa.Table:
    """Pack the payload of a task as a table, with the kind and metadata in the schema's metadata.

    Raises:
        ValueError: if the payload is not a table, bytes, or text, or the metadata is not JSON.
    """
    kind = "table" if isinstance(task.data, pa.Table) else type(task.data).__name__
    if kind == "table":
        table = task.data
    elif kind in _KINDS:
        # Store the payload in a table with a single cell.
        table = pa.table({PAYLOAD: pa.array([task.data], _KINDS[kind])})
    else:
        raise ValueError(f"a task can't be kept: it is {kind}, not a table, bytes or text")
    try:
        facts = json.dumps({"kind": kind, "meta": task.meta})
    except (TypeError, ValueError) as error:
        raise ValueError(f"the meta of a task can't be kept: {error}") from None
    # JSON turns tuples into lists and numeric keys into text, so compare after a round trip.
    if json.loads(facts)["meta"] != task.meta:
        raise ValueError("the meta of a task can't be kept: it changes when written as JSON")
    # Keep the table's own metadata as well.
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _FACTS: facts.encode()})


def write_table(table: pa.Table, target: BinaryIO) -> None:
    """Write a packed payload as a compressed Arrow IPC stream."""
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(target, table.schema, options=options) as writer:
        writer.write_table(table)


def digest_nothing() -> bytes:
    """Return the digest of the placeholder for a task that can't be kept."""
    written = BytesIO()
    write_table(_NOTHING, written)
    return digest_bytes(written.getvalue())


def read_task(packed: bytes) -> CutTask:
    """Read the payload from a file of a cut.

    Raises:
        ValueError: if the file is the placeholder for a task that can't be kept.
    """
    with pa.ipc.open_stream(pa.py_buffer(packed)) as reader:
        table = reader.read_all()
    metadata = dict(table.schema.metadata)
    facts = json.loads(metadata.pop(_FACTS))
    if facts["kind"] == "nothing":
        raise ValueError("this task could not be kept")
    if facts["kind"] == "table":
        return CutTask(table.replace_schema_metadata(metadata or None), facts["meta"])
    return CutTask(table[PAYLOAD][0].as_py(), facts["meta"])
