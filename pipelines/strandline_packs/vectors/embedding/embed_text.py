"""The stage `embed-text`: adds a vector of each text."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar, Self

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.opening import digest_input
from strandline.data.tables.columns import list_strings, set_column
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.models.model_files import copy_model
from strandline_packs.models.onnx_sessions import SessionParams
from strandline_packs.vectors.embedding.encoders import (
    Encode,
    OnnxEncoder,
    TextEncoder,
    open_model2vec,
    open_wordllama,
)
from strandline_packs.vectors.vector_columns import build_column

_PACKAGES = {
    TextEncoder.WORDLLAMA: ("wordllama",),
    TextEncoder.MODEL2VEC: ("model2vec",),
    TextEncoder.ONNX: ("onnxruntime", "tokenizers"),
}
_FILES = ("model.safetensors", "tokenizer.json", "config.json")  # files of a model2vec folder


class EmbedText(Stage):
    """Adds `vector`: 16-bit floats of a fixed number, scaled to length 1.

    A text without known words gets a vector of zeros, which is similar to no other vector.
    """

    class Params(SessionParams):
        """Configures the texts and the model."""

        column: str = Field(default="text", min_length=1, description="Column with the texts.")
        into: str = Field(default="vector", min_length=1, description="Column of the vectors.")
        engine: TextEncoder = Field(
            default=TextEncoder.WORDLLAMA,
            description="`wordllama`, whose package contains the weights; `model2vec`, a folder; "
            "or `onnx`, a sentence transformer.",
        )
        model: str | None = Field(
            default=None,
            min_length=1,
            description="With `model2vec`, the folder of the model; with `onnx`, the ONNX file.",
        )
        tokenizer: str | None = Field(
            default=None, min_length=1, description="With `onnx`, the model's `tokenizer.json`."
        )
        max_tokens: int = Field(
            default=512,
            ge=1,
            description="With `onnx`, the maximum number of tokens of a text; the rest is ignored.",
        )
        batch: int = Field(
            default=64, ge=1, description="Maximum number of texts in a call of the model."
        )
        _digests: dict[str, str] = PrivateAttr(default_factory=dict)

        @model_validator(mode="after")
        def _check(self) -> Self:
            if (self.model is None) != (self.engine is TextEncoder.WORDLLAMA):
                msg = "`model` is required with `engine: model2vec` and `onnx`, and only with these"
                raise ValueError(msg)
            if (self.tokenizer is None) == (self.engine is TextEncoder.ONNX):
                msg = "`tokenizer` is required with `engine: onnx`, and only with it"
                raise ValueError(msg)
            self._digests = self._digest()
            return self

        def _digest(self) -> dict[str, str]:
            if self.engine is TextEncoder.WORDLLAMA:
                try:
                    return {"model": version("wordllama")}
                except PackageNotFoundError:  # reported elsewhere
                    return {}
            if self.engine is TextEncoder.MODEL2VEC:
                return {name: digest_input(f"{self.model}/{name}") for name in _FILES}
            assert self.model is not None
            assert self.tokenizer is not None
            return {"model": digest_input(self.model), "tokenizer": digest_input(self.tokenizer)}

        @property
        def digests(self) -> dict[str, str]:
            """Digests of the model's files, or the version of its package."""
            return self._digests

    params: Params
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset({"device", "threads", "batch"})
    keeps_columns = True

    @property
    def packages(self) -> tuple[str, ...]:  # type: ignore[override]
        """Packages of the chosen engine."""
        return _PACKAGES[self.params.engine]

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def list_added(self) -> tuple[str, ...]:
        return (self.params.into,)

    def digest_inputs(self) -> dict[str, str]:
        """Return the digests of the model."""
        return self.params.digests

    def setup(self) -> None:
        """Load the model.

        Raises:
            ImportError: a package is missing.
            ModelError: the model can't be loaded.
        """
        self._encode = self._open()

    def _open(self) -> Encode:
        params = self.params
        if params.engine is TextEncoder.WORDLLAMA:
            return open_wordllama()
        assert params.model is not None
        if params.engine is TextEncoder.MODEL2VEC:
            return open_model2vec(params.model)
        assert params.tokenizer is not None
        path = copy_model(params.model, params.digests["model"], ".onnx")
        return OnnxEncoder(path, params.tokenizer, params.max_tokens, params)

    def process(self, task: Task) -> Task:
        """Embed the texts, in batches of similar lengths.

        Raises:
            MissingColumnError: the column is missing.
            TypeError: the column has no texts.
        """
        texts = list_strings(task.table, self.params.column)
        if not texts:
            return task
        # Texts of similar length share a batch, because a batch is as long as its longest text.
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        parts = [
            self._encode([texts[row] or " " for row in order[at : at + self.params.batch]])
            for at in range(0, len(order), self.params.batch)
        ]
        vectors = np.concatenate(parts)[np.argsort(order, kind="stable")]
        vectors[[not text.strip() for text in texts]] = 0
        self.count("texts without words", int((~np.any(vectors, axis=1)).sum()))
        column = build_column(vectors)
        return task.replace(set_column(task.table, self.params.into, column, column.type))
