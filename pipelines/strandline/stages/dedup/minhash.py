"""MinHash signatures of texts: short bytes of which many agree where two texts are alike.

Two signatures agree in about as many places as the texts share runs of words. The hashing is that
of the library datasketch, which is loaded when the first signature is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from strandline.stages.text.text_quality import list_words

PERMUTATIONS = 128
VALUE_BYTES = 4
SIGNATURE_BYTES = VALUE_BYTES * PERMUTATIONS

# Said in full, so that another version of the library can't make other signatures unnoticed.
_SCHEME = {"seed": 1, "scheme": "affine32"}


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

    def sign(self, text: str) -> bytes | None:
        """Return the signature of a text, case ignored; None for one without words."""
        runs = list_runs(list_words(text.casefold()), self._words)
        if not runs:
            return None
        minhash = self._create(self._values, permutations=self._permutations, **_SCHEME)
        minhash.update_batch([run.encode("utf-8", "replace") for run in runs])
        return bytes(minhash.hashvalues.astype("<u4").tobytes())


def list_runs(words: Sequence[str], size: int) -> list[str]:
    """Return the different runs of `size` words, in order; of a shorter text, the whole of it."""
    if not words:
        return []
    last = max(len(words) - size, 0)
    return list(dict.fromkeys(" ".join(words[at : at + size]) for at in range(last + 1)))


def read_signature(signature: bytes) -> Any:  # noqa: ANN401 - the library's MinHash
    """Return the library's MinHash of a signature.

    Raises:
        ValueError: it is none.
    """
    if len(signature) != SIGNATURE_BYTES:
        msg = f"a signature has {SIGNATURE_BYTES} bytes, not {len(signature)}"
        raise ValueError(msg)
    values = import_module("numpy").frombuffer(signature, "<u4")
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
