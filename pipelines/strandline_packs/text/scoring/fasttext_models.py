"""Runs supervised fastText models, which need the extra `text`.

The module must not depend on the meaning of labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from strandline.plan.packages import load_module

_PREFIX = "__label__"
_ALL = -1
# A negative threshold returns every label, including nearly impossible ones.
_NO_THRESHOLD = -1.0


class FastTextModel:
    """A loaded model that labels lines. Labels lose the prefix `__label__`.

    Raises:
        ImportError: fastText is not installed.
        ValueError: the file is not a model.
    """

    def __init__(self, path: Path) -> None:
        self._model: Any = load_module("fasttext").load_model(str(path))

    def find_best(self, line: str) -> tuple[str, float]:
        """Return the most probable label and its probability, or '' and 0 for an empty result."""
        labels, shares = self._model.predict(line, k=1)
        return next(_pair(labels, shares), ("", 0.0))

    def list_probabilities(self, text: str) -> dict[str, float]:
        """Return the probability of every label, the most probable first."""
        line = text.replace("\n", " ")  # fastText reads a single line
        return dict(_pair(*self._model.predict(line, k=_ALL, threshold=_NO_THRESHOLD)))


def strip_prefix(label: str) -> str:
    """Return a label without `__label__`."""
    return label.removeprefix(_PREFIX)


def _pair(labels: Sequence[str], shares: Sequence[float]) -> Iterator[tuple[str, float]]:
    # Limit shares to 1, which fastText's rounding may slightly exceed.
    for label, share in zip(labels, shares, strict=True):
        yield strip_prefix(label), min(float(share), 1.0)
