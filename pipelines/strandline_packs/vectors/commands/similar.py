"""`strandline similar`: shows the rows whose vectors are nearest to a row's vector."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

import click
import numpy as np

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import locate
from strandline.cli.app.options import show_examples, take_json, take_manifest, take_volume
from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.file_references import FileReference
from strandline.plan.errors import StrandlineError
from strandline.run.manifest.manifest import read_manifest
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.dedup.key_lists import KEY
from strandline_packs.vectors.centroids import list_vectors
from strandline_packs.vectors.vector_columns import VectorError, Vectors, scale


class NoNeighboursError(StrandlineError):
    """Raised if there is no row with the key, or no output with vectors."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_SPEC


class Neighbour(NamedTuple):
    """A row, and the cosine of its vector with the vector that is compared."""

    cosine: float
    key: str


@click.command(
    "similar",
    epilog=show_examples("strandline similar vectors.yaml --row page-17 --count 5"),
)
@take_manifest
@take_volume
@click.option("--row", required=True, metavar="KEY", help="Key of the row.")
@click.option("--count", default=10, show_default=True, type=click.IntRange(1, 10_000),
              help="Number of rows to show.")  # fmt: skip
@click.option("--vector", default="vector", show_default=True, help="Column of the vectors.")
@take_json
def similar(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    row: str,
    count: int,
    vector: str,
    as_json: bool,
) -> None:
    """Show the nearest neighbours of a row.

    The command compares the row with all rows of the output by the cosine of the vectors. The
    output must be Parquet files.
    """
    plan = read_manifest(file, settings, volume=volume).plan
    output = locate(plan, volume).output
    files = sorted(output.rglob("*.parquet"))
    if not files:
        msg = f"{output}: there are no Parquet files; run the pipeline with vectors first"
        raise NoNeighboursError(msg)

    def read() -> Iterator[tuple[list[str], Vectors]]:
        for path in files:
            yield from list_vectors(FileReference(str(path), str(path)), KEY, vector)

    try:
        target = _find(read(), row)
        if target is None:
            msg = f"{output}: no row has the key {row!r}"
            raise NoNeighboursError(msg)
        found = find_neighbours(read(), row, target, count)
    except (UnreadableFileError, VectorError) as error:
        raise NoNeighboursError(str(error)) from error
    for each in found:
        if as_json:
            write_line(json.dumps({"key": each.key, "cosine": round(each.cosine, 6)}))
        else:
            write_line(f"{each.cosine:.3f}  {each.key}")


def find_neighbours(
    portions: Iterator[tuple[list[str], Vectors]], row: str, target: Vectors, count: int
) -> list[Neighbour]:
    """Return the rows nearest to a vector, without the row itself, nearest first."""
    unit = scale(target[None, :])[0]
    nearest: list[Neighbour] = []
    for keys, vectors in portions:
        cosines = np.minimum(scale(vectors) @ unit, 1.0)  # rounding may exceed 1
        pairs = zip(cosines, keys, strict=True)
        rows = [Neighbour(float(cosine), key) for cosine, key in pairs if key != row]
        nearest = heapq.nsmallest(count, [*nearest, *rows], key=_rank)
    return nearest


def _find(portions: Iterator[tuple[list[str], Vectors]], row: str) -> Vectors | None:
    for keys, vectors in portions:
        if row in keys:
            found: Vectors = vectors[keys.index(row)]
            return found
    return None


def _rank(neighbour: Neighbour) -> tuple[float, str]:
    return -neighbour.cosine, neighbour.key
