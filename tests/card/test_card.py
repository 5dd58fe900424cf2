"""The card as programs and people read it, in each state of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import yaml
from hypothesis import given
from hypothesis import strategies as st

from report_builders import ASKED, HARM, asked_requests, facts_of, harmful, troubled
from strandline.cli.card.card import list_patterns, make_front, name_size, render_card
from strandline.cli.card.facts import NAMED, CardFacts
from strandline.cli.report.facts import RunFacts, RunLedger, StageDefinition
from strandline.ledger.checks.counts import DataCounts, FinishedCounts

ORDER = "n<1K, 1K<n<10K, 10K<n<100K, 100K<n<1M, 1M<n<10M, 10M<n<100M, 100M<n<1B, 1B<n<10B"
KINDS = (".parquet", ".jsonl", ".jsonl.gz", ".zarr.zip")
READ_ALIKE = ({".parquet"}, {".jsonl"}, {".jsonl.gz"}, {".jsonl", ".jsonl.gz"})
STAGES = tuple(StageDefinition(name, name, {}) for name in ("files", "read", "write"))


def card_of(run: RunFacts, data: DataCounts | None = None) -> CardFacts:
    if data is not None:
        ledger = replace(run.ledger or RunLedger(), counts=FinishedCounts(data))
        run = replace(run, ledger=ledger)
    return CardFacts("Notes", "cc0-1.0", "ab12", run)


def data_of(files: int, size: int, rows: int, suffix: str) -> DataCounts:
    return DataCounts(files, size, rows, Counter({suffix: files}))


def test_size_categories_match_the_hub() -> None:
    sizes = [name_size(10**power) for power in range(2, 10)]
    assert ", ".join(sizes) == ORDER
    assert name_size(0) == "n<1K"
    assert name_size(999) == "n<1K"
    assert name_size(10**13) == "n>1T"


@given(st.dictionaries(st.sampled_from(KINDS), st.just(1)))
def test_law_files_are_listed_if_one_reader_accepts_all(suffixes: dict[str, int]) -> None:
    found = list_patterns(DataCounts(suffixes=Counter(suffixes)))
    is_readable = set(suffixes) in READ_ALIKE
    assert bool(found) == is_readable
    assert len(found) in {0, len(suffixes)}


def test_an_unsupported_format_has_no_files_to_load() -> None:
    facts = card_of(facts_of(definition=STAGES), data_of(2, 10, 4, ".zarr.zip"))
    assert "configs" not in make_front(facts)
    assert "`load_dataset` cannot read" in render_card(facts)


def test_a_failing_run_has_a_card_with_its_known_numbers() -> None:
    run = replace(troubled(), definition=STAGES)
    text = render_card(card_of(run, data_of(5, 10**6, 1_234_567, ".parquet")))
    for words in (
        "1,234,567 rows in 5 files, 1.0 MB",
        "**It is not complete**",
        "120 failed, 1 quarantined",
        "### moments",
        "| mean | 2.5 |",
        "In files of the run: words.bin",
        "- use: write",
    ):
        assert words in text, words


def test_model_requests_are_shown() -> None:
    text = render_card(card_of(facts_of(definition=STAGES, requests=asked_requests())))
    assert f"Requests to a model by ask: {ASKED}." in text
    assert "Requests to a model" not in render_card(card_of(facts_of(definition=STAGES)))


def test_no_text_from_outside_breaks_the_head() -> None:
    for harm in HARM:
        stages = tuple(StageDefinition(harm, harm, {harm: harm}) for _ in range(2))
        run = replace(harmful(harm), definition=stages)
        text = render_card(CardFacts(harm, None, harm, run))
        _, front, _ = text.split("---\n", 2)
        assert set(yaml.safe_load(front)) == {"pretty_name", "size_categories", "tags"}


def test_chosen_cuts_are_named() -> None:
    facts = card_of(facts_of(definition=STAGES))
    assert "cuts" not in render_card(facts)
    chosen = render_card(replace(facts, cuts=("read", "quality")))
    assert "| kept cuts, chosen | behind read, quality |" in chosen


def test_an_empty_ledger_makes_a_card() -> None:
    text = render_card(card_of(facts_of(definition=STAGES, ledger=RunLedger(listed=0))))
    assert "0 rows in 0 files" in text
    assert "not complete" not in text
    assert "There are no counts." in text


def test_files_that_count_are_listed_by_name_among_other_files() -> None:
    facts = card_of(facts_of(definition=STAGES), data_of(2, 10, 4, ".jsonl"))
    (config,) = make_front(replace(facts, names=("a/b/1.jsonl", "a/b/2.jsonl")))["configs"]
    assert config["data_files"] == [{"split": "train", "path": ["a/b/1.jsonl", "a/b/2.jsonl"]}]


def test_too_many_names_are_omitted() -> None:
    names = tuple(f"a/b/{number}.jsonl" for number in range(NAMED + 1))
    facts = card_of(facts_of(definition=STAGES), data_of(len(names), 10, 4, ".jsonl"))
    assert "configs" not in make_front(replace(facts, names=names))
