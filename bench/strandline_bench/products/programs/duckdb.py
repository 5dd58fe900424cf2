"""Runs jobs with DuckDB: one query, with a Python function if the job has one."""

from __future__ import annotations

from pathlib import Path

import duckdb

from strandline_bench.products.functions import is_kept, run_program


def filter_documents(source: Path, target: Path) -> None:
    """Filter rows by a Python function."""
    connection = duckdb.connect()
    connection.create_function("is_kept", is_kept, ["VARCHAR"], "BOOLEAN")
    connection.execute(
        f"COPY (FROM '{source}/*.jsonl' WHERE is_kept(text)) TO '{target}/kept.parquet'"
    )


def drop_equal(source: Path, target: Path) -> None:
    """Keep one copy of each text."""
    connection = duckdb.connect()
    connection.read_json(f"{source}/*.jsonl").create_view("rows")
    connection.sql("SELECT DISTINCT ON (text) * FROM rows").write_parquet(f"{target}/kept.parquet")


if __name__ == "__main__":
    run_program({"filter": filter_documents, "words": filter_documents, "exact": drop_equal})
