"""Filters are compared with datatrove's, and differences are detected."""

from pathlib import Path

import pytest

from strandline.plan.packages import list_missing
from strandline_bench.text.agreement import (
    FILTERS,
    Agreement,
    add_chain,
    compare,
    describe_differing,
    format_agreements,
    load_ours,
    load_theirs,
)
from strandline_bench.text.documents import generate_documents, list_documents
from strandline_bench.text.recipes.recipe import RecipeRuns, compare_recipes
from strandline_packs.text.filters.splitting import Splitting, load_splitter


def test_documents_are_the_same_each_time_and_of_many_kinds() -> None:
    first, again = (generate_documents(["A text that is there."], seed=3) for _ in range(2))
    texts = [next(first) for _ in range(300)]
    assert texts == [next(again) for _ in range(300)]
    joined = "\n".join(texts)
    assert all(part in joined for part in ("lorem ipsum", "潮は", "समुद्र", "\r\n", "• first"))
    assert 8 == len(list_documents(8))


def test_a_difference_is_counted_and_described() -> None:
    def keep_short(text: str) -> tuple[bool, str]:
        return (True, text) if len(text) < 4 else (False, "long")

    theirs = [(True, "a"), (True, "bbbb"), (False, "why"), (False, "why"), (True, "X")]
    found = compare("short", ["a", "bbbb", "cc", "dddd", "e"], keep_short, theirs)
    assert (2, 1, 1, 1) == (found.both, found.ours, found.theirs, found.neither)
    assert 0.4 == pytest.approx(found.share)
    assert 0.5 == found.jaccard
    assert [("bbbb", "long"), ("cc", "why"), ("e", "another text")] == found.differing
    assert "short: long: 1, why: 1, another text: 1" == next(describe_differing(found))
    assert "| short | 2 | 1 | 1 | 0.5000 | 40.00% |" in format_agreements([found])
    assert (1.0, 1.0) == (Agreement("none").share, Agreement("none").jaccard)


@pytest.mark.skipif(bool(list_missing(["datatrove"])), reason="make rivals")
def test_the_filters_agree_on_a_few_documents() -> None:
    texts = list_documents(60)
    splitter = load_splitter(Splitting.RULES)
    theirs = add_chain({use: load_theirs(use, splitter) for use in FILTERS})
    ours = add_chain({use: load_ours(use, Splitting.RULES, compatible=True) for use in FILTERS})
    for use, judge in ours.items():
        found = compare(use, texts, judge, [theirs[use](text) for text in texts])
        assert [] == found.differing
        assert found.both + found.neither == len(texts)


@pytest.mark.skipif(bool(list_missing(["datatrove"])), reason="make rivals")
def test_the_whole_recipe_agrees_on_a_small_crawl(tmp_path: Path) -> None:
    runs = RecipeRuns(tmp_path, 68, is_compatible=True)
    before, after = compare_recipes(runs)
    assert [] == before.differing
    assert [] == after.differing
    assert 0 < after.both < before.both
    assert len(runs.pages) == after.both + after.neither
