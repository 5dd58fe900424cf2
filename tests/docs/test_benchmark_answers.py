"""The summary of docs/benchmarks.md agrees with its generated tables."""

from __future__ import annotations

import re

from document_blocks import ROOT

PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
TABLES = (ROOT / "docs" / "design" / "measurements.md").read_text(encoding="utf-8")
ANSWER = re.compile(r"^\| .+\? \| (.+) \| `(.+)` \|$", re.MULTILINE)
ROW = re.compile(r"^\| ([^`|]+?) +\| ([^|]+?) +\|.*\|$", re.MULTILINE)


def test_the_first_answers_agree_with_the_tables() -> None:
    measured = dict(ROW.findall(TABLES))
    answers = ANSWER.findall(PAGE)
    assert len(answers) >= 5
    for answer, row in answers:
        assert measured.get(row) == answer, row
