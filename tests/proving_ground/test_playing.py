"""Scenarios are played in two runs with a combined exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from proving_ground.results import playing

NONE_CHOSEN = 5


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([0, 0], 0),
        ([1, 0], 1),
        ([0, 1], 1),
        ([NONE_CHOSEN, 0], 0),
        ([0, NONE_CHOSEN], 0),
        ([NONE_CHOSEN, 1], 1),
        ([NONE_CHOSEN, NONE_CHOSEN], NONE_CHOSEN),
        ([2], 2),
    ],
)
def test_one_failed_run_fails_both(codes: list[int], expected: int) -> None:
    assert playing.join_codes(codes) == expected


@pytest.mark.parametrize(("first", "runs"), [(0, 2), (1, 2), (2, 1)])
def test_scenarios_that_change_the_cluster_run_last_and_alone(
    monkeypatch: pytest.MonkeyPatch, first: int, runs: int
) -> None:
    commands: list[Sequence[str]] = []

    def call(command: Sequence[str], **_: Any) -> int:
        commands.append(command)
        return first if len(commands) == 1 else 0

    monkeypatch.setattr("subprocess.call", call)
    assert playing.main("not extended", ["-k", "quota"]) == first
    marks = [command[command.index("-m", 3) + 1] for command in commands]
    expected = ["(not extended) and not alone", "(not extended) and alone"]
    assert marks == expected[:runs]
    assert ["-n" in command for command in commands] == [True, False][:runs]
    assert all(
        command[-2:] == ("-k", "quota") or list(command[-2:]) == ["-k", "quota"]
        for command in commands
    )
