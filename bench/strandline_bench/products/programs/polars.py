"""Runs jobs with Polars: a lazy query and a streaming sink."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from strandline_bench.products.functions import is_kept, run_program


def filter_documents(source: Path, target: Path) -> None:
    """Filter rows by a Python function of each text."""
    kept = pl.col("text").map_elements(is_kept, return_dtype=pl.Boolean)
    pl.scan_ndjson(source / "*.jsonl").filter(kept).sink_parquet(target / "kept.parquet")


def drop_equal(source: Path, target: Path) -> None:
    """Keep one copy of each text."""
    frame = pl.scan_ndjson(source / "*.jsonl").unique(subset="text", keep="any")
    frame.sink_parquet(target / "kept.parquet")


if __name__ == "__main__":
    run_program({"filter": filter_documents, "words": filter_documents, "exact": drop_equal})
