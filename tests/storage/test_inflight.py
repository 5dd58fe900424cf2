"""The table of work in flight always shows the workers' current work to any reader."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.storage.errors import VolumeError
from strandline.storage.volume.inflight import InFlight, InFlightTable, read_inflight, read_worked

ITEMS = [bytes([number]) * 16 for number in range(6)]
NOTHING = InFlight(frozenset(), frozenset())


def spell(processing: set[bytes], queued: set[bytes]) -> InFlight:
    return InFlight(frozenset(processing), frozenset(queued))


def test_an_item_is_queued_then_processed_then_gone(tmp_path: Path) -> None:
    table = InFlightTable(tmp_path / "table")
    table.queue(ITEMS[:3])
    table.process(ITEMS[:1])
    assert read_inflight(tmp_path / "table") == spell(set(ITEMS[:1]), set(ITEMS[1:3]))

    table.settle(ITEMS[:1])
    table.withdraw(ITEMS[1:3])
    assert read_inflight(tmp_path / "table") == NOTHING


def test_work_that_begins_at_once_leaves_the_same_table_as_queued_work(tmp_path: Path) -> None:
    table, other = InFlightTable(tmp_path / "table"), InFlightTable(tmp_path / "other")
    for items in (ITEMS[:2], ITEMS[1:3]):
        table.begin(items)
        other.queue(items)
        other.process(items)
        assert read_inflight(tmp_path / "table") == read_inflight(tmp_path / "other")
    table.settle(ITEMS[:2])
    assert read_inflight(tmp_path / "table") == spell(set(ITEMS[1:3]), set())
    table.settle(ITEMS[1:3])
    assert read_inflight(tmp_path / "table") == NOTHING


def test_a_repeated_item_stays_until_both_are_settled(tmp_path: Path) -> None:
    table = InFlightTable(tmp_path / "table")
    table.queue([ITEMS[0], ITEMS[0]])
    table.process([ITEMS[0]])
    assert read_inflight(tmp_path / "table").processing == {ITEMS[0]}
    table.settle([ITEMS[0]])
    assert read_inflight(tmp_path / "table") == spell(set(), {ITEMS[0]})


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["queue", "process", "settle", "withdraw"]), st.integers(0, 5)),
        max_size=60,
    )
)
def test_the_table_matches_a_count_of_calls(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("table") / "table"
    table = InFlightTable(path)
    queued: Counter[bytes] = Counter()
    processing: Counter[bytes] = Counter()
    for step, number in steps:
        item = ITEMS[number]
        if step == "queue":
            queued[item] += 1
        elif (step == "settle" and not processing[item]) or (
            step in {"process", "withdraw"} and not queued[item]
        ):
            continue  # workers never take this step
        elif step == "settle":
            processing[item] -= 1
        else:
            queued[item] -= 1
            processing[item] += step == "process"
        getattr(table, step)([item])
        busy = {one for one in ITEMS if processing[one]}
        waiting = {one for one in ITEMS if queued[one]} - busy
        assert read_inflight(path) == spell(busy, waiting)
    table.close()


def test_work_of_a_killed_process_stays_in_the_table(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, pathlib\n"
        "from strandline.storage.volume.inflight import InFlightTable\n"
        "table = InFlightTable(pathlib.Path(sys.argv[1]))\n"
        "table.queue([b'a' * 16, b'b' * 16])\n"
        "table.process([b'a' * 16])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "table")], check=False)
    assert -signal.SIGKILL == done.returncode
    assert read_inflight(tmp_path / "table") == spell({b"a" * 16}, {b"b" * 16})


def test_a_table_is_recreated(tmp_path: Path) -> None:
    first = InFlightTable(tmp_path / "table")
    first.queue(ITEMS)
    first.close()
    InFlightTable(tmp_path / "table")
    assert read_inflight(tmp_path / "table") == NOTHING


def test_items_beyond_the_rows_are_ignored(tmp_path: Path) -> None:
    many = [number.to_bytes(16, "big") for number in range(1, 20_000)]
    table = InFlightTable(tmp_path / "table")
    table.queue(many)
    assert len(read_inflight(tmp_path / "table").queued) == 16_384
    table.withdraw(many)
    assert read_inflight(tmp_path / "table") == NOTHING
    table.queue(many[-2:])
    assert read_inflight(tmp_path / "table").queued == set(many[-2:])


@pytest.mark.parametrize("content", [b"", b"half a row", b"\xff" * 40], ids=repr)
def test_an_invalid_table_is_empty(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(content)
    assert read_inflight(tmp_path / "table") == NOTHING


def test_a_missing_table_is_empty(tmp_path: Path) -> None:
    assert read_inflight(tmp_path / "none") == NOTHING


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(VolumeError, match="none/table"):
        InFlightTable(tmp_path / "none/table")


def test_a_table_shows_when_its_process_worked_last(tmp_path: Path) -> None:
    path = tmp_path / "table"
    table = InFlightTable(path)
    assert read_worked(path) is None
    table.queue(ITEMS[:2])
    table.show_work(1234.5)
    assert (1234.5, spell(set(), set(ITEMS[:2]))) == (read_worked(path), read_inflight(path))
    table.clear()
    assert (1234.5, NOTHING) == (read_worked(path), read_inflight(path))


@pytest.mark.parametrize("content", [None, b"", bytes(17 * 16_384), bytes(17 * 16_384 + 7)])
def test_without_shown_work_the_time_is_unknown(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "table").write_bytes(content)
    assert read_worked(tmp_path / "table") is None


def test_a_cleared_table_is_empty_and_usable(tmp_path: Path) -> None:
    table = InFlightTable(tmp_path / "table")
    table.queue(ITEMS[:4])
    table.process(ITEMS[:2])
    table.clear()
    assert read_inflight(tmp_path / "table") == NOTHING
    table.queue(ITEMS)
    table.process(ITEMS[1:2])
    assert read_inflight(tmp_path / "table") == spell({ITEMS[1]}, {ITEMS[0], *ITEMS[2:]})
