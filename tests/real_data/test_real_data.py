"""Other programs' files are read or rejected with a message, and every row is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from material import Case
from run_real_data import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.family}: {case.words}")
def test_an_input_is_read_or_rejected_with_a_message(case: Case, tmp_path: Path) -> None:
    sight = case.play(tmp_path)
    assert case.is_met(sight), f"expected {case.expected}\nseen {sight}"


def test_cases_have_unique_descriptions() -> None:
    names = [(case.family, case.words) for case in CASES]
    assert len(set(names)) == len(names)
