"""Texts that scenarios keep: masked so that two runs give the same, and tables that stay tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from proving_ground.figures import BEGIN, END, Figures, measure_recovery
from proving_ground.records import align, mask
from proving_ground.waiting import GivenUpError, wait_for


@pytest.mark.parametrize(
    ("seen", "kept"),
    [
        ("pod corpus-1-x9nk4-small-worker-4b6vj", "pod corpus-1-<drawn>-small-worker-<drawn>"),
        ("pod corpus-2-x9nk4-head-cg7c2", "pod corpus-2-<drawn>-head-<drawn>"),
        ("attempt corpus-1 of run first", "attempt corpus-1 of run first"),
        ("at 2026-11-21T18:22:59.783Z", "at <time>"),
        ("  Resource Version:    2585", "  Resource Version:    <number>"),
        ("retry at 18:24:12", "retry at <time>"),
        ("8ce318a8-f8ce-4db2-b53d-bb67aa4663d8", "<uid>"),
        ("(IP: 10.244.0.5)", "(IP: <address>)"),
        ("namespace a-preempted-head", "namespace curation"),
        ("memory 1536Mi, exit code 137", "memory 1536Mi, exit code 137"),
    ],
)
def test_what_differs_from_run_to_run_is_masked_and_nothing_else(seen: str, kept: str) -> None:
    assert mask(seen, "a-preempted-head") == kept


def test_tables_of_two_runs_are_the_same() -> None:
    first = """\
NAME     CAUSE       EXIT   AGE
a-1      OOMKilled   137    2m1s
b                           9s"""
    second = """\
NAME   CAUSE       EXIT   AGE
a-1    OOMKilled   137    1h2m
b                         14s"""
    kept = """\
NAME   CAUSE       EXIT   AGE
a-1    OOMKilled   137    <age>
b                         <age>"""
    assert (align(first), align(second)) == (kept, kept)


def test_recovery_is_from_the_end_to_the_next_driver() -> None:
    ended = {"endTime": "2026-01-01T00:00:10.500Z"}
    running = {"runningTime": "2026-01-01T00:00:52Z"}
    assert measure_recovery(ended, running) == 41.5


def test_the_table_replaces_what_is_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    figures = Figures([("a head goes", "Interrupted", "41 s", "12", "0")])
    figures.keep(page)
    first = page.read_text()
    figures.keep(page)
    assert page.read_text() == first
    assert "| a head goes | Interrupted | 41 s | 12 | 0 |" in first
    assert "old" not in first
    assert first.startswith("before\n")
    assert first.endswith("after\n")


def test_rows_of_other_scenarios_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    head, worker = ("a head goes", "Killed", "4 s", "1", "0"), ("a worker goes", "–", "–", "–", "0")
    Figures([head, worker]).keep(page)
    Figures([(*worker[:-1], "7")]).keep(page)
    kept = page.read_text().splitlines()
    assert kept[3] == "| a head goes | Killed | 4 s | 1 | 0 |"
    assert kept[4] == "| a worker goes | – | – | – | 7 |"
    assert len(kept) == 6


def test_without_figures_there_is_no_table() -> None:
    assert not Figures().tabulate()


def test_a_wait_in_vain_says_for_what_and_what_was_seen() -> None:
    with pytest.raises(GivenUpError, match=r"in vain: the tide turns\nit ebbs"):
        wait_for("the tide turns", lambda: None, 0, lambda: "it ebbs")
