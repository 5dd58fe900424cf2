"""Runs token networks as classifiers: maps their outputs to labels and probabilities.

The module must not depend on the meaning of labels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from strandline.data.files.globs import expand_placeholder
from strandline.data.files.opening import explain_error, open_binary
from strandline_packs.models.model_files import ModelError
from strandline_packs.text.scoring.token_networks import DIGITS, TokenNetwork


class TokenClassifier:
    """A network with a label for each of its output numbers.

    Args:
        multi_label: labels are independent of each other; otherwise exactly one applies.

    Raises:
        ModelError: the number of outputs differs from the number of labels.
    """

    def __init__(
        self, network: TokenNetwork, name: str, labels: Sequence[str], *, multi_label: bool
    ) -> None:
        if network.width == 1 and not multi_label:
            msg = (
                f"{name}: the network returns one number per text, but a single label always has "
                "probability 1; use `score-text`, or set `multiLabel: true` if the number is the "
                "probability of that label"
            )
            raise ModelError(msg)
        if network.width != len(labels):
            msg = (
                f"{name}: the network returns {network.width} numbers per text, but there are "
                f"{len(labels)} labels: {', '.join(labels)}"
            )
            raise ModelError(msg)
        self._network, self._labels = network, tuple(labels)
        self._reckon = compute_sigmoid if multi_label else compute_softmax

    def list_probabilities(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
        """Return the probability of every label for each text; empty for a text without tokens."""
        return [
            {} if numbers is None else self._name_probabilities(numbers)
            for numbers in self._network.run(texts)
        ]

    def _name_probabilities(self, numbers: Sequence[float]) -> dict[str, float]:
        shares = self._reckon(numbers)
        return {
            label: round(share, DIGITS) for label, share in zip(self._labels, shares, strict=True)
        }


def compute_softmax(numbers: Sequence[float]) -> list[float]:
    """Convert numbers to probabilities that add up to 1."""
    np = import_module("numpy")
    # Subtract the largest number, so that no power overflows.
    powers: Any = np.exp(np.array(numbers) - max(numbers))
    shares: list[float] = (powers / powers.sum()).tolist()
    return shares


def compute_sigmoid(numbers: Sequence[float]) -> list[float]:
    """Convert numbers to independent probabilities from 0 to 1."""
    np = import_module("numpy")
    # This form of the sigmoid does not overflow for large numbers.
    shares: list[float] = (0.5 + 0.5 * np.tanh(np.array(numbers) / 2)).tolist()
    return shares


def read_labels(path: str) -> tuple[str, ...]:
    """Return the labels of a `config.json` of transformers, in the order of their numbers.

    Raises:
        ValueError: the file is unreadable, or has no labels; the message contains a remedy.
    """
    instead = "set `config` to the file that has `id2label`, or list the labels in `modelLabels`"
    try:
        with open_binary(expand_placeholder(path)) as file:
            content = json.load(file)
    except (OSError, ValueError, ImportError) as error:
        msg = f"{explain_error(path, error)}; {instead}"
        raise ValueError(msg) from error
    named = content.get("id2label") if isinstance(content, dict) else None
    labels = named if isinstance(named, dict) else {}
    # JSON has text as keys, also for numbers.
    numbered = tuple(labels.get(str(number)) for number in range(len(labels)))
    texts = [label for label in numbered if isinstance(label, str)]
    if not labels or len(set(texts)) != len(labels):
        msg = f"{path}: it has no `id2label` with a label for each number from 0; {instead}"
        raise ValueError(msg)
    return tuple(texts)


def name_config(model: str) -> str:
    """Return the path of the `config.json` that was exported with a model, in its folder."""
    folder, slash, _ = model.rpartition("/")
    return f"{folder}{slash}config.json"
