"""Groups of sources are resumed, replayed, replaced, quarantined, and verified like sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from partition_stages import plan_steps
from strandline.ledger.checks.verification import VerificationResult, verify
from strandline.ledger.store.store import Store
from strandline.python.pipeline import Pipeline
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.sinks.parquet_partitions import ParquetPartitions
from strandline_packs.sources.files import Files


class Volume:
    """A volume on which the pipeline runs repeatedly."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.folder = PipelineFolder.on_volume(path, "default", "waves")

    def run(self, *args: Any, **params: Any) -> AttemptResult:
        return run_attempt(AttemptConfig(plan_steps(*args, **params), self._path, engine="inline"))

    def read(self) -> list[list[list[str]]]:
        """Return the keys in each row group of each file."""
        files = (pq.ParquetFile(path) for path in self.folder.output.rglob("*.parquet"))
        return sorted(
            [file.read_row_group(at).column("key").to_pylist() for at in range(file.num_row_groups)]
            for file in files
        )

    def verify(self) -> VerificationResult:
        store = Store(self.folder.ledger, readonly=True)
        try:
            return verify(store, LocalOutputs(self.folder.output))
        finally:
            store.close()


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path)


def keys(*steps: int) -> list[list[str]]:
    return [[f"step {step:03d}"] for step in steps]


def count(outcome: AttemptResult) -> tuple[int, int, int]:
    standing = outcome.standing
    return standing.finished, standing.skipped, standing.removed


def test_each_partition_is_a_file_with_a_row_group_for_each_member(volume: Volume) -> None:
    outcome = volume.run([12, 3, 11, 4])
    assert (outcome.code, count(outcome)) == (ExitCode.COMPLETE, (2, 0, 0))
    assert volume.read() == [keys(3, 4), keys(11, 12)]
    assert volume.verify() == VerificationResult(2, 2, volume.verify().size, 0, [])
    assert count(volume.run([3, 4, 11, 12])) == (0, 2, 0)


@pytest.mark.parametrize(
    ("steps", "changed", "files"),
    [
        ([3, 4, 11, 12], (4,), [keys(3, 4), keys(11, 12)]),
        ([3, 4, 5, 11, 12], (), [keys(3, 4, 5), keys(11, 12)]),
        ([4, 11, 12], (), [keys(4), keys(11, 12)]),
    ],
    ids=["changed", "added", "removed"],
)
def test_a_changed_member_changes_only_its_group(
    volume: Volume, steps: list[int], changed: tuple[int, ...], files: list[Any]
) -> None:
    volume.run([3, 4, 11, 12])
    assert count(volume.run(steps, changed=changed)) == (1, 1, 0)
    assert volume.read() == files
    assert volume.verify().problems == []


def test_merged_and_split_groups_leave_no_duplicates(volume: Volume) -> None:
    volume.run([8, 9, 10, 11], per_file=2)
    assert volume.read() == [keys(8, 9), keys(10, 11)]
    joined = volume.run([8, 9, 10, 11], per_file=3)  # 9 to 11 are in one file and link two groups
    assert (count(joined), volume.read()) == ((1, 0, 2), [keys(8, 9, 10, 11)])
    apart = volume.run([8, 9, 10, 11], per_file=2)
    assert (count(apart), volume.read()) == ((2, 0, 1), [keys(8, 9), keys(10, 11)])
    assert volume.verify().problems == []


def test_a_group_that_is_no_longer_listed_is_removed_with_its_file(volume: Volume) -> None:
    volume.run([3, 4, 11, 12])
    assert count(volume.run([11, 12])) == (0, 1, 1)
    assert volume.read() == [keys(11, 12)]


def test_a_failing_member_blocks_its_group_until_it_is_mended(
    volume: Volume,
) -> None:
    first = volume.run([3, 4, 11, 12], bad=4)
    assert (first.code, count(first)) == (ExitCode.SOURCES_FAILED, (1, 0, 0))
    assert volume.read() == [keys(11, 12)]
    assert count(volume.run([3, 4, 11, 12])) == (1, 1, 0)
    assert volume.read() == [keys(3, 4), keys(11, 12)]


def test_a_group_is_quarantined_as_one_and_tried_again_when_a_member_changes(
    volume: Volume,
) -> None:
    outcomes = [volume.run([3, 4, 11, 12], bad=4) for _ in range(3)]
    assert outcomes[-1].code is ExitCode.QUARANTINE_EXCEEDED
    assert outcomes[-1].standing.quarantined == 1
    held = volume.run([3, 4, 11, 12])
    assert (held.standing.quarantined, count(held)) == (1, (0, 1, 0))
    assert count(volume.run([3, 4, 11, 12], changed=(4,))) == (1, 1, 0)


def test_nothing_is_written_if_a_group_is_too_large(volume: Volume) -> None:
    volume.run([11, 12])
    with pytest.raises(ValueError, match="12 sources share storage"):
        volume.run([*range(4, 16)], per_file=8, max_group=10)
    assert volume.read() == [keys(11, 12)]
    assert volume.verify().problems == []


def test_with_a_limit_a_file_holds_the_members_of_the_sample(tmp_path: Path) -> None:
    """Without the limit, files hold all members, and files of the limited sample are replaced."""
    for step in range(20):
        (tmp_path / f"step {step:03d}.txt").write_text(f"{step}")
    volume = Volume(tmp_path / "volume")

    def run(limit: int | None) -> list[int]:
        source = Files(paths=[f"{tmp_path}/*.txt"], limit=limit, on_removed="Delete")
        sink = ParquetPartitions(by=r"step \d\d")
        Pipeline("waves", source=source, sink=sink).run(tmp_path / "volume", engine="inline")
        assert volume.verify().problems == []
        return sorted(map(len, volume.read()))

    assert (sum(run(7)), run(None), sum(run(7))) == (7, [10, 10], 7)
