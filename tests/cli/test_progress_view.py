"""Views of a running attempt, rendered from snapshots."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from strandline.cli.views.format import (
    align,
    escape_text,
    format_bytes,
    format_rate,
    format_seconds,
)
from strandline.cli.views.running.progress import describe_line, describe_sources, draw
from strandline.cli.views.running.snapshot import Pace, RowsDone, Snapshot, StageView, take_snapshot
from strandline.cli.views.running.snapshot_json import parse_json, render_pool, render_snapshot
from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import RunProgress

STAGES = (
    StageView("read-files", 1200, 1190, 8, 2),
    StageView("a-stage-with-quite-a-long-name", 1190, 1190, 0, 0),
    StageView("parquet", 1190, 1189, 0, 1),
)
BUSY = Snapshot(125.2, 5000, True, 1000, 1189, 1, 9.5, STAGES, 2)
PACED = BUSY._replace(
    stages=(
        *STAGES[:2],
        STAGES[2]._replace(rate=12.34, utilisation=0.867, pool=PoolState(workers=3, oldest=95.0)),
    ),
    bottleneck="parquet",
)
EARLY = Snapshot(2.0, 256, False, 0, 0, 0, 0.0, (StageView("parquet", 0, 0, 0, 0),), 0)


def test_a_busy_attempt_is_shown_as_a_table() -> None:
    out, head = io.StringIO(), "stage                              in    out"
    Console(file=out, width=100).print(draw("notes", PACED))
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "notes  2 min 5 s",
        "1,189 of 5,000 sources finished, 1 failed, 1,000 skipped, 2 incidents; 9.5/s, about 4 min "
        "56 s left",
        f"{head}  waiting  running      oldest  tasks/s  busy  workers",
        "read-files                      1,200  1,190        8        2                  0.0    0%"
        "        0",
        "a-stage-with-quite-a-long-name  1,190  1,190        0        0                  0.0    0%"
        "        0",
        "parquet                         1,190  1,189        0        1  1 min 35 s     12.3   87%"
        "        3",
        "parquet sets the pace",
    ]


def test_an_attempt_is_shown_as_a_line() -> None:
    assert describe_line(BUSY) == (
        "2 min 5 s: 1,189 of 5,000 sources finished, 1 failed, 1,000 skipped, 2 incidents; "
        "9.5/s, about 4 min 56 s left | waiting+running: read-files 8+2, parquet 0+1"
    )
    assert describe_line(PACED).endswith("parquet 0+1 | parquet sets the pace")
    assert describe_line(EARLY) == "2.0 s: 0 of 256+ sources finished"


def test_no_total_is_shown_before_the_listing() -> None:
    assert describe_sources(EARLY._replace(listed=0)) == "starting"


def test_no_remaining_time_is_shown_before_the_listing_has_ended() -> None:
    assert BUSY.seconds_left == pytest.approx(2810 / 9.5)
    assert BUSY._replace(is_listed=False).seconds_left is None
    assert BUSY._replace(rate=0.0).seconds_left is None
    assert "left" not in describe_sources(BUSY._replace(is_listed=False))


@pytest.mark.parametrize(("seconds", "left"), [(9.9, None), (10.1, 60.6)])
def test_no_remaining_time_is_shown_in_the_first_ten_seconds(
    seconds: float, left: float | None
) -> None:
    pace, flow = Pace(), SimpleNamespace(failed=set(), list_stages=list)
    progress = RunProgress(cast("Any", flow), 0, 0, 0, False, [])
    take_snapshot(progress, 100.0, pace)  # the start of Ray and the listing take long
    busy = progress._replace(listed=70, finished=10, is_listed=True)
    snapshot = take_snapshot(busy, 100.0 + seconds, pace)
    assert snapshot.rate == pytest.approx(10 / seconds)
    assert snapshot.seconds_left == (left and pytest.approx(left))
    # Readers of the progress file get the same estimate, or none.
    assert (parse_json(render_snapshot(snapshot)).seconds_left is None) is (left is None)


def test_quarantined_sources_are_not_remaining_work() -> None:
    stuck = Snapshot(40, 100, True, 0, 39, 0, 1.0, (), 0, quarantined=60)
    assert stuck.seconds_left == pytest.approx(1.0)
    assert render_snapshot(stuck)["sources"]["quarantined"] == 60
    assert describe_sources(stuck) == (
        "39 of 100 sources finished, 60 quarantined; 1.0/s, about 1.0 s left"
    )


def test_no_remaining_time_is_shown_at_an_imperceptible_pace() -> None:
    assert BUSY._replace(rate=5e-324).seconds_left is None
    assert BUSY._replace(rate=-1.0).seconds_left is None


def test_scripts_get_a_snapshot() -> None:
    assert render_snapshot(BUSY._replace(stages=STAGES[:1])) == {
        "event": "progress",
        "seconds": 125.2,
        "sources": {
            "listed": 5000,
            "total": 5000,
            "finished": 1189,
            "failed": 1,
            "skipped": 1000,
            "quarantined": 0,
        },
        "rows": {"read": 0, "written": 0, "size": 0},
        "rate": 9.5,
        "secondsLeft": 295.8,
        "stages": [
            {
                "name": "read-files",
                "tasksIn": 1200,
                "tasksOut": 1190,
                "waiting": 8,
                "running": 2,
                "failed": 0,
                "rate": 0.0,
                "utilisation": 0.0,
                "oldestCall": 0.0,
                "oldestOver": "",
                **render_pool(PoolState()),
            }
        ],
        "incidents": 2,
        "bottleneck": None,
        "dashboard": None,
    }
    known = render_snapshot(BUSY._replace(bottleneck="parquet", dashboard="10.0.0.7:8265"))
    assert (known["bottleneck"], known["dashboard"]) == ("parquet", "10.0.0.7:8265")
    early = render_snapshot(EARLY)
    assert (early["sources"]["total"], early["secondsLeft"]) == (None, None)


def test_the_pace_is_that_of_the_last_half_minute() -> None:
    pace = Pace()
    pace.begin(10.0)
    assert pace.measure(20.0, 10) == pytest.approx(1.0)
    assert pace.measure(40.0, 10) == pytest.approx(10 / 30)
    assert pace.measure(100.0, 70) == pytest.approx(1.0)
    assert pace.measure(131.0, 101) == pytest.approx(1.0)
    assert pace.measure(162.0, 101) == pytest.approx(0.0)


@given(steps=st.lists(st.tuples(st.floats(0.01, 100), st.integers(0, 1000)), min_size=1))
def test_law_a_pace_is_between_zero_and_the_fastest_step(
    steps: list[tuple[float, int]],
) -> None:
    pace, seconds, done = Pace(), 0.0, 0
    for step, more in steps:
        seconds, done = seconds + step, done + more
        rate = pace.measure(seconds, done)
        assert 0 <= rate <= max(number / length for length, number in steps) * 1.001


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599.6, "1 h 0 min"),
        (90061, "25 h 1 min"),
    ],
)
def test_lengths_of_time(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (4_200_000_000, "4.2 GB"),
        (5_000_000_000_000_000, "5,000.0 TB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert format_bytes(size) == text


def test_rates() -> None:
    assert [format_rate(rate) for rate in (0.123, 3.14, 1234.5)] == ["0.12/s", "3.1/s", "1,234/s"]


def test_text_from_outside_can_not_move_the_cursor() -> None:
    assert escape_text("é a\n\x1b[2J\udc80") == r"é a\n\x1b[2J\udc80"


def test_columns_are_in_line() -> None:
    rows = [("stage", "in"), ("a", "1"), ("bcdefgh", "1,000")]
    assert list(align(rows)) == ["stage       in", "a            1", "bcdefgh  1,000"]
    assert list(align(rows, left=2)) == ["stage    in", "a        1", "bcdefgh  1,000"]


def test_a_long_call_is_named_with_its_stage_and_source() -> None:
    pool = STAGES[0].pool._replace(oldest=75.0, over="in/7\x1b[2J.json and 1 more")
    snapshot = BUSY._replace(stages=(STAGES[0]._replace(pool=pool), *STAGES[1:]))
    words = "longest call: 1 min 15 s in read-files, over in/7"
    assert words in describe_line(snapshot)
    out = io.StringIO()
    Console(file=out, width=100).print(draw("notes", snapshot))
    assert words in out.getvalue()
    assert "\x1b[2J" not in describe_line(snapshot)
    assert parse_json(render_snapshot(snapshot)).stages[0].pool.over == pool.over
    assert "longest call" not in describe_line(BUSY)


def test_rows_show_the_progress_of_few_sources() -> None:
    few = Snapshot(60, 8, True, 0, 3, 0, 0.1, (), 0)
    words = {
        RowsDone(): "",
        RowsDone(read=1234): ", 1,234 rows read",
        RowsDone(5000, 1, 2_000_000): ", 1 row (2.0 MB) written",
    }
    for rows, text in words.items():
        line = describe_sources(few._replace(rows=rows))
        assert line.startswith(f"3 of 8 sources finished{text}; 0.10/s")
        assert parse_json(render_snapshot(few._replace(rows=rows))).rows == rows
    many = few._replace(listed=1000, rows=RowsDone(5000, 1, 2))
    assert "written" not in describe_sources(many)
