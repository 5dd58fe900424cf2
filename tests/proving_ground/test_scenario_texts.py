"""Texts of scenarios: masked so that two runs give the same text, with tables that stay tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from proving_ground.results.figures import BEGIN, END, Figures, measure_recovery
from proving_ground.results.records import align, mask
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
def test_only_values_that_differ_between_runs_are_masked(seen: str, kept: str) -> None:
    assert mask(seen, "a-preempted-head") == kept


@pytest.mark.parametrize(
    ("seen", "kept"),
    [
        ("Message: cancelled: enough", "Message: cancelled: enough"),
        ("strandline.dev/cancel: enough", "strandline.dev/cancel: enough"),
        (
            "output/cancel/corpus in cancel-2, cancel",
            "output/curation/corpus in cancel-2, curation",
        ),
    ],
)
def test_a_namespace_is_masked_only_as_a_whole_word(seen: str, kept: str) -> None:
    assert mask(seen, "cancel") == kept


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


HEAD_GOES = ("a head goes", "Interrupted", "41 s", "12", "0")


def make_figures(*rows: tuple[str, ...], version: str = "") -> Figures:
    figures = Figures(version, "2026-11-23")
    for row in rows:
        figures.add(*row)
    return figures


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    return path


def list_rows(page: Path) -> list[str]:
    """Return the lines between the marks, without the rule below the header."""
    lines = page.read_text().splitlines()
    return [line for line in lines[lines.index(BEGIN) + 1 : lines.index(END)] if "---" not in line]


def test_the_table_is_between_the_marks_and_read_as_written(page: Path) -> None:
    make_figures(HEAD_GOES).keep(page)
    first = page.read_text()
    make_figures(HEAD_GOES).keep(page)
    assert page.read_text() == first
    assert list_rows(page)[1:] == ["| a head goes | Interrupted | 41 s | 12 | 0 | 2026-11-23 |"]
    assert first.startswith("before\n")
    assert first.endswith("after\n")


def test_rows_of_other_scenarios_stay(page: Path) -> None:
    make_figures(HEAD_GOES, ("a worker goes", "–", "–", "–", "0")).keep(page)
    make_figures(("a worker goes", "–", "–", "–", "7")).keep(page)
    assert list_rows(page)[1:] == [
        "| a head goes | Interrupted | 41 s | 12 | 0 | 2026-11-23 |",
        "| a worker goes | – | – | – | 7 | 2026-11-23 |",
    ]


def test_each_kuberay_has_a_column_with_the_day_and_the_newest_comes_first(page: Path) -> None:
    make_figures(HEAD_GOES).keep(page)
    make_figures(HEAD_GOES, version="v1.6.2").keep(page)
    absorbed = ("a worker goes", "–", "same attempt", "–", "0")
    make_figures(("a head goes", "Evicted", "9 s", "3", "1"), absorbed, version="v1.7.0").keep(page)
    head, *rows = list_rows(page)
    assert head.endswith("| others opened again | played | KubeRay v1.7.0 | KubeRay v1.6.2 |")
    assert rows == [
        "| a head goes | Interrupted | 41 s | 12 | 0 | 2026-11-23"
        " | Evicted, 9 s, 3, 1 (2026-11-23) | Interrupted, 41 s, 12, 0 (2026-11-23) |",
        "| a worker goes |  |  |  |  |  | same attempt, 0 (2026-11-23) |  |",
    ]
    before = page.read_text()
    make_figures().keep(page)
    assert page.read_text() == before


def test_rows_without_a_recorded_day_have_none(page: Path) -> None:
    old = "| what happened | cause |\n| --- | --- |\n| a worker goes | Evicted |"
    page.write_text(page.read_text().replace(BEGIN, f"{BEGIN}\n{old}"))
    make_figures(HEAD_GOES).keep(page)
    assert list_rows(page)[1:] == [
        "| a worker goes | Evicted |  |  |  |  |",
        "| a head goes | Interrupted | 41 s | 12 | 0 | 2026-11-23 |",
    ]


def test_a_scenario_without_recovery_has_only_its_end() -> None:
    figures, of_kuberay = Figures(day="2026-11-22"), Figures("v1.7.0", "2026-11-23")
    for each in (figures, of_kuberay):
        each.note_end("the quota is used up", "QuotaExceeded")
    assert figures.tabulate().endswith(
        "| the quota is used up | QuotaExceeded | – | – | – | 2026-11-22 |"
    )
    assert of_kuberay.tabulate().endswith("| the quota is used up | QuotaExceeded (2026-11-23) |")


def test_without_figures_there_is_no_table() -> None:
    assert not Figures().tabulate()


def test_a_failed_wait_names_its_condition_and_the_last_state() -> None:
    with pytest.raises(GivenUpError, match=r"in vain: the tide turns\nit ebbs"):
        wait_for("the tide turns", lambda: None, 0, lambda: "it ebbs")
