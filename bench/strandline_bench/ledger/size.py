"""Measures the size of the ledger on disk, from the page counts of its databases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lmdb

from strandline_bench.ground.filled_ledger import TEN_MILLION
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, bound, format_number

_MEGABYTE = 1_000_000
_DATABASES = ("meta", "finished", "records", "failures", "inflight", "quarantine", "starts")


def measure_size(scale: Scale) -> list[Row]:
    """Return used pages and file size for ten million sources with one output each."""
    ledger = scale.fill_ledger()
    sizes, file_size = read_sizes(ledger.path)
    factor = TEN_MILLION / ledger.sources / _MEGABYTE
    scaled = "" if ledger.sources == TEN_MILLION else f", scaled up from {ledger.sources:,}"
    of = f"of 10,000,000 sources{scaled}"
    rows = [
        bound(f"index `finished` {of}", sizes["finished"] * factor, 450, "MB"),
        bound(f"whole ledger {of}, one output each", sum(sizes.values()) * factor, 1400, "MB"),
        Row(
            f"its file, with pages that are free again, {of}",
            format_number(file_size * factor, "MB"),
        ),
    ]
    # With fewer sources, index pages are less full and the scaled size is too large, so do not
    # compare the size with its target.
    return [replace(row, is_reached=None) for row in rows] if scaled else rows


def read_sizes(path: Path) -> tuple[dict[str, int], int]:
    """Return the bytes of each database's pages, and of the file."""
    environment = lmdb.open(str(path), readonly=True, max_dbs=len(_DATABASES))
    sizes = {}
    with environment.begin() as transaction:
        for name in _DATABASES:
            database = environment.open_db(name.encode(), txn=transaction, create=False)
            stat = transaction.stat(database)
            pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
            sizes[name] = pages * stat["psize"]
    environment.close()
    return sizes, (path / "data.mdb").stat().st_size
