"""Law of damaged Parquet files in whole runs: each row is intact, or its source has failed.

The exception is damage that a file cannot reveal: the footer has no checksum, so a column may
appear with another type than the written type.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from pipeline_runs import Passes

Rows = list[dict[str, Any]]
SUFFIXES = [".parquet", ".parquet.gz", ".zst", ".jsonl", ".csv", ""]


@st.composite
def files(draw: st.DrawFn) -> tuple[pa.Table, bytes]:
    texts = draw(st.lists(st.text("abcé\n", max_size=40), min_size=1, max_size=40))
    table = pa.table(
        {
            "id": pa.array(range(len(texts)), pa.int64()),
            "text": texts,
            "share": pa.array(
                [None if at % 5 == 0 else at / 7 for at in range(len(texts))], pa.float64()
            ),
            "words": [text.split("a") for text in texts],
        }
    )
    file = io.BytesIO()
    pq.write_table(
        table,
        file,
        row_group_size=draw(st.integers(1, 20)),
        compression=draw(st.sampled_from(["none", "zstd", "snappy"])),
        data_page_version=draw(st.sampled_from(["1.0", "2.0"])),
        use_dictionary=draw(st.booleans()),
        write_page_index=draw(st.booleans()),
        write_page_checksum=True,
    )
    return table, file.getvalue()


@st.composite
def damages(draw: st.DrawFn, whole: bytes, other: bytes) -> tuple[str, bytes]:
    """Return a file's suffix and its damaged bytes: flipped, cut, joined, zeroed, or removed."""
    at = draw(st.integers(0, len(whole) - 1))
    end = min(at + draw(st.sampled_from([1, 30, 500])), len(whole))
    flipped = bytes([whole[at] ^ 1 << draw(st.integers(0, 7))])
    content = draw(
        st.sampled_from(
            [
                whole[:at] + flipped + whole[at + 1 :],
                whole[:at],
                whole + other,
                whole + whole,
                whole + other[: at + 1],
                whole[:at] + bytes(end - at) + whole[end:],
                whole[:at] + whole[end:],
                whole,
            ]
        )
    )
    suffix = draw(st.sampled_from(SUFFIXES)) if content == whole else ".parquet"
    return suffix, content


def has_other_kinds(content: bytes, whole: bytes) -> bool:
    """Return whether the footer can be read but has other column types."""
    try:
        return bool(pq.read_schema(io.BytesIO(content)) != pq.read_schema(io.BytesIO(whole)))
    except (OSError, ValueError, pa.ArrowException):
        return False


def read_output(passes: Passes, name: str) -> Rows:
    """Return the output rows. Each key contains the file."""
    lines = (
        line
        for path in passes.find_output(name).rglob("*.jsonl")
        for line in path.read_text().splitlines()
    )
    return [json.loads(line) for line in lines]


def list_groups(content: bytes) -> Sequence[range]:
    """Return the row numbers of each row group."""
    metadata = pq.read_metadata(io.BytesIO(content))
    sizes = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    return [range(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]


@settings(max_examples=scale_examples(60))
@given(data=st.data(), first=files(), second=files())
def test_law_every_row_is_written_intact_or_its_source_failed(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    first: tuple[pa.Table, bytes],
    second: tuple[pa.Table, bytes],
) -> None:
    (table, whole), (sound, other) = first, second
    suffix, content = data.draw(damages(whole, other))
    passes = Passes(tmp_path_factory.mktemp("damage"))
    folder = passes.folder / "in"
    folder.mkdir()
    (folder / f"a{suffix}").write_bytes(content)
    (folder / "b.parquet").write_bytes(other)
    result = passes.run(
        "read",
        source={"use": "parquet-row-groups", "with": {"paths": [f"{folder}/*"]}},
        stages=[{"use": "read-parquet"}],
        sink={"use": "jsonl"},
    )
    assert passes.find_problems("read") == []
    rows: dict[str, Rows] = {"a": [], "b": []}
    for row in sorted(read_output(passes, "read"), key=lambda row: row["id"]):
        rows[Path(row.pop("key")).name[0]].append(row)
    assert rows["b"] == sound.to_pylist()
    for failure in result.failures:
        assert f"a{suffix}" in failure.message
    failed = {failure.key.rpartition("#rg=")[2] for failure in result.failures}
    assert failed or content == whole or not content.startswith(whole)  # bytes were appended
    if has_other_kinds(content, whole):
        return
    truth = table.to_pylist()
    numbers = Counter(row["id"] for row in rows["a"])
    assert [row for row in rows["a"] if row != truth[row["id"]]] == []
    listed = result.standing.finished + result.standing.failed - len(list_groups(other))
    for at, group in enumerate(list_groups(whole)):
        # If the footer is unreadable, only the first row group is listed, and its source fails for
        # all groups.
        is_told = str(at) in failed or (failed and at >= listed)
        assert is_told or all(numbers[number] == 1 for number in group)
    assert len(numbers) == numbers.total()
