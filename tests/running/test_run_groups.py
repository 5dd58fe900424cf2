"""Groups run, or are listed with the reason that they were skipped."""

from __future__ import annotations

import argparse
import time

import pytest

import run_groups
from groups import Group
from run_groups import (
    Clock,
    Runner,
    choose_names,
    find_reason,
    make_command,
    make_environment,
    summarize,
)
from schedule import Estimate
from tiers import Tier

STORES = Group("stores", Tier.MORE, folders=("stores",))


def make_arguments(*names: str, is_all: bool = False) -> argparse.Namespace:
    return argparse.Namespace(names=list(names), all=is_all, changed=None)


def test_a_group_of_folders_runs_its_tier_alone() -> None:
    command = make_command(STORES)
    assert "--tier=more" in command
    assert command[-1] == "tests/stores"
    chart = Group("chart", Tier.MORE, words=("chart",))
    assert make_command(chart) == ["make", "--silent", "chart"]


@pytest.mark.parametrize(
    ("minutes", "slowness", "reason"),
    [
        (11, 1.0, ""),
        (11, 2.0, "needs 20 min, 11 min remain"),
        (-3, 1.0, "needs 10 min, 0 min remain"),
    ],
)
def test_a_group_that_does_not_fit_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, minutes: float, slowness: float, reason: str
) -> None:
    monkeypatch.setattr(run_groups, "estimate", lambda group: Estimate(600))
    clock = Clock(time.monotonic() + minutes * 60 + 1, slowness)
    assert find_reason(STORES, clock) == reason
    assert find_reason(STORES, None) == ""


def test_a_node_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    group = Group("node", Tier.MORE, words=("e2e",), needs_root=True)
    assert find_reason(group, None) == "needs root on Linux"


def test_every_tier_is_run_in_order_and_an_unknown_group_is_refused() -> None:
    names, _ = choose_names(make_arguments(is_all=True))
    assert names[0] == "first"
    assert {"stores", "e2e-all"} <= set(names)
    assert choose_names(make_arguments("bench", "stores")) == (["bench", "stores"], 0)
    with pytest.raises(SystemExit, match="unknown group 'store'; the groups are first, commands"):
        choose_names(make_arguments("store"))
    with pytest.raises(SystemExit, match="name a group, as in `make group G=stores`"):
        choose_names(make_arguments())


@pytest.mark.parametrize(
    ("words", "result", "code"), [(("help",), "passed", 0), (("no-such-target",), "failed", 1)]
)
def test_the_summary_names_every_group(
    words: tuple[str, ...], result: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    runner = Runner(7, is_recording=False)
    runner.run(Group("own", Tier.MORE, words=words))
    assert summarize(runner, [("node", "needs root on Linux")]) == code
    lines = capfd.readouterr().out.splitlines()[-2:]
    assert lines[0].startswith(f"{result}  own  ")
    assert lines[1] == "not run  node  needs root on Linux; run: make group G=node"


def test_a_group_does_not_read_the_arguments_of_the_command_that_runs_it() -> None:
    inherited = {"PATH": "/bin", "ARGS": "stores chart", "MAKEFLAGS": " -- ARGS=stores", "G": "x"}
    assert make_environment(inherited, 7) == {"PATH": "/bin", "SEED": "7"}


def test_a_failed_build_fails_its_group(capfd: pytest.CaptureFixture[str]) -> None:
    runner = Runner(7, is_recording=False)
    runner.run(Group("own", Tier.MORE, words=("help",), builds=("no-such-target",)))
    assert [(name, result) for name, result, _ in runner.results] == [("own", "failed")]
    assert "`make no-such-target` failed" in capfd.readouterr().out
