"""The passes that find duplicates in a corpus; every pass reads the files of the previous pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from stage_runs import Rows, StageRun


def list_duplicates(
    folder: Path, first: StageRun, rows: Rows, count: int, **clustering: Any
) -> str:
    """Return the pattern of the files that list duplicates among rows; each row is a source."""
    for number, row in enumerate(rows):
        table = first.table([row])
        assert table is not None
        written = StageRun("shuffle", partitions=count).written(table)
        folder.joinpath(f"buckets-{number:02}.parquet").write_bytes(written)
    partitions = StageRun("shuffle-partitions", paths=[f"{folder}/buckets-*"]).sources()
    assert [f"partition/{at:05d}-of-{count:05d}" for at in range(count)] == [
        source.key for source in partitions
    ]
    for number, source in enumerate(partitions):
        links = StageRun("link-duplicates").table(StageRun("read-shuffle").table(source.data))
        pq.write_table(links, folder / f"links-{number}.parquet")
    (whole,) = StageRun("files", paths=[f"{folder}/links-*"], buckets=1).sources()
    for number, table in enumerate(
        StageRun("cluster-duplicates", maxRows=2, **clustering).tables(whole.data.to_pylist())
    ):
        assert table.num_rows <= 2
        pq.write_table(table, folder / f"dropped-{number}.parquet")
    return f"{folder}/dropped-*.parquet"
