"""The passes that find duplicates in a corpus, each over the files of the one before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from stage_runs import Rows, StageRun


def list_duplicates(
    folder: Path, first: StageRun, rows: Rows, count: int, **clustering: Any
) -> str:
    """The pattern of files that list what is to be dropped of some rows, each a source."""
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
