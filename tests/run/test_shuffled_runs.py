"""Laws of a shuffle in two passes: the order depends only on the seed and the rows."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import accumulate, chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from pipeline_runs import Passes, crashing_at
from strandline_api.outcome.exit_codes import ExitCode

NAMES = ("parted", "ordered")
# Row counts of the files.
SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(sum)


class Shuffle:
    """A shuffle of numbers that are stored in files.

    Args:
        folder: contains the files and the volume.
        name: name of the volume.
    """

    def __init__(self, folder: Path, name: str = "volume", **sink: Any) -> None:
        self.passes = Passes(folder)
        self.passes.volume = folder / name
        self.sink = {"by": "id", "partitions": 3, "seed": 7} | sink

    def run(self, max_rows: int = 100, **source: Any) -> None:
        self._run(
            NAMES[0],
            source={"use": "jsonl-files", "with": {"paths": [f"{self.passes.folder}/*.jsonl"]}},
            stages=[{"use": "read-jsonl", "with": {"maxRows": max_rows}}],
            sink={"use": "shuffle", "with": self.sink},
        )
        parted = {"pipeline": NAMES[0], "files": "**/*.parquet"}
        self._run(
            NAMES[1],
            source={"use": "shuffle-partitions", "with": {"paths": [parted], **source}},
            stages=[{"use": "read-shuffle"}],
            sink={"use": "parquet"},
        )

    def _run(self, name: str, **spec: Any) -> None:
        assert self.passes.run(name, **spec).code is ExitCode.COMPLETE
        assert self.passes.find_problems(name) == []

    def read(self) -> list[list[str]]:
        """Return the ids in each file, in the order of files."""
        paths = sorted(self.passes.find_output(NAMES[1]).rglob("*.parquet"))
        return [pq.read_table(path)["id"].to_pylist() for path in paths]


def write(folder: Path, *sizes: int) -> Path:
    """Write consecutive numbers into files with these line counts."""
    begins = accumulate(sizes, initial=0)
    for at, (begin, end) in enumerate(pairwise(begins)):
        lines = (json.dumps({"id": f"{number}"}) for number in range(begin, end))
        (folder / f"{at}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


@settings(max_examples=scale_examples(15))
@given(st.integers(1, 30), SIZES, st.integers(1, 9), st.integers(0, 3))
def test_law_the_order_depends_only_on_seed_and_rows(
    rows: int, sizes: list[int], max_rows: int, seed: int
) -> None:
    """The order depends neither on the split of rows into files and tasks nor on the workers."""
    cuts, left = list[int](), rows
    for size in sizes:
        cuts.append(min(size, left))
        left -= cuts[-1]
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        whole = Shuffle(write(Path(one), rows), seed=seed)
        whole.run()
        divided = Shuffle(write(Path(other), *cuts, left), seed=seed)
        divided.run(max_rows=max_rows)
        assert divided.read() == whole.read()
        assert sorted(map(int, chain(*whole.read()))) == list(range(rows))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("at", range(0, 90, 6))
def test_law_a_kill_anywhere_changes_no_file(
    tmp_path: Path, at: int, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"exact": exact, "blockRows": 2}
    whole = Shuffle(write(tmp_path, 7, 5, 9), "whole", **options)
    whole.run()
    assert len(whole.read()) == 3
    killed = Shuffle(tmp_path, "killed", **options)
    with crashing_at(at, monkeypatch), suppress(AssertionError):  # a source may fail
        killed.run()
    killed.run()
    assert killed.read() == whole.read()


def test_another_seed_draws_another_order(tmp_path: Path) -> None:
    orders = []
    for seed in (1, 2):
        shuffle = Shuffle(write(tmp_path, 20, 20), str(seed), seed=seed)
        shuffle.run()
        orders.append(list(chain(*shuffle.read())))
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
