"""The record of test runs, and its requirements for a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from record import MOST_COMMITS, Entry, find_stale, list_names, read_record, write_entry
from schedule import MOST_SLOWNESS, Estimate, estimate_builds, fits, measure_slowness

GREEN = Entry("a" * 40, 12.5, 7, "passed")


def test_an_entry_is_read_back_and_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    assert read_record(path) == {}
    write_entry("stores", GREEN, path)
    failed = Entry("b" * 40, 1.0, 8, "failed")
    write_entry("bench", failed, path)
    assert read_record(path) == {"stores": GREEN, "bench": failed}


@pytest.mark.parametrize(
    ("entry", "age", "expected"),
    [
        (GREEN, 0, []),
        (GREEN, MOST_COMMITS, []),
        (GREEN, MOST_COMMITS + 1, ["stores passed 21 commits ago; the limit is 20"]),
        (GREEN, -1, ["stores passed at aaaaaaaaaaaa, which is not in this history"]),
        (Entry("b" * 40, 1, 1, "failed"), 0, ["stores failed at bbbbbbbbbbbb"]),
        (Entry("b" * 40, 1, 1, "uncommitted"), 0, ["stores uncommitted at bbbbbbbbbbbb"]),
        (None, 0, ["stores has never been recorded"]),
    ],
)
def test_a_group_without_a_recent_green_run_is_named(
    entry: Entry | None, age: int, expected: list[str]
) -> None:
    entries = {"stores": entry} if entry else {}
    assert find_stale(["stores"], entries, lambda commit: age) == expected


def test_a_release_requires_every_tier() -> None:
    assert {"first", "stores", "node", "full", "e2e-all", "ray-versions"} <= set(list_names())


@pytest.mark.parametrize(
    ("measured", "recorded", "slowness"),
    [
        (600, 600, 1.0),
        (300, 600, 1.0),
        (1200, 600, 2.0),
        (9000, 600, MOST_SLOWNESS),
        (600, None, 1.0),
        (0, 600, 1.0),
    ],
)
def test_a_slow_machine_is_noticed_by_the_first_tier(
    measured: float, recorded: float | None, slowness: float
) -> None:
    assert measure_slowness(measured, recorded) == slowness


def test_a_group_fits_with_its_builds_on_a_machine_as_slow_as_this() -> None:
    assert fits(Estimate(100, 50), 1.0, 150)
    assert not fits(Estimate(100, 51), 1.0, 150)
    assert not fits(Estimate(100), 2.0, 150)


def test_only_missing_builds_count() -> None:
    is_built = {"s3": True, "gcs": False}
    assert estimate_builds(["s3", "gcs"], is_built, {"s3": 150.0, "gcs": 90.0}) == 90.0
