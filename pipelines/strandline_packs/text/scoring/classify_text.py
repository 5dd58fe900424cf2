"""The stage `classify-text`: adds the label of a classifier and its probability.

The user provides the classifier, for quality, topics, or genres: a supervised fastText model, an
ONNX file that takes text, or a token network with its tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator
from pydantic.alias_generators import to_camel

from strandline.data.tables.rules import Rule
from strandline_packs.models.model_files import ModelError
from strandline_packs.text.scoring.fasttext_models import FastTextModel, strip_prefix
from strandline_packs.text.scoring.onnx_classifiers import OnnxClassifier
from strandline_packs.text.scoring.scoring_filter import ScoringFilter
from strandline_packs.text.scoring.token_classifiers import (
    TokenClassifier,
    name_config,
    read_labels,
)
from strandline_packs.text.scoring.token_networks import (
    NOT_FINGERPRINTED,
    PACKAGES,
    NetworkParams,
    TokenNetwork,
    find_files,
)

# Parameters for token networks only.
_OF_NETWORKS = frozenset({"config", "max_tokens", "model_labels", "multi_label", "pad_token"})


class Classification(NamedTuple):
    """Result of a classifier for a text.

    Attributes:
        label: the most probable considered label.
        probability: probability of that label.
        probabilities: probability of every label of the model.
    """

    label: str
    probability: float
    probabilities: Mapping[str, float]


class ClassifyText(ScoringFilter):
    """Adds a label and its probability from a fastText or ONNX model, and keeps the wanted rows."""

    class Params(NetworkParams):
        """Configures the classifier, the labels to consider, and the limits.

        With a `tokenizer`, the model is a token network. Otherwise, an `.onnx` file must take text
        as a tensor of strings and return probabilities by label, as exported by skl2onnx. Other
        files are fastText models.
        """

        model_labels: tuple[str, ...] = Field(
            default=(),
            description="All labels of a network that takes tokens, in the order of its outputs; "
            "by default those of `config`.",
        )
        config: str | None = Field(
            default=None,
            min_length=1,
            description="JSON file or URL whose `id2label` has these labels; by default the "
            "`config.json` next to the model.",
        )
        multi_label: bool = Field(
            default=False,
            description="For a network that takes tokens: each label has an independent "
            "probability (sigmoid). Otherwise the probabilities of all labels add up to one "
            "(softmax).",
        )

        labels: tuple[str, ...] = Field(
            default=(),
            description="Labels to consider, with or without `__label__`: the row gets the most "
            "probable of them, even if another label is more probable. By default all "
            "labels.",
        )
        min_probability: float = Field(
            default=0.0,
            ge=0,
            le=1,
            description="Minimum probability of the most probable considered label; otherwise the "
            "row is dropped.",
        )
        min_probabilities: dict[str, float] = Field(
            default={},
            description="Minimum probability of individual labels, instead of `minProbability`.",
        )
        keep_labels: tuple[str, ...] = Field(
            default=(),
            description="Labels to keep: a row is dropped unless its label, the most probable "
            "considered one, is one of these. By default any label.",
        )
        drop_labels: dict[str, float] = Field(
            default={},
            description="Labels that drop a row, each with the minimum probability for that.",
        )
        label_column: str = Field(
            default="label", min_length=1, description="Column for the label."
        )
        probability_column: str = Field(
            default="label_probability",
            min_length=1,
            description="Column for the label's probability.",
        )
        _known_labels: tuple[str, ...] = PrivateAttr(default=())

        @model_validator(mode="after")
        def _check(self) -> Self:
            columns = (self.column, self.label_column, self.probability_column, self.reason_column)
            named = [name for name in columns if name is not None]
            if len(named) != len(set(named)):
                msg = f"columns need different names: {', '.join(named)}"
                raise ValueError(msg)
            others = set(map(strip_prefix, (*self.min_probabilities, *self.keep_labels)))
            if self.labels and not others <= set(map(strip_prefix, self.labels)):
                msg = "`minProbabilities` or `keepLabels` names a label that is not in `labels`"
                raise ValueError(msg)
            return self

        @model_validator(mode="after")
        def _read_labels(self) -> Self:
            if self.tokenizer is None:
                self._refuse_others()
                return self
            named = self.model_labels or read_labels(self.config or name_config(self.model))
            found = tuple(map(strip_prefix, named))
            if len(found) != len(set(found)):
                msg = "`modelLabels` has a label twice"
                raise ValueError(msg)
            self._known_labels = found
            return self

        def _refuse_others(self) -> None:
            fields = type(self).model_fields
            for name in sorted(_OF_NETWORKS):
                if getattr(self, name) != fields[name].default:
                    needed = "a network that takes tokens, and its `tokenizer`"
                    msg = f"`{to_camel(name)}` requires {needed}"
                    raise ValueError(msg)

        @property
        def known_labels(self) -> tuple[str, ...]:
            """All labels of a token network at planning time."""
            return self._known_labels

    params: Params
    added_params: ClassVar[frozenset[str]] = (
        ScoringFilter.added_params | _OF_NETWORKS | {"tokenizer", "keep_labels"}
    )
    not_fingerprinted: ClassVar[frozenset[str]] = NOT_FINGERPRINTED

    @property
    def packages(self) -> tuple[str, ...]:  # type: ignore[override]  # a parameter decides
        """The packages that run the model."""
        if self.params.tokenizer is not None:
            return PACKAGES
        return ("onnxruntime", "numpy") if self._is_onnx else ("fasttext",)

    @property
    def _is_onnx(self) -> bool:
        return self.params.model.endswith(".onnx")

    def _list_score_columns(self) -> Sequence[tuple[str, pa.DataType]]:
        names = self.params.label_column, self.params.probability_column
        return list(zip(names, (pa.string(), pa.float64()), strict=True))

    def digest_inputs(self) -> dict[str, str]:
        """Return the digests of the model, its tokenizer, and the labels of a network."""
        labels = json.dumps(self.params.known_labels).encode()
        own = {"labels": blake2b(labels, digest_size=16).hexdigest()}
        return super().digest_inputs() | (own if self.params.tokenizer else {})

    def setup_on_node(self) -> None:
        """Download the files to the node's disk if the parameters name URLs."""
        if self.params.tokenizer is None:
            super().setup_on_node()
        else:
            find_files(self.params, self.params.tokenizer)

    def setup(self) -> None:
        """Load the model.

        Raises:
            ImportError: the library of the model is not installed.
            ModelError: the model is missing, or lacks a named label.
            ValueError: the file is not a fastText model, or the tokenizer is unreadable.
        """
        params = self.params
        self._classify_all = self._load_model()
        self._labels = frozenset(map(strip_prefix, params.labels))
        self._bounds = _strip(params.min_probabilities)
        self._unwanted = _strip(params.drop_labels)
        self._kept = frozenset(map(strip_prefix, params.keep_labels))
        self._check_labels([*self._labels, *self._bounds, *self._unwanted, *self._kept])

    def _load_model(self) -> Callable[[Sequence[str]], Iterable[Mapping[str, float]]]:
        params = self.params
        if params.tokenizer is not None:
            network = TokenNetwork(params, *find_files(params, params.tokenizer))
            labels, multi_label = params.known_labels, params.multi_label
            return TokenClassifier(
                network, params.model, labels, multi_label=multi_label
            ).list_probabilities
        kind: type[FastTextModel | OnnxClassifier] = (
            OnnxClassifier if self._is_onnx else FastTextModel
        )
        return partial(map, kind(self._find_model()).list_probabilities)

    def _score_all(self, texts: Sequence[str]) -> Iterable[Classification]:
        looked_at = [text[: self.params.max_characters] for text in texts]
        return [classify(found, self._labels) for found in self._classify_all(looked_at)]

    def _judge_scores(self, scores: Sequence[Any]) -> str | None:
        best, _, probabilities = Classification(*scores)
        for label, bound in self._unwanted.items():
            if probabilities.get(label, 0.0) >= bound:
                return "unwanted label"
        if self._kept and best not in self._kept:
            return "other label"
        lowest = self.params.min_probability
        for label in self._labels or probabilities or [""]:
            if probabilities.get(label, 0.0) >= self._bounds.get(label, lowest):
                return None
        return "improbable label"

    def list_rules(self) -> Sequence[Rule]:
        params = self.params
        if params.min_probabilities:  # each label has its own limit
            return ()
        least = params.min_probability
        return (Rule("improbable label", "highest", "minProbability", least, is_least=True),)

    def _measure_scores(self, scores: Sequence[Any]) -> dict[str, float | None]:
        """Return the highest unrounded probability of the considered labels."""
        probabilities = Classification(*scores).probabilities
        looked_at = self._labels or probabilities or [""]
        return {"highest": max(probabilities.get(label, 0.0) for label in looked_at)}

    def _check_labels(self, labels: Iterable[str]) -> None:
        known: Collection[str] = self.params.known_labels
        if not known:
            (known,) = self._classify_all([""])
        for label in labels:
            # A model that cannot classify an empty line does not reveal its labels.
            if known and label not in known:
                msg = (
                    f"{self.params.model}: the model has no label {label!r}; it has {_list(known)}"
                )
                raise ModelError(msg)


def classify(probabilities: Mapping[str, float], labels: frozenset[str]) -> Classification:
    """Return the most probable of some labels, or of all labels if the set is empty.

    Ties are broken by name, so that the order of labels does not matter.
    """
    looked_at = {label: probabilities.get(label, 0.0) for label in labels or probabilities}
    label = min(looked_at, key=lambda each: (-looked_at[each], each), default="")
    return Classification(label, round(looked_at.get(label, 0.0), 6), probabilities)


def _strip(bounds: Mapping[str, float]) -> dict[str, float]:
    return {strip_prefix(label): bound for label, bound in bounds.items()}


def _list(labels: Iterable[str], most: int = 10) -> str:
    names = sorted(labels)
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
