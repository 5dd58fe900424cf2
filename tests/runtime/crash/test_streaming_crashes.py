"""A kill between two parts of an answer loses only work in flight, and duplicates no line.

A worker writes and reports outputs before it sends the event that announces them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from matrix import Case, Ground, in_full_tier

CASES = [
    *(Case("inline", "output.synced", "kill", nth) for nth in (1, 3, 5)),
    Case("inline", "output.renamed", "kill", 2),
    *(
        Case("inline", step, "kill", 1)
        for step in ("source.settled", "commit.begun", "shard.synced")
    ),
    Case("inline", "output.synced", "enospc", 4),
    *in_full_tier(
        *(Case("processes", "output.synced", "kill", nth) for nth in (1, 3, 5)),
        Case("processes", "output.renamed", "kill", 2),
        *(
            Case("processes", step, "kill", 1)
            for step in ("source.settled", "commit.begun", "shard.synced")
        ),
        Case("processes", "output.synced", "enospc", 4),
        Case("ray", "output.synced", "kill", 3),
        Case("ray", "commit.cleaned", "kill", 1),
    ),
]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streaming") / "log"


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Iterator[Ground]:
    def describe(paths: str) -> dict[str, Any]:
        where = {"log": str(log)}
        return {
            "source": {"use": "files", "with": {"paths": [paths], "onRemoved": "Delete"}},
            "stages": [
                {"use": "read-files"},
                {"use": "streaming_stages:YieldLines", "with": where},
                {"use": "streaming_stages:SeeLine", "with": where},
                {"use": "gather_stages:KeyList"},
            ],
            "sink": {"use": "jsonl"},
            "checkpoint": {"interval": "1h", "keepLast": 1},
        }

    ground = Ground(tmp_path_factory.mktemp("streaming") / "ground", describe)
    yield ground
    ground.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_kill_costs_only_the_answers_in_flight(case: Case, ground: Ground) -> None:
    finding = ground.carry_out(case)
    assert finding.faults == [], finding.log


def test_an_undisturbed_run_sees_a_line_before_the_next_is_yielded(
    ground: Ground, log: Path
) -> None:
    assert ground.whole
    lines = log.read_text().splitlines()
    for line in lines:
        what, *which, number = line.split()
        if what == "seen" and number != "0":
            after = " ".join(("yielded", *which, str(int(number) + 1)))
            assert after not in lines[: lines.index(line)]
    assert any(line.startswith("seen") for line in lines)
