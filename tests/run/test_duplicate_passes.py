"""The passes of the guide on duplicates, day by day: pages change, and the kept set follows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from guide_passes import read_guide, write_pages
from pipeline_runs import Passes
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode

LAST = "unique-pages"
ONE, TWO, THREE = ("one " * 9 + "end", "two " * 9 + "end", "three " * 9 + "end")


@pytest.fixture
def passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Passes:
    monkeypatch.chdir(tmp_path)
    return Passes(tmp_path)


def run_all(passes: Passes) -> AttemptResult:
    for document in read_guide("near.yaml"):
        spec = document["spec"]
        on_change = spec.get("onChange", "Fail")
        result = passes.run(document["metadata"]["name"], on_change, **spec)
        assert result.code is ExitCode.COMPLETE
        assert passes.find_problems(document["metadata"]["name"]) == []
    return result


def read(passes: Passes) -> str:
    return "".join(sorted(passes.read_rows(LAST, "key").elements()))


def test_a_page_that_was_a_copy_and_is_none_any_more_stays(passes: Passes) -> None:
    write_pages(passes.folder, a=ONE, b=ONE, c=TWO)
    run_all(passes)
    assert read(passes) == "ac"
    write_pages(passes.folder, b=THREE)
    run_all(passes)
    assert read(passes) == "abc"
    assert passes.read_rows(LAST, "text") == Counter([ONE, TWO, THREE])
    assert run_all(passes).standing.finished == 0


def test_a_page_that_becomes_a_copy_goes(passes: Passes) -> None:
    write_pages(passes.folder, a=ONE, b=TWO, c=THREE)
    run_all(passes)
    assert read(passes) == "abc"
    write_pages(passes.folder, c=TWO)
    run_all(passes)
    assert read(passes) == "ab"


def test_a_page_whose_copy_went_elsewhere_comes_back(passes: Passes) -> None:
    """The one that stayed changes: its copy is alone now."""
    write_pages(passes.folder, a=ONE, b=ONE)
    run_all(passes)
    write_pages(passes.folder, a=TWO)
    run_all(passes)
    assert read(passes) == "ab"
    write_pages(passes.folder, a=TWO, b=TWO, c=TWO)
    run_all(passes)
    assert read(passes) == "a"
