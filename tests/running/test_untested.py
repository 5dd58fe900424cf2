"""The last line of a run reports the skipped tests."""

from __future__ import annotations

import pytest

from untested import LONGEST, describe_untested, shorten


def test_reasons_are_counted_and_the_most_frequent_is_first() -> None:
    reasons = ["NO HELM, so: install Go", "Skipped: NO S3: run make", "NO HELM, so: install Go"]
    assert describe_untested(reasons) == "not tested here: 3 tests: 2 × NO HELM, so; 1 × NO S3"


def test_a_run_without_skips_prints_no_line() -> None:
    assert describe_untested([]) == ""


@pytest.mark.parametrize("length", [LONGEST - 1, LONGEST, LONGEST + 1, 500])
def test_long_reasons_are_cut_between_words(length: int) -> None:
    text = ("word " * 200)[:length].strip()
    assert len(shorten(text)) <= LONGEST + 1
    assert shorten(text).rstrip("…") in text


def test_a_run_with_skips_ends_with_the_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\n\n\ndef test_one():\n    pytest.skip('NO SERVER: make it')\n\n\n"
        "def test_two():\n    pass\n"
    )
    pytester.makeconftest(
        "from run_summary import pytest_terminal_summary as pytest_terminal_summary\n"
    )
    lines = pytester.runpytest("-p", "no:cacheprovider", "-p", "no:xdist").outlines
    assert "not tested here: 1 tests: 1 × NO SERVER" in lines
