"""Measures the worker memory for deduplication of a large corpus, half of which are pairs.

Buckets, links, and keys have the size for that many texts, but are generated, not computed.
"""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from strandline.plan.task import Task
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.table import Row, bound
from strandline_packs.dedup.corpus.cluster_duplicates import ClusterDuplicates
from strandline_packs.dedup.corpus.clusters import LINKS, link_rows
from strandline_packs.dedup.corpus.row_buckets import build_buckets
from strandline_packs.dedup.key_lists import digest_bytes

BANDS, PARTITIONS = 14, 64
COPIES = 2  # number of partitions that contain a pair's link, because several bands match
MOST_GB = 2.0


def measure_duplicates(scale: Scale) -> list[Row]:
    """Link one partition of the buckets, then compute the clusters of all links."""
    texts = scale.pick(10_000_000, 20_000)
    partition = run_apart(_link, texts)
    found = run_apart(_write_links, scale.folder, texts // 4)
    clusters = run_apart(_cluster, scale.folder, found)
    what = f"{texts:,} texts, half of them in pairs"
    linking = f"{what}: link a partition of {PARTITIONS}, memory"
    return [
        bound(linking, partition, MOST_GB, "GB"),
        bound(f"{what}: find the clusters, memory", clusters, MOST_GB, "GB"),
    ]


def _link(texts: int) -> float:
    rows = texts * BANDS // PARTITIONS
    # Half of the rows share a bucket with a neighbor, as pairs do.
    numbers = [row - row % 2 if row < rows // 2 else row for row in range(rows)]
    buckets = [[digest_bytes(b"%d" % number)] for number in numbers]
    table = build_buckets([_format_key(row) for row in range(rows)], buckets)
    del numbers, buckets
    links = link_rows(table)
    assert links.num_rows == rows // 2 - rows // 2 % 2
    return _read_peak()


def _write_links(folder: Path, pairs: int) -> int:
    """Write links, one file per partition, and return the number of pairs."""
    keys = pa.array([_format_key(number) for number in range(2 * pairs)], pa.string())
    ids = pa.array([digest_bytes(key.as_py().encode()) for key in keys], LINKS.field("id").type)
    chance = np.random.default_rng(5)
    parts = chance.integers(0, PARTITIONS, (COPIES, pairs))
    for part in range(PARTITIONS):
        firsts = 2 * np.flatnonzero((parts == part).any(axis=0))
        rows = pa.array(np.repeat(firsts, 2) + np.tile([0, 1], len(firsts)))
        columns = [keys.take(rows), ids.take(rows), ids.take(pa.array(np.repeat(firsts, 2)))]
        table = pa.Table.from_arrays(columns, schema=LINKS)
        pq.write_table(table, folder / f"links-{part:02}.parquet")
    return pairs


def _cluster(folder: Path, pairs: int) -> float:
    files = sorted(map(str, folder.glob("links-*.parquet")))
    task = Task(pa.table({"key": files, "path": files}))
    stage = ClusterDuplicates()
    assert pairs == sum(found.num_rows for found in stage.process(task))
    return _read_peak()


def _format_key(number: int) -> str:
    return f"crawl/part-{number % 1000:05}.warc.gz#{number * 7919}"


def _read_peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
