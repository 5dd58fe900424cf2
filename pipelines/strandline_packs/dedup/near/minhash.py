"""MinHash signatures of texts: short bytes of which many agree where two texts are alike.

Two signatures agree in about as many places as the texts share runs of words. Runs are hashed
here; what follows is that of the library datasketch, which is loaded when the first signature is
made.
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
_DIGEST_BYTES = 20  # size of SHA-1

# Name the scheme in full, so that a new version of the library cannot silently change signatures.
_SCHEME = {"seed": 1, "scheme": "affine32"}
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no word of a run is lost
_MOST_WORDS = 1 << 16  # hashes of these words are cached, about 10 MB

# From the words of a text (at least one) and the size of a run to a 32-bit hash of each run; a
# shorter text has one hash.
Hashes = npt.NDArray[np.uint32]
HashRuns = Callable[[Sequence[str], int], Hashes]


def hash_joined_runs(words: Sequence[str], size: int) -> Hashes:
    """Hash each run as joined text, as in existing stored lists."""
    encoded = [word.encode("utf-8", "replace") for word in words]
    text, length = b" ".join(encoded), min(size, len(words))
    # Slice the encoded text: joining and encoding every run takes longer than hashing it.
    starts = list(accumulate((len(word) + 1 for word in encoded), initial=0))
    bounds = zip(starts, starts[length:], strict=False)
    # MinHash ignores repetitions, so equal runs are hashed once. `end - 1` drops the last blank.
    runs = {text[begin : end - 1] for begin, end in bounds}
    digests = b"".join([hashlib.sha1(run, usedforsecurity=False).digest() for run in runs])
    # The first 4 of 20 bytes, as in datasketch's `sha1_hash32`.
    return np.ascontiguousarray(np.frombuffer(digests, "<u4")[:: _DIGEST_BYTES // VALUE_BYTES])


class RunHasher:
    """Hashes each word once, and runs from these: more than twice as fast as joined runs."""

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
    """Return a hash of each run of `size` words, in order. A shorter text has one hash.

    Args:
        hashes: hashes of the words, at least one.
    """
    length = min(size, len(hashes))
    runs = np.zeros(len(hashes) - length + 1, np.uint64)
    # Polynomial hash modulo 2^64, which depends on the order of the words.
    for at in range(length):
        runs = runs * _FACTOR + hashes[at : at + len(runs)]
    # The upper half depends on all bits.
    return ((runs ^ (runs >> np.uint64(32))) * _FACTOR >> np.uint64(32)).astype(np.uint32)


class Signer:
    """Computes signatures.

    Args:
        words: words of a run.
        values: values of a signature, four bytes each.
        hash_runs: hash function of runs; compared signatures must use the same one.

    Raises:
        ImportError: the library is not installed.
    """

    def __init__(
        self,
        words: int,
        values: int = PERMUTATIONS,
        hash_runs: HashRuns = hash_joined_runs,
    ) -> None:
        self._words, self._values, self._hash_runs = words, values, hash_runs
        self._create = load_datasketch().MinHash
        self._permutations = self._create(values, **_SCHEME).permutations

    def sign(self, text: str) -> bytes | None:
        """Return the signature of a text, ignoring case, or None for a text without words."""
        words = list_words(fold(text))
        if not words:
            return None
        minhash = self._create(
            self._values, permutations=self._permutations, hashfunc=_take, **_SCHEME
        )
        # Pass all hashes at once: otherwise the library converts them to a list and back to an
        # array.
        minhash.update_batch([self._hash_runs(words, self._words)])
        return bytes(minhash.hashvalues.astype("<u4").tobytes())


def _take(hashes: Hashes) -> Hashes:
    """Hash function for values that are hashed already."""
    return hashes


def read_signature(signature: bytes) -> Any:  # noqa: ANN401 - the library's MinHash
    """Return the library's MinHash of a signature.

    Raises:
        ValueError: the bytes are no signature.
    """
    if len(signature) != SIGNATURE_BYTES:
        msg = f"a signature has {SIGNATURE_BYTES} bytes, not {len(signature)}"
        raise ValueError(msg)
    values = np.frombuffer(signature, "<u4")
    return load_datasketch().LeanMinHash(hashvalues=values, **_SCHEME)


def load_datasketch() -> Any:  # noqa: ANN401 - a module
    """Return the library.

    Raises:
        ImportError: the library is not installed; the message names the package to install.
    """
    return load_module("datasketch")
