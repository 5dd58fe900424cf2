"""MinHash signatures of texts: short bytes of which many agree where two texts are alike.

Two signatures agree in about as many places as the texts share runs of words. Words are hashed
here, once each, and runs from these; the rest of the hashing is that of the library datasketch,
which is loaded when the first signature is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from strandline.stages.dedup.key_lists import digest_bytes
from strandline.stages.text.text_quality import list_words

PERMUTATIONS = 128
VALUE_BYTES = 4
SIGNATURE_BYTES = VALUE_BYTES * PERMUTATIONS

# Said in full, so that another version of the library can't make other signatures unnoticed.
_SCHEME = {"seed": 1, "scheme": "affine32"}
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no word of a run is lost
_MOST_WORDS = 1 << 16  # whose hashes are kept, some 10 MB


class Signer:
    """Makes signatures.

    Args:
        words: words of a run.
        values: of a signature, four bytes each.

    Raises:
        ImportError: the library is not installed.
    """

    def __init__(self, words: int, values: int = PERMUTATIONS) -> None:
        self._words, self._values = words, values
        self._create = load_datasketch().MinHash
        self._permutations = self._create(values, **_SCHEME).permutations
        self._hashes: dict[str, int] = {}

    def sign(self, text: str) -> bytes | None:
        """Return the signature of a text, case ignored; None for one without words."""
        words = list_words(text.casefold())
        if not words:
            return None
        runs = hash_runs([self._hash_word(word) for word in words], self._words)
        minhash = self._create(
            self._values, permutations=self._permutations, hashfunc=int, **_SCHEME
        )
        minhash.update_batch(runs.tolist())
        return bytes(minhash.hashvalues.astype("<u4").tobytes())

    def _hash_word(self, word: str) -> int:
        found = self._hashes.get(word)
        if found is None:
            if len(self._hashes) >= _MOST_WORDS:
                self._hashes.clear()
            digest = digest_bytes(word.encode("utf-8", "replace"))
            found = self._hashes[word] = int.from_bytes(digest[:8], "little")
        return found


def hash_runs(words: Sequence[int], size: int) -> npt.NDArray[np.uint32]:
    """Return a hash of each run of `size` words, in order; of a shorter text, of the whole of it.

    Args:
        words: the hash of each, 64 bits; one at least.
    """
    hashes = np.array(words, np.uint64)
    length = min(size, len(hashes))
    runs = np.zeros(len(hashes) - length + 1, np.uint64)
    for at in range(length):
        runs = runs * _FACTOR + hashes[at : at + len(runs)]
    # The upper half depends on all bits.
    return ((runs ^ (runs >> np.uint64(32))) * _FACTOR >> np.uint64(32)).astype(np.uint32)


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
    try:
        return import_module("datasketch")
    except ImportError as error:
        msg = f"datasketch is not installed ({error}); install strandline[statistics]"
        raise ImportError(msg) from error
