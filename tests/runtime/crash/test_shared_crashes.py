"""A fault before or after a shared file is durable costs no row, and leaves none twice.

The run that is disturbed replaces sources that share files with others, so it writes new files,
rewrites old ones and removes what nobody names any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from matrix import Case, Ground

# In one process: the files that the sink writes, and those that are rewritten.
FILES = 3
CASES = [
    *(
        Case("inline", step, "kill", nth)
        for step in ("output.written", "output.synced", "output.renamed")
        for nth in range(1, FILES + 1)
    ),
    *(Case("inline", "commit.written", "kill", nth) for nth in (1, 5, 8, 10, 11, 12, 13)),
    *(Case("inline", "commit.cleaned", "kill", nth) for nth in (1, 2)),
    Case("inline", "commit.synced", "kill", 1),
    Case("inline", "source.settled", "kill", 3),
    Case("inline", "output.synced", "enospc", FILES),
    Case("ray", "output.synced", "kill", 1),
    Case("ray", "output.renamed", "kill", 1),
    Case("ray", "commit.synced", "kill", 1),
]


def describe_shared(paths: str) -> dict[str, Any]:
    return {
        "source": {"use": "files", "with": {"paths": [paths], "onRemoved": "Delete"}},
        "stages": [{"use": "read-files"}, {"use": "gather_stages:KeyList"}],
        "sink": {"use": "parquet", "with": {"targetBytes": 400}},
        "checkpoint": {"interval": "1h", "keepLast": 1},
    }


class SharedGround(Ground):
    """Which sources share a file may differ after a crash; the rows may not."""

    def _find_problems(self, volume: Path) -> Iterator[str]:
        if self.read_rows(volume) != self.expect_rows():
            yield "the rows are not those of the sources, each once"
        if self.job.read_artifacts(volume) != self.artifacts:
            yield "what was gathered is not what an undisturbed run gathers"
        yield from self.job.find_problems(volume)

    def read_rows(self, volume: Path) -> Counter[tuple[str, bytes]]:
        """All rows of all files."""
        rows: Counter[tuple[str, bytes]] = Counter()
        for path in self.job.find_folder(volume).output.rglob("*.parquet"):
            table = pq.read_table(path)
            rows.update(
                zip(*(table[name].to_pylist() for name in ("path", "content")), strict=True)
            )
        return rows

    def expect_rows(self) -> Counter[tuple[str, bytes]]:
        """One a text, as it is now."""
        return Counter((str(path), path.read_bytes()) for path in self._texts.iterdir())


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedGround]:
    ground = SharedGround(tmp_path_factory.mktemp("shared") / "ground", describe_shared)
    yield ground
    ground.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_fault_costs_no_row_and_doubles_none(case: Case, ground: SharedGround) -> None:
    finding = ground.carry_out(case)
    assert finding.faults == [], finding.log


def test_undisturbed_sources_share_files_and_none_has_rows_besides(
    ground: SharedGround, tmp_path: Path
) -> None:
    ground.job.run_whole(tmp_path)
    assert ground.read_rows(tmp_path) == ground.expect_rows()
    files = list(ground.job.find_folder(tmp_path).output.rglob("*.parquet"))
    assert len(files) < len(ground.expect_rows())
    assert any(path.parts[-3] == "shared" for path in files)
    assert ground.job.verify(tmp_path)
