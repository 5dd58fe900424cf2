"""The jobs, and the code that runs a product's command for a job in its own process group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from strandline_bench.ground.folders import join_python_path
from strandline_bench.products.functions import MARK
from strandline_bench.products.index import Product
from strandline_bench.products.inputs import (
    write_copies,
    write_documents,
    write_long_documents,
    write_pictures,
    write_prose,
    write_videos,
)
from strandline_bench.products.manifests import write_manifest

LONGEST = 600.0  # timeout of a command in seconds
_PROGRAMS = "strandline_bench.products.programs"


@dataclass(frozen=True, slots=True)
class Job:
    """A job in which products are compared.

    Attributes:
        name: name in the programs.
        what: name in the table.
        write: function that writes the given number of items into a folder.
        sizes: numbers of items; the smallest measures the start.
        column: column by which kept rows are compared; empty if products decide by their own rules.
    """

    name: str
    what: str
    write: Callable[[Path, int], None]
    sizes: tuple[int, ...]
    column: str = ""


JOBS = (
    Job("filter", "a filter in Python", write_documents, (100, 10_000, 1_000_000), "id"),
    Job("words", "a filter of words", write_long_documents, (100, 200_000, 1_000_000), "id"),
    Job("copy", "no row dropped", write_long_documents, (100, 1_000_000), "id"),
    Job("quality", "filters of quality", write_prose, (100, 10_000, 50_000)),
    Job("exact", "equal texts dropped", write_copies, (100, 10_000, 500_000), "text"),
    Job("near", "near-duplicates dropped by MinHash", write_copies, (100, 10_000, 50_000)),
    Job("pictures", "pictures measured", write_pictures, (100, 5_000)),
    Job("videos", "frames of videos measured, two a second", write_videos, (2, 40)),
)


class FailedProductError(Exception):
    """Raised if a command failed or took too long."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Result of a command: the number of rows, and their order-independent digest."""

    rows: int
    digest: str


def run_product(product: Product, job: Job, folder: Path, target: Path) -> float:
    """Run a product over the input of a folder, and return the seconds.

    Raises:
        FailedProductError: if the product failed or exceeded the timeout.
    """
    begun = time.perf_counter()
    with start_product(product, job, folder, target) as process:
        try:
            code = process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            raise FailedProductError(f"more than {LONGEST:.0f} s") from None
        finally:
            kill_product(process)
    if code:
        lines = (folder / "log").read_text(errors="replace").strip().splitlines()
        raise FailedProductError(f"ended with {code}: {lines[-1] if lines else ''}"[:200])
    return time.perf_counter() - begun


def start_product(
    product: Product, job: Job, folder: Path, target: Path
) -> subprocess.Popen[bytes]:
    """Start a product in its own process group, with its log in the folder."""
    target.mkdir(exist_ok=True)
    bin_folder = str(product.python.parent)
    environment = {
        **os.environ,
        "PYTHONPATH": join_python_path(),
        "PATH": os.pathsep.join([bin_folder, os.environ["PATH"]]),
        MARK: job.name,
        **product.variables,
    }
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - ours
            _write_command(product, job, folder, target),
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def kill_product(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and all its processes, so that nothing disturbs the next command.

    Workers of an ended Ray may remain in other process groups; an environment variable identifies
    them.
    """
    with suppress(ProcessLookupError):  # all processes have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for left in psutil.process_iter():
        with suppress(psutil.Error):
            if MARK in left.environ():
                left.kill()


def read_kept(target: Path, column: str) -> Kept:
    """Return the row count and digest of the Parquet files below a folder.

    Args:
        column: column for the digest, or an empty string for no digest.
    """
    paths = (path for path in target.rglob("*.parquet") if not _is_of_passes(path, target))
    files = map(pq.ParquetFile, paths)
    if not column:
        return Kept(sum(file.metadata.num_rows for file in files), "")
    return digest_values(
        value for file in files for value in file.read([column])[column].to_pylist()
    )


def digest_values(values: Iterable[object]) -> Kept:
    """Return the number of values and their digest."""
    count, digest = 0, 0
    for value in values:
        count += 1
        digest ^= int.from_bytes(blake2b(str(value).encode(), digest_size=16).digest(), "big")
    return Kept(count, f"{digest:032x}")


def _is_of_passes(path: Path, target: Path) -> bool:
    """Return whether a file is intermediate: in a volume of Strandline, or in a product's cache."""
    return path.relative_to(target).parts[0] in {"volume", "cache", "work"}


def _write_command(product: Product, job: Job, folder: Path, target: Path) -> list[str]:
    if product.program:
        words = ["-m", f"{_PROGRAMS}.{product.program}", job.name, str(folder / "in"), str(target)]
        return [str(product.python), *words]
    manifest = write_manifest(job.name, folder, target)
    options = ["--volume", str(target / "volume"), *product.options]
    return [sys.executable, "-m", "strandline", "run", str(manifest), *options]
