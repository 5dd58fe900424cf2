"""Runs jobs with `datasets`: load, filter with processes, write."""

from __future__ import annotations

from pathlib import Path

import datasets

from strandline_bench.products.functions import CORES, is_kept, run_program


def filter_documents(source: Path, target: Path) -> None:
    """Filter rows by a Python function of a column."""
    datasets.disable_progress_bars()
    files = sorted(map(str, source.iterdir()))
    cache = str(target / "cache")
    loaded = datasets.load_dataset("json", data_files=files, split="train", cache_dir=cache)
    kept = loaded.filter(is_kept, input_columns="text", num_proc=CORES)
    kept.to_parquet(str(target / "kept.parquet"))


if __name__ == "__main__":
    run_program({"filter": filter_documents, "words": filter_documents})
