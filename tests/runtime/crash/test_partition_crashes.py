"""A fault loses only the groups in flight: no member of a partition is lost or duplicated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gather_stages import LARGE
from matrix import LEDGER, WORKERS, Case, Ground, in_full_tier

# Partitions by the last digit: 11 joins 01, 13 joins 03, and the partitions of 06 and 07 vanish.
SHARED = r"\d\.txt$"
CASES = [
    *(Case("inline", step, "kill", 2) for step in sorted(WORKERS)),
    *(Case("inline", step, "kill", 1) for step in sorted(LEDGER)),
    *(Case("inline", "commit.written", "kill", nth) for nth in (1, 4)),
    *in_full_tier(
        *(Case("processes", step, "kill", 2) for step in sorted(WORKERS)),
        *(Case("processes", step, "kill", 1) for step in sorted(LEDGER)),
        Case("ray", "output.synced", "kill", 2),
        Case("ray", "commit.cleaned", "kill", 1),
    ),
]


def describe_partitions(paths: str) -> dict[str, Any]:
    return {
        "source": {"use": "files", "with": {"paths": [paths], "onRemoved": "Delete"}},
        "stages": [
            {"use": "read-files"},
            {"use": "partition_stages:SplitMembers"},
            {"use": "partition_stages:JoinLines", "group": 1000},
            {"use": "gather_stages:LineMoments", "with": {"padding": LARGE}},
        ],
        "sink": {"use": "parquet-partitions", "with": {"by": SHARED}},
        "checkpoint": {"interval": "1s", "keepLast": 1},
    }


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    ground = Ground(tmp_path_factory.mktemp("partitions") / "ground", describe_partitions)
    yield ground
    ground.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_kill_costs_only_the_groups_in_flight(case: Case, ground: Ground) -> None:
    finding = ground.carry_out(case)
    assert finding.faults == [], finding.log


def test_an_undisturbed_run_writes_each_member_to_one_row_group_of_its_partition(
    ground: Ground, tmp_path: Path
) -> None:
    ground.job.run_whole(tmp_path)
    members: Counter[str] = Counter()
    partitions = []
    for path in ground.job.find_folder(tmp_path).output.rglob("*.parquet"):
        file = pq.ParquetFile(path)
        groups = [file.read_row_group(at)["key"].to_pylist() for at in range(file.num_row_groups)]
        assert all(len(set(keys)) == 1 for keys in groups)
        members.update(Path(keys[0]).stem for keys in groups)
        partitions.append([Path(keys[0]).stem for keys in groups])
    assert set(members.values()) == {1}
    assert ["01", "11"] in partitions
    assert ["03", "13"] in partitions
