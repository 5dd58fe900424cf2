"""Runs jobs with Polars: a lazy query and a streaming sink."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from strandline_bench.products.functions import is_kept, run_program

_LEVEL = 3  # the compression level of Strandline's Parquet files


def filter_documents(source: Path, target: Path) -> None:
    """Filter rows by a Python function of each text."""
    kept = pl.col("text").map_elements(is_kept, return_dtype=pl.Boolean)
    pl.scan_ndjson(source / "*.jsonl").filter(kept).sink_parquet(target / "kept.parquet")


def copy_documents(source: Path, target: Path) -> None:
    """Copy all rows, with Strandline's compression level."""
    rows = pl.scan_ndjson(source / "*.jsonl")
    rows.sink_parquet(target / "kept.parquet", compression="zstd", compression_level=_LEVEL)


def drop_equal(source: Path, target: Path) -> None:
    """Keep one copy of each text."""
    frame = pl.scan_ndjson(source / "*.jsonl").unique(subset="text", keep="any")
    frame.sink_parquet(target / "kept.parquet")


if __name__ == "__main__":
    run_program(
        {
            "filter": filter_documents,
            "words": filter_documents,
            "copy": copy_documents,
            "exact": drop_equal,
        }
    )
