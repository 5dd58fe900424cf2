"""The stage `classify-text`: which label a classifier gives a text, and how sure it is of it.

The user names the classifier, of quality, topics or genres: a supervised model of fastText, or an
ONNX file that takes text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import pyarrow as pa
from pydantic import Field, model_validator

from strandline.plan.registry import register
from strandline.stages.models.model_files import ModelError
from strandline.stages.text.scoring.fasttext_models import FastTextModel, strip_prefix
from strandline.stages.text.scoring.onnx_classifiers import OnnxClassifier
from strandline.stages.text.scoring.scoring_filter import ScoringFilter


class Classified(NamedTuple):
    """What a classifier makes of a text.

    Attributes:
        label: the most probable of those that are looked at.
        probability: of that label.
        probabilities: of every label of the model.
    """

    label: str
    probability: float
    probabilities: Mapping[str, float]


@register("classify-text")
class ClassifyText(ScoringFilter):
    """Adds a label and its probability, by a fastText or ONNX model; keeps the wanted ones."""

    class Params(ScoringFilter.Params):
        """Which labels are looked at, and what is kept.

        A model that is called `.onnx` takes text as a tensor of strings and gives probabilities by
        label, as skl2onnx writes a pipeline of scikit-learn; others are fastText's.
        """

        labels: tuple[str, ...] = Field(
            default=(),
            description="Labels that are looked at, with or without `__label__`: the row gets the "
            "most probable of them, also where the model finds another one likelier; empty, all.",
        )
        min_probability: float = Field(
            default=0.0,
            ge=0,
            le=1,
            description="A row is dropped unless a label that is looked at is at least as probable "
            "as this.",
        )
        min_probabilities: dict[str, float] = Field(
            default={},
            description="Lowest probability of some labels, in the place of `minProbability`.",
        )
        drop_labels: dict[str, float] = Field(
            default={},
            description="Labels that drop a row, each with the probability from which it does.",
        )
        label_column: str = Field(
            default="label", min_length=1, description="Column that gets the label."
        )
        probability_column: str = Field(
            default="label_probability",
            min_length=1,
            description="Column that gets the label's probability.",
        )
        max_characters: int | None = Field(
            default=None,
            ge=1,
            description="Characters of a text that are looked at; null: all.",
        )

        @model_validator(mode="after")
        def _check(self) -> Self:
            columns = (self.column, self.label_column, self.probability_column, self.reason_column)
            named = [name for name in columns if name is not None]
            if len(named) != len(set(named)):
                msg = f"columns need names of their own: {', '.join(named)}"
                raise ValueError(msg)
            others = set(map(strip_prefix, self.min_probabilities))
            if self.labels and not others <= set(map(strip_prefix, self.labels)):
                msg = "`minProbabilities` names a label that `labels` does not"
                raise ValueError(msg)
            return self

    params: Params

    @property
    def packages(self) -> tuple[str, ...]:  # type: ignore[override]  # a parameter decides
        """The packages that run the model."""
        return ("onnxruntime", "numpy") if self._is_onnx else ("fasttext",)

    @property
    def _is_onnx(self) -> bool:
        return self.params.model.endswith(".onnx")

    def _list_score_columns(self) -> Sequence[tuple[str, pa.DataType]]:
        names = self.params.label_column, self.params.probability_column
        return list(zip(names, (pa.string(), pa.float64()), strict=True))

    def setup(self) -> None:
        """Load the model.

        Raises:
            ImportError: what runs the model is not installed.
            ModelError: the model is not here, or lacks a label that is named.
            ValueError: it is no model of fastText.
        """
        params = self.params
        kind: type[FastTextModel | OnnxClassifier] = (
            OnnxClassifier if self._is_onnx else FastTextModel
        )
        self._model = kind(self._find_model())
        self._labels = frozenset(map(strip_prefix, params.labels))
        self._bounds = _strip(params.min_probabilities)
        self._unwanted = _strip(params.drop_labels)
        self._check_labels([*self._labels, *self._bounds, *self._unwanted])

    def _score(self, text: str) -> Classified:
        looked_at = text[: self.params.max_characters]
        return classify(self._model.list_probabilities(looked_at), self._labels)

    def _judge_scores(self, scores: Sequence[Any]) -> str | None:
        probabilities = Classified(*scores).probabilities
        for label, bound in self._unwanted.items():
            if probabilities.get(label, 0.0) >= bound:
                return "unwanted label"
        lowest = self.params.min_probability
        for label in self._labels or probabilities or [""]:
            if probabilities.get(label, 0.0) >= self._bounds.get(label, lowest):
                return None
        return "improbable label"

    def _check_labels(self, labels: Iterable[str]) -> None:
        known = self._model.list_probabilities("")
        for label in labels:
            # A model that makes nothing of an empty line does not tell its labels.
            if known and label not in known:
                msg = (
                    f"{self.params.model}: the model has no label {label!r}; it has {_list(known)}"
                )
                raise ModelError(msg)


def classify(probabilities: Mapping[str, float], labels: frozenset[str]) -> Classified:
    """Return the most probable of some labels, or of all where none is named.

    Of equally probable ones it is the first by name, so that it does not depend on their order.
    """
    looked_at = {label: probabilities.get(label, 0.0) for label in labels or probabilities}
    label = min(looked_at, key=lambda each: (-looked_at[each], each), default="")
    return Classified(label, round(looked_at.get(label, 0.0), 6), probabilities)


def _strip(bounds: Mapping[str, float]) -> dict[str, float]:
    return {strip_prefix(label): bound for label, bound in bounds.items()}


def _list(labels: Iterable[str], most: int = 10) -> str:
    names = sorted(labels)
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
