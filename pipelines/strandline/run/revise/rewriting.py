"""Rewrites shared files without the rows of changed or removed sources.

An attempt does this at its end, when no sink is writing. The new file is durable before one
transaction moves all its sources, and the old file is removed after that. This module must not
decide when a source counts as finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import accumulate, pairwise
from typing import NamedTuple

from strandline.engine.call.raised_errors import explain_error
from strandline.engine.call.setup import set_up_stage
from strandline.ledger.output_root import sweep_shared
from strandline.ledger.records.entries import Change, Finish, SharedFile, SourceRecord
from strandline.ledger.store.store import Store
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Output, SharedPart
from strandline.plan.stages.ends import SharingSink
from strandline.plan.stages.stage import Stage
from strandline.plan.token import derive_shared
from strandline.storage.outputs.hashing import Content
from strandline.storage.outputs.names import name_shared
from strandline.storage.outputs.ports import OutputStore


class _Member(NamedTuple):
    """A task with rows in a shared file: its source, its output, and the position of the rows."""

    source: bytes
    version: bytes
    output: Output
    part: SharedPart

    @property
    def rows(self) -> range:
        return range(self.part.begin, self.part.begin + self.output.rows)


def tidy_shared(
    store: Store,
    outputs: OutputStore,
    plan: StagePlan,
    work: Callable[[], None],
    must_stop: Callable[[], bool] = lambda: False,
) -> list[str]:
    """Rewrite shared files that contain rows without a record, and remove files without a record.

    Args:
        plan: the sink.
        work: called after each file.
        must_stop: called before each file; if it returns True, the next attempt continues.

    Returns:
        A sentence for each file that could not be rewritten. These files are unchanged.

    Raises:
        LeaseLostError: if another attempt has the ledger.
        VolumeError: if a file can't be written or removed.
    """
    dirty = {file: facts for file, facts in store.list_shared() if facts.live != facts.rows}
    notes: list[str] = []
    if dirty:
        members = _find_members(store, dirty)
        sink, lying = set_up_stage(plan).stage, set(outputs.list_shared())
        for file, facts in dirty.items():
            if must_stop():
                return notes
            name, gone = name_shared(file, facts.suffix), facts.rows - facts.live
            why = "the file is missing"  # the file is at an earlier location of the outputs
            if lying.issuperset(name_shared(file, suffix) for suffix, *_ in facts.list_files()):
                why = _rewrite(store, outputs, sink, name, members[file])
            if why:
                notes.append(f"{name} still has {gone} rows of changed or removed sources: {why}")
            work()
    # Remove the old files, which no record names any more.
    sweep_shared(store, outputs, work)
    return notes


def _rewrite(
    store: Store, outputs: OutputStore, sink: Stage, name: str, members: Sequence[_Member]
) -> str:
    """Rewrite a file with the rows that have a record.

    Return why this failed, or an empty string.
    """
    if not (isinstance(sink, SharingSink) and name.endswith(sink.suffix)):
        return "this sink does not write such files"
    try:
        moved = _write(outputs, sink, name, members)
    except StrandlineError:
        raise
    except Exception as error:  # noqa: BLE001 - the sink may be the user's
        return explain_error(error)
    # Read the records again: if a source has rows in two files, rewriting the first file has
    # changed its record.
    records = store.find_records({member.source for member in members})
    store.write(Change(rewrite=list(_move(members, moved, records))))
    return ""


def _find_members(store: Store, files: Mapping[bytes, SharedFile]) -> dict[bytes, list[_Member]]:
    """Return the tasks that have rows in each file, in row order."""
    members: dict[bytes, list[_Member]] = {file: [] for file in files}
    for source, entry, record in store.list_records():
        for output in record.outputs:
            if output.part is not None and output.part.file in members:
                member = _Member(source, entry.version, output, output.part)
                members[output.part.file].append(member)
    for found in members.values():
        found.sort(key=lambda member: member.part.begin)
    return members


def _write(
    outputs: OutputStore, sink: SharingSink, name: str, members: Sequence[_Member]
) -> list[Output]:
    """Write the rows of tasks to a new, durable file. Return their new outputs."""
    owners = [member for member in members if not member.output.is_companion]
    file = derive_shared(member.output.token for member in owners)
    ranges = [member.rows for member in owners]
    begins = list(accumulate(map(len, ranges), initial=0))
    stem, moved = name.removesuffix(sink.suffix), dict[Output, Output]()
    suffixes = list(dict.fromkeys(member.output.suffix for member in members))
    with ExitStack() as stack:
        old = {each: stack.enter_context(outputs.open_shared(stem + each)) for each in suffixes}
        group = stack.enter_context(outputs.grouped())
        for suffix in suffixes:
            # Each copy reads all files from the beginning.
            for each in old.values():
                each.seek(0)
            copy = partial(sink.copy_rows, old, ranges, suffix)
            own = [member.output for member in members if member.output.suffix == suffix]
            moved |= _locate_parts(own, file, group.write_shared(file, suffix, copy), begins)
    return [moved[member.output] for member in members]


def _locate_parts(
    own: Sequence[Output], file: bytes, written: Content, begins: Sequence[int]
) -> dict[Output, Output]:
    """Return the new output of each part in a rewritten file."""
    sizes = list(accumulate((output.size for output in own), initial=0))
    # Divide the size of the new file among the tasks, in proportion to their previous sizes.
    bounds = [written.size * bound // max(1, sizes[-1]) for bound in sizes]
    return {
        output: output._replace(
            size=high - low,
            digest=written.digest,
            part=SharedPart(file, begin, written.size, begins[-1]),
        )
        for output, begin, (low, high) in zip(own, begins[:-1], pairwise(bounds), strict=True)
    }


def _move(
    members: Sequence[_Member], moved: Sequence[Output], records: Mapping[bytes, SourceRecord]
) -> Iterator[Finish]:
    """Yield the records of sources, with the new positions of their tasks."""
    outputs = {source: list(record.outputs) for source, record in records.items()}
    for member, output in zip(members, moved, strict=True):
        own = outputs[member.source]
        own[own.index(member.output)] = output
    for source, version in {member.source: member.version for member in members}.items():
        yield Finish(source, version, records[source]._replace(outputs=tuple(outputs[source])))
