"""The engines' table: ratios, rates, and wrong results."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from strandline_bench.engines import trials as engine_trials
from strandline_bench.engines.cases import Case, build_case, build_ratio, build_tiny, list_names
from strandline_bench.engines.rates import find_steady_rate, find_time_to_rate
from strandline_bench.engines.records import (
    Mark,
    Recorded,
    Summary,
    read_marks,
    sum_files,
    sum_marks,
    sum_up,
)
from strandline_bench.engines.rivals.index import HOW_TO_INSTALL, RIVALS, Rival, find_rival
from strandline_bench.engines.rows import Seen, find_ratio, list_rows
from strandline_bench.engines.trials import Trial, read_answer, run_apart
from strandline_bench.engines.work.works import (
    MakeBlock,
    Nap,
    chain,
    change_blocks,
    is_long,
    keep,
    make_block,
    weigh,
    weigh_changed,
)
from strandline_bench.ground.table import Row

ONE = Summary(1, 7, 7)


def format_number(rows: list[Row]) -> list[tuple[str, str, str, str]]:
    return [(row.what.partition(": ")[2], row.measured, row.target, row.verdict) for row in rows]


def take(*seconds: float) -> list[Trial]:
    return [Trial(second) for second in seconds]


def test_ratio_is_the_median_over_turns_and_not_of_medians() -> None:
    # The second turn was slow for both: only runs of the same turn are comparable.
    seen: Seen = {"ours": take(1, 10, 4), "other": take(2, 30, 1)}
    assert find_ratio(seen, "other", "ours") == 2
    assert find_ratio(seen, "ours", "other") == pytest.approx(0.5)


def test_ratio_leaves_out_turns_in_which_either_had_no_result() -> None:
    bad = Trial(trouble="failed: it")
    seen: Seen = {"ours": [*take(1, 1), bad], "other": [bad, *take(3, 9)]}
    assert find_ratio(seen, "other", "ours") == 3
    assert find_ratio({"ours": take(1)}, "other", "ours") is None


def test_rows_show_the_faster_engine_and_missing_results(tmp_path: Path) -> None:
    seen: Seen = {
        "ours": take(2, 2),
        "bare": take(1, 1),
        "ray-data": take(3, 3),
        "ray-data-fused": take(1, 1),
        "xenna": [Trial(trouble="did not end in 240 s")],
        "datatrove": [Trial(trouble=HOW_TO_INSTALL)],
        "processes": take(1, 1),
    }
    rows = [
        ("ours", "2 s", "", "–"),
        ("bare Ray actors, told their numbers", "1 s, 0.50 × ours", "≥ 1 × ours", "no"),
        ("Ray Data, cut as ours", "3 s, 1.50 × ours", "≥ 1 × ours", "yes"),
        ("Ray Data, fused", "1 s, 0.50 × ours", "≥ 1 × ours", "no"),
        ("Cosmos-Xenna", "did not end in 240 s", "≥ 1 × ours", "yes"),
        ("datatrove, local executor", "not installed; make rivals", "", "–"),
        ("multiprocessing, all stages in each process", "1 s, 0.50 × ours", "", "–"),
    ]
    assert format_number(list_rows(build_tiny(10, tmp_path), seen)) == [
        *rows,
        *((f"{name}, its own start too", *rest) for name, *rest in rows),
        ("ours, as a multiple of bare Ray actors, told their numbers", "2 ×", "≤ 1.20 ×", "no"),
    ]


def test_rows_with_starts_include_the_start_of_ray(tmp_path: Path) -> None:
    seen: Seen = {
        "ours": [Trial(1.0, start=3.0), Trial(1.0, start=5.0)],
        "ours-ledger": [Trial(2.0, start=3.0), Trial(2.0, start=3.0)],
        "datatrove": take(1, 1),
    }
    rows = format_number(list_rows(build_tiny(10, tmp_path), seen))
    assert rows[3:] == [
        ("ours, its own start too", "5 s", "", "–"),
        ("ours, with its ledger, its own start too", "5 s, 1.04 × ours", "", "–"),
        ("datatrove, local executor, its own start too", "1 s, 0.21 × ours", "", "–"),
        ("ours, as a multiple of datatrove, local executor", "1 ×", "≤ 1.50 ×", "yes"),
        (
            "ours, with its ledger, as a multiple of datatrove, local executor",
            "2 ×",
            "≤ 2 ×",
            "yes",
        ),
    ]


def test_one_wrong_result_invalidates_the_number(tmp_path: Path) -> None:
    wrong = Trial(trouble="wrong: 9 of 10 came out")
    rows = list_rows(build_tiny(10, tmp_path), {"ours": take(2, 2), "xenna": [*take(9), wrong]})
    assert format_number(rows)[1] == ("Cosmos-Xenna", "wrong: 9 of 10 came out", "≥ 1 × ours", "–")


def test_no_engine_counts_as_beaten_if_ours_has_no_result(tmp_path: Path) -> None:
    seen: Seen = {"ours": [Trial(trouble="failed: it")], "ray-data": take(3)}
    rows = list_rows(build_tiny(10, tmp_path), seen)
    assert format_number(rows)[:2] == [
        ("ours", "failed: it", "", "–"),
        ("Ray Data, cut as ours", "3 s", "", "–"),
    ]


@pytest.mark.parametrize(
    ("reached", "row"),
    [
        ([12.0, 14.0, 31.0], ("14 s", "≤ 30 s", "yes")),
        ([29.0, 31.0, 33.0], ("31 s", "≤ 30 s", "no")),
        ([29.0, None, 25.0], ("29 s", "≤ 30 s", "yes")),
        ([29.0, None, None], ("not reached", "≤ 30 s", "no")),
    ],
)
def test_time_to_the_optimum_counts_runs_that_never_reached_it(
    reached: list[float | None], row: tuple[str, str, str], tmp_path: Path
) -> None:
    trials = [Trial(40.0, reached=one, steady=0.95) for one in reached]
    rows = format_number(list_rows(build_ratio(10, tmp_path), {"ours": trials}))
    assert rows[2] == ("until 90 % of the optimum, ours", *row)
    assert rows[3] == ("steady, of the optimum, ours", "95 %", "≥ 90 %", "yes")


def play(*rates: tuple[float, float]) -> list[Mark]:
    """Return marks of one item each at constant rates, one phase after the other."""
    marks, now = [], 100.0
    for rate, seconds in rates:
        for _ in range(round(rate * seconds)):
            now += 1 / rate
            marks.append(Mark(now, ONE))
    return marks


def test_time_to_a_rate_ends_with_the_first_fast_window() -> None:
    marks = play((1, 20), (10, 20))
    assert find_time_to_rate(marks, 100.0, 9, 5) == pytest.approx(24.4, abs=0.3)
    assert find_time_to_rate(marks, 100.0, 0.9, 5) == pytest.approx(5, abs=1)
    assert find_time_to_rate(marks, 100.0, 11, 5) is None
    assert find_time_to_rate([], 100.0, 1, 5) is None


def test_an_initial_burst_is_not_a_rate() -> None:
    marks = play((1000, 0.02), (1, 20))
    assert find_time_to_rate(marks, 100.0, 9, 5) is None


def test_steady_rate_excludes_the_start_and_the_tail() -> None:
    assert find_steady_rate(play((1, 50), (10, 9), (1, 10))) == pytest.approx(10, rel=0.35)
    assert find_steady_rate(play((5, 40))) == pytest.approx(5)
    with pytest.raises(ValueError, match="too few"):
        find_steady_rate(play((1, 1)))


def test_records_of_several_processes_are_summed_up(tmp_path: Path) -> None:
    work = Recorded(keep, tmp_path)
    assert work([1, 2]) == work([3]) == []
    first = next(tmp_path.glob("*.records"))
    (tmp_path / "other.records").write_bytes(first.read_bytes())
    marks = read_marks(tmp_path)
    assert sum_marks(marks).items == 6
    assert all(mark.time <= other.time for mark, other in pairwise(marks))
    (tmp_path / "other.records").unlink()
    assert sum_marks(read_marks(tmp_path)) == sum_up(map(weigh, [3, 1, 2]))


@pytest.mark.parametrize("items", [[1, 2], [1, 2, 2], [1, 2, 4], [0, 3, 3], [1, 2, 3, 3]])
def test_lost_changed_and_repeated_items_are_found(items: list[int]) -> None:
    assert sum_up(map(weigh, items)) != sum_up(map(weigh, [1, 2, 3]))


def answer(case: Case, **more: object) -> str:
    return "chatter\n" + json.dumps({"seconds": 1.5, "summary": case.expected, "first": 0.5} | more)


def test_answer_counts_only_with_the_right_results(tmp_path: Path) -> None:
    case = build_tiny(10, tmp_path)
    assert case.expected is not None
    assert read_answer(answer(case), case) == Trial(1.5, 0.5, case.expected)
    lost = case.expected._replace(items=9)
    assert read_answer(answer(case, summary=lost), case).trouble == "wrong: 9 of 10 came out"
    other = case.expected._replace(total=0)
    trial = read_answer(answer(case, summary=other), case)
    assert trial.trouble == "wrong: not the right ones came out"
    late = answer(case, seconds=case.limit + 1)
    assert read_answer(late, case).trouble == f"did not end in {case.limit:g} s"


def test_a_file_of_another_name_or_content_is_another_result(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    seen = [sum_files(tmp_path)]
    (tmp_path / "a").rename(tmp_path / "b")
    seen.append(sum_files(tmp_path))
    (tmp_path / "b").write_text("two")
    seen.append(sum_files(tmp_path))
    assert len(set(seen)) == 3
    assert {summary.items for summary in seen} == {1}


def test_expected_results_are_those_of_doing_the_work(tmp_path: Path) -> None:
    tiny = build_tiny(20, tmp_path)
    chain(tiny.works, tiny.items())
    assert sum_marks(read_marks(tmp_path)) == tiny.expected
    blocks = change_blocks(MakeBlock(1000)(list(range(9))))
    assert [weigh(block) for block in blocks] == [weigh_changed(one, 1000) for one in range(9)]
    block = make_block(300, 1000)
    assert weigh(block) != weigh(change_blocks([block])[0])


def test_one_nap_in_a_hundred_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(map(is_long, range(100_000))) == pytest.approx(1000, rel=0.1)
    naps: list[float] = []
    monkeypatch.setattr("time.sleep", naps.append)
    long = next(filter(is_long, range(1000)))
    short = next(number for number in range(1000) if not is_long(number))
    assert Nap(1, 100)([short, long]) == [short, long]
    Nap(1)([long])
    assert naps == [1, 100, 1]


def test_each_engine_has_installation_instructions() -> None:
    assert len({rival.name for rival in RIVALS}) == len(RIVALS)
    for rival in RIVALS:
        assert set(rival.beaten_in) <= set(rival.cases) <= set(list_names())
    missing = Rival("none", "none", "none", "none", needs=("json", "no_such_package"))
    assert not missing.is_installed()
    case = build_tiny(10, Path("unused"))
    assert run_apart(missing, case, Path("unused"), is_quick=True).trouble == HOW_TO_INSTALL


def test_a_run_has_its_own_process(tmp_path: Path) -> None:
    case = build_case("tiny", tmp_path, is_quick=True)
    trial = run_apart(find_rival("processes"), case, tmp_path / "1", is_quick=True)
    assert trial.trouble == ""
    assert trial.summary == case.expected
    assert trial.first is not None
    assert 0 < trial.first < trial.seconds


def test_a_hanging_run_is_ended_with_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    child = "import time; time.sleep(600)"
    script.write_text(
        f"import pathlib, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        f"pathlib.Path(sys.argv[3], 'child').write_text(str(child.pid))\n"
        f"child.wait()\n"
    )
    monkeypatch.setattr(engine_trials, "TRIAL", (str(script),))
    monkeypatch.setattr(engine_trials, "_START_SECONDS", 5.0)
    case = replace(build_tiny(10, tmp_path), limit=1.0)
    trial = run_apart(find_rival("processes"), case, tmp_path / "1", is_quick=True)
    assert trial.trouble == "did not end in 1 s"
    pid = int((tmp_path / "1" / "child").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_the_cause_of_a_runs_death_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    script.write_text("raise ValueError('no such thing')")
    monkeypatch.setattr(engine_trials, "TRIAL", (str(script),))
    case = build_tiny(10, tmp_path)
    trial = run_apart(find_rival("processes"), case, tmp_path / "1", is_quick=True)
    assert trial.trouble == "failed: ValueError: no such thing"
