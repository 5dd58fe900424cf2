"""Ray Data: a data set, filtered and written by its own operators."""

from __future__ import annotations

from pathlib import Path

import ray

from strandline_bench.products.functions import CORES, is_kept, run_program


def filter_documents(source: Path, target: Path) -> None:
    """Filter by a function of a row."""
    ray.init("local", num_cpus=CORES, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    kept = ray.data.read_json(str(source), lines=True).filter(lambda row: is_kept(row["text"]))
    kept.write_parquet(str(target))


if __name__ == "__main__":
    run_program({"filter": filter_documents, "words": filter_documents})
