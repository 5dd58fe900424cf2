"""Measures the work that remains after an interruption, after the end, and with new input.

A word filter is killed at half of its time, then resumed, then run with nothing to do, and then
with one more day of input. Each product resumes as documented; if it cannot, the whole job runs
again in an empty folder. Shares refer to the product's own whole run, and the final result is
compared with the function's decisions on the input.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number
from strandline_bench.products.functions import KEEPING
from strandline_bench.products.index import PRODUCTS, Product
from strandline_bench.products.jobs import (
    JOBS,
    FailedProductError,
    Kept,
    digest_values,
    kill_product,
    read_kept,
    run_product,
    start_product,
)

(_JOB,) = (job for job in JOBS if job.name == "words")
_RESUMING = {"CURATOR_RESUMES": "1", "JUICER_RESUMES": "1"}
# Examples of products that cannot resume. The other such products are not measured.
_WITHOUT = ("a pool of processes, by hand", "Polars", "Daft")
_DAY = 20  # an additional day is a twentieth of the input


def measure_interruptions(scale: Scale) -> list[Row]:
    """Interrupt and resume the installed products that can resume, and those in `_WITHOUT`."""
    count = scale.pick(500_000, 1_000)
    folder = scale.folder / "interrupted"
    _JOB.write(folder / "all", count + count // _DAY)
    rows: list[Row] = []
    # A quick run measures only Strandline.
    for product in PRODUCTS[:1] if scale.is_quick else PRODUCTS:
        if product.is_installed() and (product.resumes or product.title in _WITHOUT):
            try:
                rows += _interrupt(product, folder, f"{_JOB.what}, {count:,}")
            except FailedProductError as error:
                rows.append(Row(f"{product.describe()}: interrupted", str(error)))
            shutil.rmtree(folder / "out", ignore_errors=True)
    return rows


def _interrupt(product: Product, folder: Path, what: str) -> Iterator[Row]:
    """Yield one row each for a kill, a run with nothing to do, and an additional day of input."""
    product = replace(product, variables={**product.variables, **_RESUMING})
    target = folder / "out"
    _fill(folder, is_whole=False)
    whole = run_product(product, _JOB, folder, target)
    kept = _expect(folder)
    shutil.rmtree(target)
    with start_product(product, _JOB, folder, target) as process:
        with suppress(subprocess.TimeoutExpired):  # the product still runs, as expected
            process.wait(whole / 2)
        kill_product(process)
    again = _go_on(product, folder)
    name = product.describe()
    yield _tell(
        f"{what}, killed at half: {name}", again, whole, read_kept(target, _JOB.column), kept
    )
    nothing = _go_on(product, folder)
    yield _tell(
        f"{what}, nothing to do: {name}", nothing, whole, read_kept(target, _JOB.column), kept
    )
    _fill(folder, is_whole=True)
    day = _go_on(product, folder)
    grown = read_kept(target, _JOB.column)
    yield _tell(f"{what}, a day of 5 % more: {name}", day, whole, grown, _expect(folder))


def _go_on(product: Product, folder: Path) -> float:
    """Resume the product, or restart it if it cannot resume. Return the seconds."""
    target = folder / "out"
    if not product.resumes:
        shutil.rmtree(target)
    return run_product(product, _JOB, folder, target)


def _expect(folder: Path) -> Kept:
    """Return the count and digest of the input rows that the function keeps."""
    lines = (line for path in (folder / "in").iterdir() for line in path.open(encoding="utf-8"))
    rows = map(json.loads, lines)
    return digest_values(row[_JOB.column] for row in rows if KEEPING[_JOB.name](row["text"]))


def _tell(what: str, seconds: float, whole: float, kept: Kept, wanted: Kept) -> Row:
    measured = f"{format_number(seconds, 's')}, {100 * seconds / whole:.0f} % of a whole run"
    if kept != wanted:
        measured += f"; {kept.rows:,} rows in the end, of {wanted.rows:,}"
    return Row(what, measured)


def _fill(folder: Path, *, is_whole: bool) -> None:
    """Link the input files into the `in` folder. The last file, the new day, needs `is_whole`."""
    shutil.rmtree(folder / "in", ignore_errors=True)
    (folder / "in").mkdir()
    files = sorted((folder / "all").iterdir())
    for path in files if is_whole else files[:-1]:
        (folder / "in" / path.name).hardlink_to(path)
