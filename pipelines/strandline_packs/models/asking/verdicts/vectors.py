"""Judges embeddings in answers: checks that the column can hold their numbers.

This module does no I/O.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from strandline_packs.models.asking.answers import ModelAnswer, RowFault, Usage
from strandline_packs.models.asking.verdicts.refusal_words import cut

# Largest 32-bit float.
_LARGEST = 3.4028235e38  # number that the column of an embedding can hold


def judge_vectors(
    items: Sequence[Mapping[str, Any]], expected: int, usage: Usage, model: str
) -> ModelAnswer | RowFault | None:
    """Return the verdict on the embeddings of one or more texts, or None if there are none.

    Returns:
        For several texts, an answer whose vector has all embeddings, one after another.
    """
    if len(items) != expected:
        return RowFault("malformed", f"the answer has {len(items)} embeddings for {expected} texts")
    vectors = [
        each.get("embedding") if isinstance(each, Mapping) else None for each in _order(items)
    ]
    lists = [each for each in vectors if isinstance(each, list)]
    if len(lists) < expected:
        return None
    if len({*map(len, lists)}) > 1:
        return RowFault("malformed", "the embeddings of the answer have different lengths")
    verdicts = [judge_vector(each, usage, model) for each in lists]
    fault = next((each for each in verdicts if isinstance(each, RowFault)), None)
    if fault is not None or expected == 1:
        return fault or verdicts[0]
    joined = array("d", [number for each in lists for number in each])
    return ModelAnswer("", joined, "stop", usage.prompt, usage.completion, model)


def _order(items: Sequence[object]) -> Sequence[object]:
    """Return parts in the order of their indices, if each has one: servers may reorder them."""
    indices = [each.get("index") if isinstance(each, Mapping) else None for each in items]
    numbers = [index for index in indices if type(index) is int]
    if sorted(numbers) != list(range(len(items))):
        return items
    return [items[indices.index(at)] for at in range(len(items))]


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
