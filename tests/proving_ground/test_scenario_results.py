"""The page with the last result of each scenario: a cell for each KubeRay, and no stale rows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from proving_ground.results.outcomes import BEGIN, END, PAGE, Outcomes, Phase, describe, read_rows

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "e2e" / "scenarios"
HEAD_GOES = "losses/test_disruption.py::test_a_preempted_head"


def make_phases(**outcomes: str) -> list[Phase]:
    return [Phase(when, outcome, 2.6, "why") for when, outcome in outcomes.items()]


@pytest.mark.parametrize(
    ("phases", "result"),
    [
        ({"setup": "passed", "call": "passed", "teardown": "passed"}, "passed, 8 s"),
        ({"setup": "passed", "call": "failed", "teardown": "passed"}, "failed, 8 s"),
        ({"setup": "failed", "teardown": "passed"}, "failed in setup, 5 s"),
        ({"setup": "passed", "call": "passed", "teardown": "failed"}, "failed in teardown, 8 s"),
        ({"setup": "skipped", "teardown": "passed"}, "skipped: why"),
        ({"setup": "passed", "call": "skipped", "teardown": "passed"}, "skipped: why"),
        ({"setup": "passed", "call": "skipped", "teardown": "failed"}, "failed in teardown, 8 s"),
    ],
)
def test_a_result_combines_all_phases_of_a_scenario(phases: dict[str, str], result: str) -> None:
    assert describe(make_phases(**phases)) == result


def test_a_reason_does_not_break_the_table() -> None:
    reason = "Skipped: no image | no\n run"
    assert describe([Phase("setup", "skipped", 0.1, reason)]) == "skipped: no image / no run"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(f"before\n\n{BEGIN}\n{END}\n\nafter\n")
    return path


def end_scenario(outcomes: Outcomes, scenario: str, call: str = "passed") -> None:
    outcomes.add(scenario, Phase("setup", "passed", 1.0, ""))
    outcomes.add(scenario, Phase("call", call, 60.0, "why"))
    outcomes.add(scenario, Phase("teardown", "passed", 1.0, ""))


def test_each_result_is_on_the_page_when_its_scenario_ends(page: Path) -> None:
    outcomes = Outcomes("", "2026-11-29", page)
    outcomes.add(HEAD_GOES, Phase("setup", "passed", 1.0, ""))
    assert read_rows(page) == {}
    end_scenario(Outcomes("", "2026-11-29", page), HEAD_GOES)
    assert read_rows(page) == {f"`{HEAD_GOES}`": {"stand-in": "passed, 62 s (2026-11-29)"}}
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("after\n")


def test_a_later_run_replaces_its_own_results_only(page: Path) -> None:
    end_scenario(Outcomes("", "2026-11-28", page), "z.py::test_z")
    end_scenario(Outcomes("", "2026-11-28", page), "a.py::test_a", "failed")
    end_scenario(Outcomes("v1.6.2", "2026-11-29", page), "z.py::test_z", "failed")
    end_scenario(Outcomes("", "2026-11-29", page), "a.py::test_a")
    assert read_rows(page) == {
        "`a.py::test_a`": {"stand-in": "passed, 62 s (2026-11-29)"},
        "`z.py::test_z`": {
            "stand-in": "passed, 62 s (2026-11-28)",
            "KubeRay v1.6.2": "failed, 62 s (2026-11-29)",
        },
    }
    rows = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    assert rows[0] == "| scenario | stand-in | KubeRay v1.6.2 |"
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| `a.py::test_a`", "| `z.py::test_z`"]


def list_scenarios() -> set[str]:
    """Return the scenarios in the sources, named like the rows, without parameters."""
    return {
        f"{path.relative_to(SCENARIOS).as_posix()}::{node.name}"
        for path in SCENARIOS.glob("*/test_*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_the_page_has_no_result_of_a_scenario_that_does_not_exist() -> None:
    rows = {row.strip("`").partition("[")[0] for row in read_rows(PAGE)}
    assert rows <= list_scenarios(), sorted(rows - list_scenarios())
