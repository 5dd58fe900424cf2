"""The passes of the guide on duplicates over several days: the kept rows follow changed pages."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from guide_passes import Document, read_guide, write_pages
from pipeline_runs import Passes
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode

pytestmark = pytest.mark.first(reason="passes over several days")

LAST = "unique-pages"
ONE, TWO, THREE = ("one " * 9 + "end", "two " * 9 + "end", "three " * 9 + "end")

# Texts of a day by key. An empty text removes the page.
DAYS = st.lists(
    st.dictionaries(
        st.sampled_from("abcdef"), st.sampled_from(["", ONE, TWO, THREE]), min_size=1, max_size=4
    ),
    min_size=2,
    max_size=4,
)


@pytest.fixture
def passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Passes:
    monkeypatch.chdir(tmp_path)
    return Passes(tmp_path)


def run_all(passes: Passes, *, only_touched: bool = False) -> AttemptResult:
    for document in read_guide("near.yaml", only_touched=only_touched):
        spec = document["spec"]
        on_change = spec.get("onChange", "Fail")
        result = passes.run(document["metadata"]["name"], on_change, **spec)
        assert result.code is ExitCode.COMPLETE
        assert passes.find_problems(document["metadata"]["name"]) == []
    return result


def read(passes: Passes) -> str:
    return "".join(sorted(passes.read_rows(LAST, "key").elements()))


def test_a_page_that_is_no_longer_a_copy_stays(passes: Passes) -> None:
    write_pages(passes.folder, a=ONE, b=ONE, c=TWO)
    run_all(passes)
    assert read(passes) == "ac"
    write_pages(passes.folder, b=THREE)
    run_all(passes)
    assert read(passes) == "abc"
    assert passes.read_rows(LAST, "text") == Counter([ONE, TWO, THREE])
    assert run_all(passes).standing.finished == 0


def test_a_page_that_becomes_a_copy_is_removed(passes: Passes) -> None:
    write_pages(passes.folder, a=ONE, b=TWO, c=THREE)
    run_all(passes)
    assert read(passes) == "abc"
    write_pages(passes.folder, c=TWO)
    run_all(passes)
    assert read(passes) == "ab"


def test_a_page_whose_original_changed_comes_back(passes: Passes) -> None:
    """The kept page changes, so its former copy is unique now."""
    write_pages(passes.folder, a=ONE, b=ONE)
    run_all(passes)
    write_pages(passes.folder, a=TWO)
    run_all(passes)
    assert read(passes) == "ab"
    write_pages(passes.folder, a=TWO, b=TWO, c=TWO)
    run_all(passes)
    assert read(passes) == "a"


def test_partitions_without_rows_of_a_new_page_are_not_linked_again(passes: Passes) -> None:
    """The new page has two rows, one for its text and one for its key."""
    (links,) = (each for each in read_guide("near.yaml", only_touched=True) if is_links(each))
    write_pages(passes.folder, a=ONE, b=ONE, c=TWO)
    run_all(passes, only_touched=True)
    write_pages(passes.folder, d=THREE)
    for name in ("pages", "signatures"):
        (each,) = (each for each in read_guide("near.yaml") if each["metadata"]["name"] == name)
        passes.run(name, **each["spec"])
    linked = passes.run("links", **links["spec"]).standing
    assert (1 <= linked.finished <= 2, linked.finished + linked.skipped) == (True, 8)
    run_all(passes, only_touched=True)
    assert read(passes) == "acd"


def is_links(document: Document) -> bool:
    return bool(document["metadata"]["name"] == "links")


@contextmanager
def begun() -> Iterator[Passes]:
    """Yield a fixture without pages, in a temporary folder."""
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Passes(Path(folder))
        finally:
            os.chdir(before)


def read_files(passes: Passes) -> Counter[bytes]:
    """Count the files of the last pass by their content."""
    return Counter(path.read_bytes() for path in passes.find_output(LAST).glob("???/*/*.jsonl"))


@pytest.mark.more
@settings(max_examples=scale_examples(10))
@example(days=[{"c": TWO}, {"a": TWO}, {"a": ""}], only_touched=True)
@example(days=[{"c": TWO}, {"a": TWO}], only_touched=False)
@given(days=DAYS, only_touched=st.booleans())
def test_law_daily_runs_equal_one_run_over_everything(
    days: list[dict[str, str]], *, only_touched: bool
) -> None:
    pages: dict[str, str] = {}
    with begun() as daily:
        for day in ({"z": ONE}, *days):
            pages |= day
            # Write only the day's files. Other files would get a new modification time and be read
            # again.
            write_pages(daily.folder, **{key: text for key, text in day.items() if text})
            for key in (key for key, text in day.items() if not text):
                (daily.folder / f"pages-{key}.jsonl").unlink(missing_ok=True)
            run_all(daily, only_touched=only_touched)
        found = read(daily), read_files(daily)
    with begun() as once:
        write_pages(once.folder, **{key: text for key, text in pages.items() if text})
        run_all(once)
        assert (read(once), read_files(once)) == found
