"""MinHash signatures of texts: short byte strings that agree in many places for similar texts.

The share of equal values in two signatures approximates the share of word runs that both texts
contain. This module hashes the runs. The library datasketch computes the signatures, and is loaded
when the first signature is made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from strandline.plan.packages import load_module
from strandline_packs.dedup.key_lists import digest_bytes
from strandline_packs.text.filters.words.word_rules import fold, list_words

PERMUTATIONS = 128
VALUE_BYTES = 4
SIGNATURE_BYTES = VALUE_BYTES * PERMUTATIONS
_DIGEST_BYTES = 20  # digest size of SHA-1

# Name the scheme in full, so that a new version of the library cannot silently change signatures.
_SCHEME = {"seed": 1, "scheme": "affine32"}
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # an odd factor is invertible, so no word of a run is lost
_MOST_WORDS = 1 << 16  # maximum number of cached word hashes, about 10 MB

# `HashRuns` takes the words of a text (at least one) and the run size, and returns a 32-bit hash of
# each run. A text shorter than a run has a single hash.
Hashes = npt.NDArray[np.uint32]
HashRuns = Callable[[Sequence[str], int], Hashes]


def hash_joined_runs(words: Sequence[str], size: int) -> Hashes:
    """Hash each run as joined text, which keeps signatures in stored lists valid."""
    encoded = [word.encode("utf-8", "replace") for word in words]
    text, length = b" ".join(encoded), min(size, len(words))
    # Slice the encoded text: joining and encoding every run takes longer than hashing it.
    starts = list(accumulate((len(word) + 1 for word in encoded), initial=0))
    bounds = zip(starts, starts[length:], strict=False)
    # MinHash ignores repetitions, so equal runs are hashed once. `end - 1` drops the trailing
    # space.
    runs = {text[begin : end - 1] for begin, end in bounds}
    digests = b"".join([hashlib.sha1(run, usedforsecurity=False).digest() for run in runs])
    # The first 4 of 20 bytes, as in datasketch's `sha1_hash32`.
    return np.ascontiguousarray(np.frombuffer(digests, "<u4")[:: _DIGEST_BYTES // VALUE_BYTES])


class RunHasher:
    """Hashes each word once, and runs from word hashes: twice as fast as `hash_joined_runs`."""

    def __init__(self) -> None:
        self._known = _WordHashes()

    def __call__(self, words: Sequence[str], size: int) -> Hashes:
        """Return the hashes of a text's runs; see `HashRuns`."""
        if len(self._known) > _MOST_WORDS:
            self._known.clear()
        known = map(self._known.__getitem__, words)
        return hash_runs(np.fromiter(known, np.uint64, len(words)), size)


class _WordHashes(dict[str, int]):
    """Cache of the 64-bit hash of each word."""

    def __missing__(self, word: str) -> int:
        digest = digest_bytes(word.encode("utf-8", "replace"))
        found = self[word] = int.from_bytes(digest[:8], "little")
        return found


def hash_runs(hashes: npt.NDArray[np.uint64], size: int) -> Hashes:
    """Return a hash for each run of `size` words, in order. A shorter text has a single hash.

    Args:
        hashes: the word hashes of a text, at least one.
    """
    length = min(size, len(hashes))
    runs = np.zeros(len(hashes) - length + 1, np.uint64)
    # Polynomial hash modulo 2^64, which depends on the order of the words.
    for at in range(length):
        runs = runs * _FACTOR + hashes[at : at + len(runs)]
    # Keep the upper half, which depends on all bits.
    return ((runs ^ (runs >> np.uint64(32))) * _FACTOR >> np.uint64(32)).astype(np.uint32)


class Signer:
    """Computes signatures.

    Args:
        words: number of words in a run.
        values: number of values in a signature, four bytes each.
        hash_runs: hash function for runs; compared signatures must use the same function.

    Raises:
        ImportError: datasketch is not installed.
    """

    def __init__(
        self,
        words: int,
        values: int = PERMUTATIONS,
        hash_runs: HashRuns = hash_joined_runs,
    ) -> None:
        self._words, self._hash_runs = words, hash_runs
        # Texts share an object: the library checks the permutations of each new object.
        self._minhash = load_datasketch().MinHash(values, hashfunc=_take, **_SCHEME)

    def sign(self, text: str) -> bytes | None:
        """Return the signature of a text, ignoring case, or None for a text without words."""
        words = list_words(fold(text))
        if not words:
            return None
        self._minhash.clear()
        # Pass all hashes at once: otherwise the library converts them to a list and back to an
        # array.
        self._minhash.update_batch([self._hash_runs(words, self._words)])
        return bytes(self._minhash.hashvalues.astype("<u4").tobytes())


def _take(hashes: Hashes) -> Hashes:
    """Return the values unchanged: they are hashes already."""
    return hashes


def read_signature(signature: bytes) -> Any:  # noqa: ANN401 - the library's MinHash
    """Return a signature as a datasketch MinHash.

    Raises:
        ValueError: the bytes are no signature.
    """
    if len(signature) != SIGNATURE_BYTES:
        msg = f"a signature has {SIGNATURE_BYTES} bytes, not {len(signature)}"
        raise ValueError(msg)
    values = np.frombuffer(signature, "<u4")
    return load_datasketch().LeanMinHash(hashvalues=values, **_SCHEME)


def load_datasketch() -> Any:  # noqa: ANN401 - a module
    """Return the module datasketch.

    Raises:
        ImportError: datasketch is not installed; the message names the package to install.
    """
    return load_module("datasketch")
