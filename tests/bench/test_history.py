"""Past measurements: read, compared, checked against floors, and drawn."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_bench.ground.table import Row, bound, format_markdown, reach
from strandline_bench.history.comparison import LEAST, TURNS, compare, find_regressions
from strandline_bench.history.figures import Figure, read_commands, read_figures
from strandline_bench.history.floors import list_unmet, read_floors
from strandline_bench.history.picture import BARS, LINES, draw_bars, draw_history
from strandline_bench.history.record import (
    Entry,
    add_entry,
    list_written,
    make_entry,
    read_history,
    write_history,
)

GIT = shutil.which("git") or "git"
ROOT = Path(__file__).resolve().parents[2]
TABLES = (ROOT / "docs" / "design" / "measurements.md").read_text(encoding="utf-8")
HISTORY = read_history(ROOT / "bench" / "history.jsonl")
# Prints a table like the benchmarks, with a number that depends on the commit.
PROGRAM = """
import sys
assert sys.argv[1:] == ["tally"]
print("| what | measured | target | reached |")
print("| speed | {speed} × | ≥ 1 × | yes |")
print("| size | 10 % | ≤ 20 % | yes |")
"""


def run_git(folder: Path, *words: str) -> str:
    command = [GIT, "-c", "user.name=a", "-c", "user.email=a@b", *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def test_a_table_is_read_as_it_is_printed() -> None:
    rows = [
        bound("cost", 2.44, 2, "%"),
        reach("rate", 2_454_556, 1_000_000, "events/s"),
        Row("a command", "3.48 s, 1.62 × the pool"),
        Row("nothing", "did not end"),
    ]
    assert read_figures(format_markdown(rows)) == {
        "cost": Figure(2.44, "%", True),
        "rate": Figure(2_454_556, "events/s", False),
        "a command": Figure(1.62, "×", None),
    }


def test_commands_of_one_task_are_read_with_their_seconds() -> None:
    ended = [Row("10 files, 1 MB: ours", "3.48 s, 1.62 × the pool"), Row("20 files: ours", "9 s")]
    rows = [*ended, Row("10 files, 1 MB: others", "more than 600 s")]
    assert read_commands(format_markdown(rows), "10 files") == {"ours": 3.48}


numbers = st.lists(st.floats(1, 100), min_size=3, max_size=3)


@given(before=numbers, now=numbers, has_ceiling=st.booleans())
def test_law_only_figures_worse_in_every_turn_are_reported(
    before: list[float], now: list[float], has_ceiling: bool
) -> None:
    old, new = (
        [{"row": Figure(number, "s", has_ceiling)} for number in side] for side in (before, now)
    )
    named = find_regressions(old, new)
    is_apart = min(now) > max(before) if has_ceiling else max(now) < min(before)
    middle, last = sorted(before)[1], sorted(now)[1]
    assert bool(named) == (is_apart and abs(last - middle) > LEAST * middle)


def test_figures_without_a_target_and_new_figures_are_not_compared() -> None:
    old = [{"row": Figure(1.0, "s", None)}]
    new = [{"row": Figure(9.0, "s", None), "another": Figure(9.0, "s", True)}]
    assert find_regressions(old, new) == []


def test_another_commit_is_measured_in_turns(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    program = tmp_path / "bench" / "run.py"
    run_git(tmp_path, "init", "--quiet")
    program.write_text(PROGRAM.format(speed=3))
    run_git(tmp_path, "add", ".")
    run_git(tmp_path, "commit", "--quiet", "-m", "before")
    program.write_text(PROGRAM.format(speed=2))  # uncommitted changes count

    named = compare(tmp_path, "HEAD", ["tally"])

    assert [str(each) for each in named] == ["speed: 3 → 2 ×, 33% worse"]
    assert TURNS >= 5  # with fewer turns, noise looks like a regression too often
    assert len(run_git(tmp_path, "worktree", "list").splitlines()) == 1


def test_a_missed_floor_is_reported() -> None:
    floors = {"rate": 2.0, "cost": 2.0, "gone": 1.0}
    figures = {"rate": Figure(1.5, "×", False), "cost": Figure(2.5, "%", True)}
    assert list(list_unmet(floors, figures)) == [
        "rate: 1.5 ×, less than 2",
        "cost: 2.5 %, more than 2",
        "gone: not measured; was it renamed?",
    ]
    better = {"rate": Figure(2.0, "×", False), "cost": Figure(0.1, "%", True)}
    assert list(list_unmet({"rate": 2.0, "cost": 2.0}, better)) == []


def test_each_floor_belongs_to_a_ratio_of_the_document() -> None:
    figures = read_figures(TABLES)
    for floors in read_floors(ROOT / "bench" / "floors.toml").values():
        assert all(figures[what].is_ratio for what in floors)
        assert all(figures[what].has_ceiling is not None for what in floors)
        assert list(list_unmet(floors, figures)) == []


ratios = st.dictionaries(st.sampled_from("abc"), st.sampled_from([1.0, 2.0]), min_size=1)


@given(measured=st.lists(ratios, max_size=6))
def test_law_a_history_contains_the_last_measurements(measured: list[dict[str, float]]) -> None:
    entries: list[Entry] = []
    known: dict[str, float] = {}
    for number, found in enumerate(measured):
        entries = add_entry(entries, Entry(str(number), "day", "machine", {}, found))
        known |= found
    said = {what: ratio for entry in entries for what, ratio in entry.ratios.items()}
    assert said == known
    assert all(entry.ratios for entry in entries)


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    assert read_history(file) == []
    entry = make_entry("abc", "2026-11-27", f"2 cores, 24 GB of memory.\n\n{TABLES}")
    write_history(file, [entry])
    assert read_history(file) == [entry]
    assert entry.machine == "2 cores, 24 GB of memory"
    assert {"Polars", "datatrove"} <= set(entry.versions)


def test_the_history_ends_with_the_numbers_of_the_document() -> None:
    said = {what: ratio for entry in HISTORY for what, ratio in entry.ratios.items()}
    figures = read_figures(TABLES)
    assert {what: said[what] for what, each in figures.items() if each.is_ratio} == {
        what: each.number for what, each in figures.items() if each.is_ratio
    }


def test_pictures_match_the_tables() -> None:
    """The pictures match the tables; `bench/run.py --write` draws them."""
    pictures = ROOT / "docs" / "pictures"
    bars = draw_bars(BARS, read_commands(TABLES, BARS))
    assert (pictures / "benchmarks.svg").read_text(encoding="utf-8") == bars
    history = (pictures / "benchmarks-history.svg").read_text(encoding="utf-8")
    assert history == draw_history(HISTORY)
    assert set(LINES) <= set(read_figures(TABLES))


def test_a_clone_can_rebuild_the_history(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "--quiet")
    for number in (2, 2, 3):
        table = format_markdown([bound("row", number, 5, "×")])
        (tmp_path / "page.md").write_text(table + f"\n{len(list(tmp_path.iterdir()))}\n")
        (tmp_path / f"other-{len(list(tmp_path.iterdir()))}").touch()
        run_git(tmp_path, "add", ".")
        run_git(tmp_path, "commit", "--quiet", "-m", "measured")

    entries = list_written(tmp_path, ["page.md", "elsewhere.md"])

    assert [dict(entry.ratios) for entry in entries] == [{"row": 2.0}, {"row": 3.0}]


@pytest.mark.parametrize("entries", [[], HISTORY[:1], HISTORY])
def test_a_history_of_any_length_is_drawn(entries: list[Entry]) -> None:
    assert draw_history(entries).count("<text") >= len(LINES)
