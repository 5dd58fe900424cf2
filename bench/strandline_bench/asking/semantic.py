"""Compares semantic deduplication in clusters with a comparison of all pairs, on the same vectors.

Vectors are those of real sentences; a third of the rows are changed copies of earlier rows. Seconds
are CPU time. If NeMo Curator is installed, its comparison of pairs gets the same clusters.
"""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number, reach
from strandline_bench.products.index import PRODUCTS
from strandline_bench.text.documents import list_documents
from strandline_packs.vectors.centroids import assign_rows, draw_sample, fit_centroids
from strandline_packs.vectors.embedding.encoders import open_wordllama
from strandline_packs.vectors.similarity import KeepRule, find_similar, order_rows
from strandline_packs.vectors.vector_columns import Vectors

THRESHOLD = 0.95
_PAIRWISE = Path(__file__).parents[1] / "products" / "programs" / "curator_pairwise.py"
_SHARE = 1 / 3  # share of changed copies
_SENTENCE = re.compile(r"[A-Z][^.!?]{40,200}[.!?]")
_BATCH = 5_000
Result = TypeVar("Result")


def measure_semantic(scale: Scale) -> list[Row]:
    """Embed sentences, and find similar rows in clusters and among all pairs."""
    rows = scale.pick(100_000, 2_000)
    texts = write_sentences(rows)
    embed = open_wordllama()
    vectors, embedding = _time(
        lambda: np.concatenate(
            [embed(texts[at : at + _BATCH]) for at in range(0, rows, _BATCH)]
        ).astype(np.float16)
    )
    keys = np.array([f"{row:08}" for row in range(rows)], object)
    listing, clustered = _time(lambda: list_by_clusters(vectors, keys, rows // 500))
    whole, compared = _time(
        lambda: find_similar(vectors, order_rows(keys, np.zeros(rows), KeepRule.FIRST), THRESHOLD)
    )
    similar = set(whole.rows.tolist())
    what = f"{rows:,} vectors of {vectors.shape[1]} values"
    return [
        Row(f"{what}: embed texts", format_number(rows / embedding, "a core-second")),
        Row(f"{what}: similar rows by clusters", format_number(rows / clustered, "a core-second")),
        Row(f"{what}: by all pairs", format_number(rows / compared, "a core-second")),
        Row(f"{what}: similar rows among all pairs", format_number(len(similar), "rows")),
        reach(
            f"{what}: found in clusters, of those among all pairs",
            100 * len(listing & similar) / max(1, len(similar)),
            90,
            "%",
        ),
        Row(
            f"{what}: found only in clusters",
            format_number(len(listing - similar), "rows"),
        ),
        *_compare_with_curator(vectors, keys, rows // 500, scale.folder, what),
    ]


def list_by_clusters(
    vectors: npt.NDArray[Any], keys: npt.NDArray[np.object_], clusters: int
) -> set[int]:
    """Return the rows that the passes list, with the rule `first`."""
    nearest, closeness = _assign(vectors, keys, clusters)
    return _list_similar(vectors, keys, nearest, closeness, KeepRule.FIRST)


def _assign(
    vectors: npt.NDArray[Any], keys: npt.NDArray[np.object_], clusters: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    short: Vectors = vectors.astype(np.float32)
    sample = draw_sample(zip(keys, short, strict=True), 20_000)
    return assign_rows(short, fit_centroids(sample, clusters, seed=0))


def _list_similar(
    vectors: npt.NDArray[Any],
    keys: npt.NDArray[np.object_],
    nearest: npt.NDArray[np.int64],
    closeness: npt.NDArray[np.float64],
    rule: KeepRule,
) -> set[int]:
    listing: set[int] = set()
    for cluster in np.unique(nearest):
        rows = np.flatnonzero(nearest == cluster)
        order = order_rows(keys[rows], closeness[rows], rule)
        listing.update(rows[find_similar(vectors[rows], order, THRESHOLD).rows].tolist())
    return listing


def _compare_with_curator(
    vectors: npt.NDArray[Any],
    keys: npt.NDArray[np.object_],
    clusters: int,
    folder: Path,
    what: str,
) -> Iterator[Row]:
    product = next(each for each in PRODUCTS if each.program == "curator")
    if not product.is_installed():
        return
    nearest, closeness = _assign(vectors, keys, clusters)
    source, target = folder / "vectors.npz", folder / "removed.npz"
    units = vectors.astype(np.float32)
    units /= np.maximum(np.linalg.norm(units, axis=1, keepdims=True), 1e-9)
    np.savez(source, vectors=units, cluster=nearest, distance=1 - closeness, threshold=THRESHOLD)
    subprocess.run([product.python, _PAIRWISE, source, target], check=True)  # noqa: S603 - ours
    theirs = np.load(target)
    rules = {"by_id": KeepRule.FIRST, "hard": KeepRule.HARDEST, "hard_first": KeepRule.HARDEST}
    for name, rule in rules.items():
        list_similar = partial(_list_similar, vectors, keys, nearest, closeness, rule)
        ours, seconds = _time(list_similar)
        other = set(theirs[name].tolist())
        label = f"{what}: NeMo Curator, {name.replace('_', ' ')}"
        yield Row(f"{label}: removed by both", format_number(len(ours & other), "rows"))
        yield Row(f"{label}: by one alone", f"{len(ours - other):,} ours, {len(other - ours):,}")
        if rule is KeepRule.FIRST:
            speeds = (format_number(len(keys) / each, "") for each in (seconds, theirs["seconds"]))
            yield Row(f"{label}: rows a core-second, ours and theirs", ", ".join(speeds))


def write_sentences(count: int) -> list[str]:
    """Return real sentences of this machine's documents, and changed copies of them."""
    sentences = [each for text in list_documents(4_000) for each in _SENTENCE.findall(text)]
    chance = random.Random(5)  # noqa: S311 - samples, not secrets
    texts: list[str] = []
    while len(texts) < count:
        if texts and chance.random() < _SHARE:
            texts.append(_change(chance, chance.choice(texts)))
        else:
            texts.append(" ".join(chance.sample(sentences, 2)))
    return texts


def _change(chance: random.Random, text: str) -> str:
    """Swap two words, or leave one out."""
    words = text.split()
    at, other = chance.randrange(len(words)), chance.randrange(len(words))
    if chance.random() < 0.5:
        words[at], words[other] = words[other], words[at]
    elif len(words) > 1:
        del words[at]
    return " ".join(words)


def _time(work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start
