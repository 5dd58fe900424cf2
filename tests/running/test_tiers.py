"""A test's tier comes from its mark, or from its folder if it has no mark."""

from __future__ import annotations

from pathlib import Path

import pytest

from durations import read_durations
from tier_selection import find_long_files
from tiers import Tier, describe_rest, find_tier

ROOT = Path(__file__).parents[2]
BUDGET = 2400.0  # worker-seconds: 15 minutes of three workers, without collection and lint
LONG, TOO_LONG = 20.0, 60.0


@pytest.mark.parametrize(
    ("nodeid", "marks", "tier"),
    [
        ("tests/cli/test_run.py::test_a", set(), Tier.FIRST),
        ("tests/cli/test_run.py::test_a", {"slow", "more"}, Tier.MORE),
        ("tests/cli/test_run.py::test_a", {"more", "full"}, Tier.FULL),
        ("tests/stores/test_run.py::test_a", set(), Tier.MORE),
        ("tests/stores/test_run.py::test_a", {"full"}, Tier.FULL),
    ],
)
def test_a_mark_outranks_the_folder(nodeid: str, marks: set[str], tier: Tier) -> None:
    assert find_tier(nodeid, marks) is tier


def test_a_selection_reports_what_it_leaves_out() -> None:
    line = "not in this selection: 3 tests of `make test-more`, 1 tests of `make test-all`"
    assert describe_rest({"more": 3, "full": 1}) == line
    assert describe_rest({"more": 0}) == ""


CONFTEST = """
from tier_selection import SelectionReport, add_option, select_tests


def pytest_addoption(parser):
    add_option(parser)


def pytest_configure(config):
    config.pluginmanager.register(SelectionReport())


def pytest_collection_modifyitems(config, items):
    select_tests(config, items)
"""


def test_the_option_runs_one_tier_and_reports_the_rest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\n\n\ndef test_one():\n    pass\n\n\n@pytest.mark.more\ndef test_two():\n"
        "    pass\n\n\n@pytest.mark.full\ndef test_three():\n    pass\n"
    )
    pytester.makeini("[pytest]\nmarkers =\n    more: second\n    full: third\n")
    pytester.makeconftest(CONFTEST)
    plain = pytester.runpytest("-p", "no:cacheprovider", "-p", "no:xdist")
    plain.assert_outcomes(passed=3)
    first = pytester.runpytest("-p", "no:cacheprovider", "-p", "no:xdist", "--tier=first")
    first.assert_outcomes(passed=1, deselected=2)
    line = "not in this selection: 1 tests of `make test-more`, 1 tests of `make test-all`"
    assert line in first.outlines
    spread = pytester.runpytest("-p", "no:cacheprovider", "--numprocesses=2", "--tier=more")
    assert "1 passed" in spread.outlines[-1]
    assert "1 tests of `make test`, 1 tests of `make test-all`" in "\n".join(spread.outlines)


def test_long_files_are_left_out_and_reported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {"test_long.py": 4.1, "test_short.py": 4.0}
    monkeypatch.setattr("tier_selection.read_durations", lambda: {"first": seconds})
    for name in (*seconds, "test_unlisted.py"):
        pytester.makepyfile(**{name.removesuffix(".py"): "def test_it():\n    pass\n"})
    pytester.makeconftest(CONFTEST)
    result = pytester.runpytest("-p", "no:cacheprovider", "-p", "no:xdist", "--most-seconds=4")
    result.assert_outcomes(passed=2, deselected=1)
    assert "not in this selection: 1 tests of `make room R=FOLDER`" in result.outlines


def test_tests_of_the_layout_are_never_left_out() -> None:
    long = find_long_files(0.0)
    assert long
    assert not any(name.startswith("tests/architecture/") for name in long)


def find_over_budget(seconds: dict[str, float], sources: dict[str, str]) -> list[str]:
    """Return a sentence for each excess over the first tier's budget.

    Args:
        seconds: duration of each file in the first tier.
        sources: text of each file.
    """
    found = []
    if (total := sum(seconds.values())) > BUDGET:
        found.append(f"the first tier takes {total:.0f} s of {BUDGET:.0f} s")
    for name, duration in seconds.items():
        if duration > LONG and "pytest.mark.first" not in sources.get(name, ""):
            found.append(f"{name} takes {duration:.0f} s and names no tier")
        if duration > TOO_LONG and "pytest.mark.first(reason=" not in sources.get(name, ""):
            found.append(f"{name} takes {duration:.0f} s in the first tier without a reason")
    return found


@pytest.mark.parametrize(
    ("seconds", "source", "expected"),
    [
        ({"a.py": 5.0}, "", []),
        ({"a.py": 25.0}, "", ["a.py takes 25 s and names no tier"]),
        ({"a.py": 25.0}, "pytestmark = pytest.mark.first()", []),
        (
            {"a.py": 61.0},
            "pytestmark = pytest.mark.first()",
            ["a.py takes 61 s in the first tier without a reason"],
        ),
        ({"a.py": 61.0}, 'pytestmark = pytest.mark.first(reason="all crash points")', []),
        (
            {"a.py": 5000.0},
            'pytestmark = pytest.mark.first(reason="x")',
            ["the first tier takes 5000 s of 2400 s"],
        ),
    ],
)
def test_excess_is_described(seconds: dict[str, float], source: str, expected: list[str]) -> None:
    assert find_over_budget(seconds, {"a.py": source}) == expected


def test_the_first_tier_keeps_its_budget() -> None:
    seconds = read_durations()["first"]
    sources = {name: (ROOT / name).read_text() for name in seconds if (ROOT / name).is_file()}
    assert find_over_budget(seconds, sources) == []
