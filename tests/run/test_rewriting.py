"""If a shared file cannot be rewritten, it stays unchanged, and the reason is reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest

from ledger_builders import finish_of, listed, opened, root_of
from strandline.cli.commands.runs.outcome_details import _count_written
from strandline.cli.views.summary import WrittenFiles
from strandline.engine.call.stage.stage_call import StageCall
from strandline.ledger.checks.counts import count_data
from strandline.ledger.checks.verification import verify
from strandline.ledger.records.entries import Change, ListedSource, Mark
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Output
from strandline.plan.stages.ends import SinkStage
from strandline.plan.task import Lineage, Task
from strandline.plan.token import derive_child
from strandline.run.revise.rewriting import tidy_shared
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline_packs.sinks.jsonl_sink import JsonlSink
from strandline_packs.sinks.parquet_partitions import ParquetSink

A, B, C, D, E, F = (listed(key) for key in "abcdef")


class Stubborn(JsonlSink):
    """A sink that writes rows but cannot copy rows."""

    def copy_rows(
        self, shared: Mapping[str, BinaryIO], ranges: Sequence[range], suffix: str, file: BinaryIO
    ) -> None:
        """Begin a file, then fail."""
        file.write(b"{")
        raise ValueError(len(ranges))


class Full(JsonlSink):
    """A sink whose disk is full."""

    def copy_rows(
        self, shared: Mapping[str, BinaryIO], ranges: Sequence[range], suffix: str, file: BinaryIO
    ) -> None:
        """Raise the error of a full disk."""
        raise VolumeError("out: no space left")


@pytest.fixture
def outputs(tmp_path: Path) -> LocalOutputs:
    return LocalOutputs(tmp_path / "output")


@pytest.fixture
def store(tmp_path: Path, outputs: LocalOutputs) -> Iterator[Store]:
    """Open a ledger in which one of three sources that share a file has changed."""
    written = write(outputs, [(each, root_of(each)) for each in (A, B, C)])
    with opened(tmp_path / "ledger") as store:
        finished = zip((A, B, C), written, strict=True)
        store.write(Change(finish=[finish_of(each, output) for each, output in finished]))
        store.write(Change(mark=[(B.source, Mark("b", B.version, 1, 0, is_stale=True))]))
        yield store


def write(outputs: LocalOutputs, tokens: list[tuple[ListedSource, bytes]]) -> list[Output]:
    """Write a task of two rows for each source to a shared file."""
    tasks = [
        Task(pa.table({"row": [each.key] * 2}), None, Lineage(each.source, token, each.key))
        for each, token in tokens
    ]
    plan = plan_of(JsonlSink(target_bytes=1 << 20))
    _, receipt = StageCall(plan, outputs, lambda: 0.0).run(tasks)
    left = [output for event in receipt.events for output in event.outputs]
    return [output for output in left if isinstance(output, Output) and output.part]


def plan_of(sink: SinkStage) -> StagePlan:
    return StagePlan("sink", "sink", sink)


def tidy(store: Store, outputs: LocalOutputs, sink: SinkStage) -> list[str]:
    return tidy_shared(store, outputs, plan_of(sink), lambda: None)


def test_a_file_is_rewritten_without_orphaned_rows(store: Store, outputs: LocalOutputs) -> None:
    (before,) = outputs.list_shared()
    assert tidy(store, outputs, JsonlSink()) == []
    (after,) = outputs.list_shared()
    assert before != after
    text = (outputs.root / after).read_text()
    assert text.splitlines() == [f'{{"row":"{key}"}}' for key in "aacc"]
    store.write(Change(forget=[B.source]))
    assert verify(store, outputs).problems == []
    assert tidy(store, outputs, JsonlSink()) == []
    assert outputs.list_shared() == [after]


@pytest.mark.parametrize(
    ("sink", "why"),
    [(ParquetSink(), "this sink does not write such files"), (Stubborn(), "ValueError: 2 (")],
)
def test_a_sink_that_cannot_rewrite_a_file_keeps_it(
    store: Store, outputs: LocalOutputs, sink: SinkStage, why: str
) -> None:
    before = outputs.list_shared()
    (note,) = tidy(store, outputs, sink)
    assert note.startswith(f"{before[0]} still has 2 rows of changed or removed sources: {why}")
    assert outputs.list_shared() == before
    store.write(Change(forget=[B.source]))
    assert verify(store, outputs).problems == [f"2 rows belong to no source: {before[0]}"]


def test_a_file_at_a_former_place_is_not_rewritten(store: Store, tmp_path: Path) -> None:
    (note,) = tidy(store, LocalOutputs(tmp_path / "elsewhere"), JsonlSink())
    assert note.endswith("changed or removed sources: the file is missing")


def test_a_source_with_rows_in_two_shared_files_is_removed_from_both(
    store: Store, outputs: LocalOutputs
) -> None:
    one, other = (derive_child([root_of(D)], "split", slot) for slot in range(2))
    first, lost = write(outputs, [(D, one), (E, root_of(E))])
    second, gone = write(outputs, [(D, other), (F, root_of(F))])
    finish = [finish_of(D, first, second), finish_of(E, lost), finish_of(F, gone)]
    store.write(Change(finish=finish))
    store.write(Change(forget=[B.source, E.source, F.source]))
    before = outputs.list_shared()
    assert tidy(store, outputs, JsonlSink()) == []
    assert verify(store, outputs).problems == []
    assert set(before).isdisjoint(outputs.list_shared())


def test_a_stop_leaves_the_rewrite_to_the_next_attempt(store: Store, outputs: LocalOutputs) -> None:
    before = outputs.list_shared()
    plan = plan_of(JsonlSink())
    assert tidy_shared(store, outputs, plan, lambda: None, lambda: True) == []
    assert outputs.list_shared() == before
    assert tidy_shared(store, outputs, plan, lambda: None) == []
    assert outputs.list_shared() != before


def test_files_are_counted_once_however_many_share_them(store: Store) -> None:
    facts = count_data(store)
    assert (facts.files, facts.rows, facts.suffixes) == (1, 4, {".jsonl": 1})
    assert _count_written(store) == WrittenFiles(1, facts.size)


def test_a_full_disk_ends_the_rewriting(store: Store, outputs: LocalOutputs) -> None:
    with pytest.raises(VolumeError, match="no space left"):
        tidy(store, outputs, Full())
    assert len(outputs.list_shared()) == 1
