"""The design note on tiers lists facts; the tests that it names exist, each in its tier."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from changed_jobs import read_groups
from tiers import FOLDERS_OF_MORE, Tier

ROOT = Path(__file__).parents[2]
NOTE = ROOT / "docs" / "design" / "2026-11-29-test-tiers.md"
TIERS = (Tier.FIRST, Tier.MORE, Tier.FULL)
LATER_ALONE = {
    Tier.MORE: re.compile(r"^pytestmark = pytest\.mark\.more", re.MULTILINE),
    Tier.FULL: re.compile(r"^pytestmark = pytest\.mark\.full", re.MULTILINE),
}
NAMED = re.compile(r"`([\w/.-]+)`")


def read_rows() -> list[list[str]]:
    """Return the cells of each row, without the header rows."""
    table = NOTE.read_text(encoding="utf-8").partition("## Facts and their proofs")[2]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def find_problem(name: str, tier: Tier) -> str:
    """Return the reason a test or a group does not prove a fact in this tier, or an empty text."""
    if not name.startswith("tests/"):
        group = read_groups().get(name)
        return "" if group is not None and group.tier is tier else f"{name} is no group of {tier}"
    path = ROOT / name
    if not path.is_file():
        return f"{name} does not exist"
    text = path.read_text(encoding="utf-8")
    is_later = any(pattern.search(text) for pattern in LATER_ALONE.values())
    is_more = is_later or name.split("/")[1] in FOLDERS_OF_MORE
    if tier is Tier.FIRST and is_more:
        return f"{name} has no test in the first tier"
    if tier is Tier.FULL and "mark.full" not in text and "cloud" not in text:
        return f"{name} has no test in the third tier"
    return ""


@pytest.mark.parametrize(
    ("name", "tier", "problem"),
    [
        ("tests/laws/test_counting_law.py", Tier.FIRST, ""),
        ("tests/laws/test_gone.py", Tier.FIRST, "tests/laws/test_gone.py does not exist"),
        (
            "tests/stores/test_store_promises.py",
            Tier.FIRST,
            "tests/stores/test_store_promises.py has no test in the first tier",
        ),
        ("chart", Tier.MORE, ""),
        ("chart", Tier.FULL, "chart is no group of full"),
    ],
)
def test_a_wrong_row_is_noticed(name: str, tier: Tier, problem: str) -> None:
    assert find_problem(name, tier) == problem


def test_each_fact_has_its_proofs() -> None:
    rows = read_rows()
    assert len(rows) > 25
    problems = [
        problem
        for _, *cells in rows
        for tier, cell in zip(TIERS, cells, strict=True)
        for name in NAMED.findall(cell)
        if name != "inline" and (problem := find_problem(name, tier))
    ]
    assert problems == []


def test_every_fact_has_a_proof_in_a_tier_that_runs_for_its_changes() -> None:
    without = {fact for fact, first, more, _ in read_rows() if not first and not more}
    # Only the third tier proves this fact, because its groups install other versions of every
    # library.
    assert without == {"the lowest and the newest libraries work"}
