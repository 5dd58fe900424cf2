"""Compares semantic deduplication in clusters with a comparison of all pairs, on the same vectors.

Vectors are those of real sentences; a third of the rows are changed copies of earlier rows. Seconds
are CPU time.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number, reach
from strandline_bench.text.documents import list_documents
from strandline_packs.vectors.centroids import assign_rows, draw_sample, fit_centroids
from strandline_packs.vectors.embedding.encoders import open_wordllama
from strandline_packs.vectors.similarity import KeepRule, find_similar, order_rows
from strandline_packs.vectors.vector_columns import Vectors

THRESHOLD = 0.95
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
    ]


def list_by_clusters(
    vectors: npt.NDArray[Any], keys: npt.NDArray[np.object_], clusters: int
) -> set[int]:
    """Return the rows that the passes list, with the rule `first`."""
    short: Vectors = vectors.astype(np.float32)
    sample = draw_sample(zip(keys, short, strict=True), 20_000)
    nearest, closeness = assign_rows(short, fit_centroids(sample, clusters, seed=0))
    listing: set[int] = set()
    for cluster in np.unique(nearest):
        rows = np.flatnonzero(nearest == cluster)
        order = order_rows(keys[rows], closeness[rows], KeepRule.FIRST)
        listing.update(rows[find_similar(vectors[rows], order, THRESHOLD).rows].tolist())
    return listing


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
