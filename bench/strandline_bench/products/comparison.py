"""Compares products by the run time of complete commands, including their start.

All products process the same files in alternation, and the table has the median times. If a job has
one correct answer, all products must keep the same rows. If each product applies its own rules, the
table has the number of rows that each one keeps. The run on the smallest input approximates the
time of the start, which is subtracted from longer runs for a second time without the start.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number
from strandline_bench.products.index import HOW_TO_INSTALL, PRODUCTS, Product
from strandline_bench.products.jobs import (
    JOBS,
    FailedProductError,
    Job,
    Kept,
    read_kept,
    run_product,
)

_MIBS = 1e6
_MANY = 10_000  # above this number of items, one turn suffices
_OURS = PRODUCTS[0]


def measure_products(scale: Scale) -> dict[str, list[Row]]:
    """Run every product in every supported job at each size. Return a table per job."""
    return {job.name: list(_measure_job(job, scale)) for job in JOBS if _is_asked(job, scale)}


def _is_asked(job: Job, scale: Scale) -> bool:
    return not scale.cases or job.name in scale.cases


def _measure_job(job: Job, scale: Scale) -> Iterator[Row]:
    starts: dict[str, float] = {}
    able = [product for product in PRODUCTS if job.name in product.jobs]
    installed = [product for product in able if product.is_installed()]
    for count in job.sizes[:1] if scale.is_quick else job.sizes:
        folder = scale.folder / f"{job.name}-{count}"
        job.write(folder / "in", count)
        size = sum(path.stat().st_size for path in (folder / "in").iterdir())
        what = f"{job.what}, {count:,} of {size / _MIBS:,.1f} MB"
        turns = scale.turns or (1 if count > _MANY or scale.is_quick else 3)
        yield from _compare(job, installed, folder, what, turns, starts)
        shutil.rmtree(folder)
    for product in able:
        if product not in installed:
            yield Row(f"{job.what}: {product.title}", HOW_TO_INSTALL)


def _compare(
    job: Job, products: list[Product], folder: Path, what: str, turns: int, starts: dict[str, float]
) -> Iterator[Row]:
    """Run all products in turns.

    Args:
        starts: seconds of each product over the smallest input. The first call fills the mapping.
    """
    taken: dict[str, list[float]] = {product.title: [] for product in products}
    kept: dict[str, Kept] = {}
    failures: dict[str, str] = {}
    for _ in range(turns):
        for product in products:
            try:
                seconds, kept[product.title] = _run(product, job, folder)
                taken[product.title].append(seconds)
            except FailedProductError as error:
                failures[product.title] = str(error)
    if job.column and len(set(kept.values())) > 1:
        raise RuntimeError(f"{what}: the products did not keep the same rows: {kept}")
    medians = {title: median(times) for title, times in taken.items() if times}
    titles = {product.title: product.describe() for product in products}
    ours = medians.get(_OURS.title)
    for title, seconds in sorted(medians.items(), key=lambda each: each[1]):
        start = starts.setdefault(title, seconds)
        measured = _describe(seconds, start, ours if title != _OURS.title else None)
        rows = "" if job.column else f", {kept[title].rows:,} kept"
        yield Row(f"{what}: {titles[title]}", f"{measured}{rows}")
    for title in failures.keys() - medians.keys():
        yield Row(f"{what}: {titles[title]}", failures[title])


def _describe(seconds: float, start: float, ours: float | None) -> str:
    """Format the seconds, the seconds without the start, and the ratio to Strandline's seconds."""
    parts = [format_number(seconds, "s")]
    if seconds > start:
        parts.append(f"{format_number(seconds - start, 's')} without its start")
    if ours is not None:
        parts.append(f"{seconds / ours:.2f} × ours")
    return ", ".join(parts)


def _run(product: Product, job: Job, folder: Path) -> tuple[float, Kept]:
    """Run a product, with one retry. Return its seconds and a digest of the kept rows."""
    target = folder / "out"
    try:
        for is_last in (False, True):
            try:
                seconds = run_product(product, job, folder, target)
                return seconds, read_kept(target, job.column)
            except FailedProductError as error:
                if is_last or "more than" in str(error):
                    raise
                shutil.rmtree(target)
        raise AssertionError
    finally:
        shutil.rmtree(target, ignore_errors=True)
