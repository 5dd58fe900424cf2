"""Runs jobs with a process pool over the files, without fault tolerance or logs."""

from __future__ import annotations

from multiprocessing import Pool
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from strandline_bench.products.functions import CORES, is_kept, run_program


def filter_documents(source: Path, target: Path) -> None:
    """Filter one file at a time in each process."""
    paths = [(str(path), f"{target}/{path.stem}.parquet") for path in sorted(source.iterdir())]
    with Pool(CORES) as pool:
        pool.map(_filter_file, paths, chunksize=1)


def _filter_file(paths: tuple[str, str]) -> None:
    table = pj.read_json(paths[0])
    kept = pa.array([is_kept(text) for text in table["text"].to_pylist()])
    pq.write_table(table.filter(kept), paths[1], compression="zstd")


if __name__ == "__main__":
    run_program({"filter": filter_documents, "words": filter_documents})
