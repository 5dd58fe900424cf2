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
_DIGEST_BYTES = 20  # SHA-1 makes so many

# Said in full, so that another version of the library can't make other signatures unnoticed.
_SCHEME = {"seed": 1, "scheme": "affine32"}
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no word of a run is lost
_MOST_WORDS = 1 << 16  # their hashes are kept, some 10 MB

# From the words of a text, one at least, and the size of a run to a hash of each, of 32 bits; of a
# shorter text of the whole of it.
Hashes = npt.NDArray[np.uint32]
HashRuns = Callable[[Sequence[str], int], Hashes]


def hash_joined_runs(words: Sequence[str], size: int) -> Hashes:
    """Hash each run as a text of its own, as signatures in stored lists were made."""
    encoded = [word.encode("utf-8", "replace") for word in words]
    text, length = b" ".join(encoded), min(size, len(words))
    # Cut out of the whole text: to join each run, and encode it, takes longer than its hash.
    starts = list(accumulate((len(word) + 1 for word in encoded), initial=0))
    bounds = zip(starts, starts[length:], strict=False)
    runs = {text[begin : end - 1] for begin, end in bounds}
    digests = b"".join([hashlib.sha1(run, usedforsecurity=False).digest() for run in runs])
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
    """The hash of each word, 64 bits, made when it is asked for first."""

    def __missing__(self, word: str) -> int:
        digest = digest_bytes(word.encode("utf-8", "replace"))
        found = self[word] = int.from_bytes(digest[:8], "little")
        return found


def hash_runs(hashes: npt.NDArray[np.uint64], size: int) -> Hashes:
    """Return a hash of each run of `size` words, in order; of a shorter text, of the whole of it.

    Args:
        hashes: of each word; one at least.
    """
    length = min(size, len(hashes))
    runs = np.zeros(len(hashes) - length + 1, np.uint64)
    for at in range(length):
        runs = runs * _FACTOR + hashes[at : at + len(runs)]
    # The upper half depends on all bits.
    return ((runs ^ (runs >> np.uint64(32))) * _FACTOR >> np.uint64(32)).astype(np.uint32)


class Signer:
    """Makes signatures.

    Args:
        words: words of a run.
        values: of a signature, four bytes each.
        hash_runs: how runs are hashed; what is compared must be hashed alike.

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
        """Return the signature of a text, case ignored; None for one without words."""
        words = list_words(fold(text))
        if not words:
            return None
        minhash = self._create(
            self._values, permutations=self._permutations, hashfunc=_take, **_SCHEME
        )
        # All hashes at once: the library would make a list of numbers of them, and again an array.
        minhash.update_batch([self._hash_runs(words, self._words)])
        return bytes(minhash.hashvalues.astype("<u4").tobytes())


def _take(hashes: Hashes) -> Hashes:
    """Stand in for a function that hashes: it is done."""
    return hashes


def read_signature(signature: bytes) -> Any:  # noqa: ANN401 - the library's MinHash
    """Return the library's MinHash of a signature.

    Raises:
        ValueError: it is none.
    """
    if len(signature) != SIGNATURE_BYTES:
        msg = f"a signature has {SIGNATURE_BYTES} bytes, not {len(signature)}"
        raise ValueError(msg)
    values = np.frombuffer(signature, "<u4")
    return load_datasketch().LeanMinHash(hashvalues=values, **_SCHEME)


def load_datasketch() -> Any:  # noqa: ANN401 - a module
    """Return the library.

    Raises:
        ImportError: it is not installed; the message says what to install.
    """
    return load_module("datasketch")
