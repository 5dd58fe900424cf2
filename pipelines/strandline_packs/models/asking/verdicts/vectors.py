"""Judges embeddings in answers: checks that the column can hold their numbers.

This module does no I/O.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence

from strandline_packs.models.asking.answers import ModelAnswer, RowFault, Usage
from strandline_packs.models.asking.verdicts.refusal_words import cut

# Largest 32-bit float.
_LARGEST = 3.4028235e38  # number that the column of an embedding can hold


def judge_vector(vector: Sequence[object], usage: Usage, model: str) -> ModelAnswer | RowFault:
    """Return the verdict on an embedding."""
    if not vector:
        return RowFault("malformed", "the embedding is empty")
    numbers = [_read_number(number) for number in vector]
    kept = [number for number in numbers if number is not None]
    if len(kept) < len(numbers):
        at = numbers.index(None)
        msg = f"the embedding has {cut(vector[at])} at position {at}, which the column can't store"
        return RowFault("malformed", msg, json.dumps(list(vector)))
    return ModelAnswer("", array("d", kept), "stop", usage.prompt, usage.completion, model)


def _read_number(number: object) -> float | None:
    """Return a value as a number for the embedding column, or None if the column can't hold it."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    # Compare first: an integer may be too large for a float, and NaN fails both comparisons.
    return float(number) if -_LARGEST <= number <= _LARGEST else None
