"""How close the order of shuffled rows is to random, for single rows and for blocks."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.columns import MissingColumnError
from strandline_packs.tables.shuffle.row_order import find_partitions, order_positions, part_keys

PARTITIONS, ROWS, BLOCK = 16, 16_384, 64
SEEDED = {"by": "key", "seed": 3, "partitions": PARTITIONS}


def shuffle(folder: Path, files: list[list[str]], **sink: Any) -> list[list[str]]:
    """Return the keys of each partition after shuffling files with these keys."""
    folder.mkdir(parents=True, exist_ok=True)
    options = SEEDED | sink
    for at, keys in enumerate(files):
        written = StageRun("shuffle", **options).written(pa.table({"key": keys}))
        (folder / f"{at:03}.parquet").write_bytes(written)
    parts = []
    for source in StageRun("shuffle-partitions", paths=[f"{folder}/*.parquet"]).sources():
        table = StageRun("read-shuffle").table(source.data)
        assert table is not None
        parts.append(table["key"].to_pylist())
    return parts


def measure(parts: list[list[str]]) -> dict[str, float]:
    """Measure how far an order of numbers is from random.

    Returns:
        shared: share of adjacent rows that are in one partition; the random value is one over the
            number of partitions.
        spread: variation of the first half's share among partitions, relative to random.
    """
    order = {int(key): at for at, part in enumerate(parts) for key in part}
    places = np.array([order[number] for number in range(len(order))])
    halves = np.array([sum(int(key) < len(order) // 2 for key in part) for part in parts])
    sizes = np.array(list(map(len, parts)))
    deviations = (halves / sizes - 0.5) / np.sqrt(0.25 / sizes)
    return {
        "shared": float(np.mean(places[1:] == places[:-1])),
        "spread": float(np.sqrt(np.mean(deviations**2))),
    }


def test_rows_are_shuffled_randomly(tmp_path: Path) -> None:
    keys = list(map(str, range(ROWS)))
    found = measure(shuffle(tmp_path, [keys[: ROWS // 2], keys[ROWS // 2 :]]))
    assert found["shared"] == pytest.approx(1 / PARTITIONS, rel=0.2)
    assert 0.5 < found["spread"] < 1.5


def test_blocks_deviate_from_random_as_documented(tmp_path: Path) -> None:
    keys = list(map(str, range(ROWS)))
    parts = shuffle(tmp_path, [keys], exact=False, blockRows=BLOCK)
    found = measure(parts)
    assert found["shared"] == pytest.approx(1 - 1 / BLOCK, abs=0.02)
    assert BLOCK**0.5 / 2 < found["spread"] < BLOCK**0.5 * 2
    # Within a partition, the order is random: neighbors are a third of its length apart.
    part = max(parts, key=len)
    at = {int(key): index for index, key in enumerate(part)}
    apart = [abs(at[n] - at[n + 1]) for n in at if n + 1 in at]
    assert np.mean(apart) == pytest.approx(len(part) / 3, rel=0.15)


@given(st.integers(1, 64), st.integers(0, 2**63), st.integers(0, 9))
def test_positions_are_drawn_once_each(count: int, seed: int, partition: int) -> None:
    drawn = order_positions(count, seed, partition)
    assert len(set(drawn.tolist())) == count
    assert drawn.tolist() == order_positions(count + 1, seed, partition)[:-1].tolist()


@given(st.lists(st.text(), max_size=20), st.integers(), st.integers(1, 65_536))
def test_each_key_has_one_partition(keys: list[str], seed: int, count: int) -> None:
    found = part_keys(keys, seed, count)
    assert [part_keys([key], seed, count)[0] for key in keys] == found.tolist()
    assert all(0 <= number < count for number in found)


def test_partitions_take_equal_shares_of_digests() -> None:
    assert find_partitions(np.array([0, 2**31 - 1, 2**31, 2**32 - 1], np.uint32), 2).tolist() == [
        0,
        0,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("partitions", "target", "keys"),
    [
        (4, 1, ["00000", "00001", "00002", "00003"]),
        (3, 200, ["00000-00001", "00002-00002"]),
        (3, 10**9, ["00000-00002"]),
    ],
)
def test_adjacent_partitions_form_one_source_of_limited_size(
    tmp_path: Path, partitions: int, target: int, keys: list[str]
) -> None:
    parts = shuffle(tmp_path, [list("abcdefghij")], partitions=partitions)
    run = StageRun("shuffle-partitions", paths=[f"{tmp_path}/*.parquet"], targetBytes=target)
    sources = run.sources()
    assert [f"partition/{key}-of-{partitions:05d}" for key in keys] == [
        each.key for each in sources
    ]
    tables = [StageRun("read-shuffle").table(source.data) for source in sources]
    found = [sorted(table["key"].to_pylist()) for table in tables if table is not None]
    step = -(-partitions // len(keys))
    assert found == [sorted(chain(*parts[at : at + step])) for at in range(0, partitions, step)]


@settings(max_examples=scale_examples(20))
@given(
    st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=4), min_size=1, max_size=4),
    st.lists(st.integers(100, 199), min_size=1, max_size=4),
    st.sampled_from([None, 300, 10**9]),
)
def test_law_a_new_file_changes_only_partitions_with_its_rows(
    days: list[list[int]], new: list[int], target: int | None
) -> None:
    """The rows are those of all files, in the same order."""
    options: dict[str, Any] = {} if target is None else {"targetBytes": target}
    files = [[str(number) for number in numbers] for numbers in (*days, new)]

    def look(folder: Path, **more: bool) -> dict[str, tuple[str, list[str]]]:
        run = StageRun("shuffle-partitions", paths=[f"{folder}/*.parquet"], **options, **more)
        tables = [(each, StageRun("read-shuffle").table(each.data)) for each in run.sources()]
        return {
            each.key: (each.version, table["key"].to_pylist())
            for each, table in tables
            if table is not None
        }

    with TemporaryDirectory() as name:
        folder = Path(name)
        shuffle(folder, files[:-1])
        before = look(folder, onlyTouched=True)
        written = StageRun("shuffle", **SEEDED).written(pa.table({"key": files[-1]}))
        (folder / "new.parquet").write_bytes(written)
        after = look(folder, onlyTouched=True)
        assert [rows for _, rows in after.values()] == [rows for _, rows in look(folder).values()]
        # With more bytes in total, a source may cover fewer partitions.
        if before.keys() == after.keys():
            changed = {key for key in after if after[key][0] != before[key][0]}
            assert changed == {key for key, (_, rows) in after.items() if {*rows} & {*files[-1]}}


def test_a_partition_without_rows_is_one_empty_task(tmp_path: Path) -> None:
    assert shuffle(tmp_path, [[]], partitions=1) == [[]]


def test_files_of_two_seeds_are_refused(tmp_path: Path) -> None:
    shuffle(tmp_path / "one", [["a"]], partitions=1)
    shuffle(tmp_path / "two", [["a"]], partitions=1, seed=4)
    (source,) = StageRun("shuffle-partitions", paths=[f"{tmp_path}/*/*.parquet"]).sources()
    with pytest.raises(UnreadableFileError, match=r"two/000\.parquet: its rows are partitioned"):
        StageRun("read-shuffle").table(source.data)


def test_files_without_an_order_are_unchanged(tmp_path: Path) -> None:
    """Files of an earlier release stay readable, and their bytes are unchanged."""
    digests = pa.array([b"\0" * 8, b"\xff" * 8], pa.binary(8))
    (tmp_path / "a.parquet").write_bytes(
        StageRun("shuffle", partitions=2).written(pa.table({"bucket": digests}))
    )
    mark = pq.read_schema(tmp_path / "a.parquet").metadata[b"strandline.partitions"]
    assert mark == b'{"count": 2, "groups": [0, 1]}'


def test_a_missing_key_column_is_reported() -> None:
    with pytest.raises(MissingColumnError, match="there is no column 'id'; the columns are: key"):
        StageRun("shuffle", by="id", seed=1).written(pa.table({"key": ["a"]}))
