"""The operator's checklist is complete and names existing tests."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOPS = ("tests", "e2e")
PAGES = ("docs/design/operator-checklist.md", "docs/design/promises.md", "docs/threats.md")
ROWS = 75
VERDICTS = {"holds", "partly", "not yet", "no"}
NAMED = re.compile(r"`((?:tests/[\w/]+/)?test_\w+\.py)(?:::(\w+))?`")


def read_rows() -> list[list[str]]:
    text = (ROOT / "docs" / "design" / "operator-checklist.md").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if re.match(r"\| \d", line))
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def find_missing(text: str) -> list[str]:
    """Return the tests that a page names but that do not exist."""
    files = {path.name: path for top in TOPS for path in (ROOT / top).rglob("test_*.py")}
    return [
        f"{name}::{test}" if test else name
        for name, test in NAMED.findall(text)
        if not has_test(files.get(Path(name).name), name, test)
    ]


def has_test(path: Path | None, name: str, test: str) -> bool:
    if path is None or not str(path).endswith(name):
        return False
    return not test or f"def {test}(" in path.read_text(encoding="utf-8")


def test_every_row_exists_once_and_has_a_verdict() -> None:
    rows = read_rows()
    assert [int(row[0]) for row in rows] == list(range(1, ROWS + 1))
    for number, _, verdict, why in rows:
        assert verdict in VERDICTS, number
        assert verdict != "holds" or NAMED.search(why), number
        assert why, number


def test_named_tests_exist() -> None:
    for page in PAGES:
        assert find_missing((ROOT / page).read_text(encoding="utf-8")) == []


def test_every_threat_has_an_answer_and_a_test_or_states_that_none_exists() -> None:
    text = (ROOT / "docs" / "threats.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| (?!threat \|)[^-]", line)]
    assert len(rows) > 25
    for row in rows:
        _, answer, shown = (cell.strip() for cell in row.strip("|").split(" | "))
        assert answer, row
        assert NAMED.search(shown) or shown.strip(" |") == "no test", row


def test_a_missing_test_is_found() -> None:
    here = "test_operator_checklist.py"
    assert find_missing(f"`{here}::test_that_was_renamed`, `test_of_yore.py`, `{here}`") == [
        f"{here}::test_that_was_renamed",
        "test_of_yore.py",
    ]
    assert find_missing(f"`tests/elsewhere/{here}`") == [f"tests/elsewhere/{here}"]
