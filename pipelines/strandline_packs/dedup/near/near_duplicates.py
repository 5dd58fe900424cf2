"""Finds near-duplicates among the texts of a corpus, by their signatures.

This module takes signatures, returns keys, and does no I/O. The result depends only on the set of
signatures, not on their order. Only texts that share a band of their signatures are compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strandline_packs.dedup.near.minhash import PERMUTATIONS, load_datasketch, read_signature

# Share of pairs at the threshold that the search may miss because they have no band in common.
_MISSED = 0.01


class AmbiguousKeyError(ValueError):
    """Raised if two texts have the same key, so that a list of keys cannot distinguish them."""


def find_near_duplicates(
    signatures: Iterable[tuple[str, bytes]], threshold: float
) -> dict[str, str]:
    """Map each key to drop, in order, to the retained key that it duplicates.

    Texts are near-duplicates if their signatures agree in at least `threshold` of all values. Such
    pairs form clusters, and the first key of a cluster stays.

    Raises:
        AmbiguousKeyError: two texts have the same key.
        ImportError: the library is not installed.
    """
    texts = sorted(signatures)
    _check_keys(texts)
    clusters = _Clusters()
    similar = load_datasketch().MinHashLSH(num_perm=PERMUTATIONS, params=cut_bands(threshold))
    known: dict[str, Any] = {}
    first: dict[bytes, str] = {}
    for key, signature in texts:
        if first.setdefault(signature, key) != key:  # equal signatures need no comparison
            clusters.join(first[signature], key)
            continue
        minhash = read_signature(signature)
        for other in similar.query(minhash):
            # Skip texts that are in the same cluster already.
            is_new = clusters.find(other) != clusters.find(key)
            if is_new and minhash.jaccard(known[other]) >= threshold:
                clusters.join(other, key)
        known[key] = minhash
        similar.insert(key, minhash)
    found = ((key, clusters.find(key)) for key, _ in texts)
    return {key: stays for key, stays in found if key != stays}


def cut_bands(threshold: float) -> tuple[int, int]:
    """Return the number of bands in a signature, and the number of values in a band.

    Longer bands cause fewer useless comparisons, but miss more pairs. The result is the longest
    band length that misses at most the share `_MISSED` of pairs at the threshold.
    """
    # A signature must have at least two bands.
    lengths = range(1, PERMUTATIONS // 2 + 1)
    # `(1 - t^r)^b` is the chance that a pair at the threshold has no equal band among b bands.
    fit = [
        length
        for length in lengths
        if (1 - threshold**length) ** (PERMUTATIONS // length) <= _MISSED
    ]
    length = max(fit, default=1)
    return PERMUTATIONS // length, length


def _check_keys(texts: list[tuple[str, bytes]]) -> None:
    for at in range(1, len(texts)):
        if texts[at][0] == texts[at - 1][0]:
            msg = f"two texts have the key {texts[at][0]!r}; keys must be unique in the corpus"
            raise AmbiguousKeyError(msg)


class _Clusters:
    """Clusters of keys, each identified by its first key."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def find(self, key: str) -> str:
        first = key
        while first in self._parents:
            first = self._parents[first]
        # Attach all visited keys directly to the first key, so that later calls take fewer steps.
        while key != first:
            self._parents[key], key = first, self._parents[key]
        return first

    def join(self, single: str, other: str) -> None:
        first, second = sorted((self.find(single), self.find(other)))
        if first != second:
            self._parents[second] = first
