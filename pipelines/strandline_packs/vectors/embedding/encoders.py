"""Encodes texts as vectors. Each encoder wraps a library, which only workers load."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from strandline.plan.packages import load_module
from strandline_packs.models.model_files import ModelError
from strandline_packs.models.onnx_sessions import SessionParams, describe_tensors, open_session

Array = npt.NDArray[Any]
Encode = Callable[[Sequence[str]], Array]
_TOKENS = 3  # axes of an output with a vector for each token


class TextEncoder(StrEnum):
    """Library that computes vectors of texts."""

    WORDLLAMA = "wordllama"
    MODEL2VEC = "model2vec"
    ONNX = "onnx"


def open_wordllama() -> Encode:
    """Return the encoder whose weights are in the package wordllama: 256 values.

    Raises:
        ImportError: the package is missing.
    """
    with _keeping_log_settings():
        library = load_module("wordllama")
    # The package looks for its own tokenizer in a folder that it does not have, and then downloads
    # it; as a cache, the package's folder is complete.
    model = library.WordLlama.load(cache_dir=find_weights().parent, disable_download=True)
    return lambda texts: np.asarray(model.embed(list(texts)))


@contextmanager
def _keeping_log_settings() -> Iterator[None]:
    """Undo what wordllama changes when it is loaded: all libraries would log to standard error."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def find_weights() -> Path:
    """Return the folder with the weights of wordllama, without loading the package.

    Raises:
        ImportError: the package is missing.
    """
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        load_module("wordllama")  # raises the error that names the package to install
        raise ImportError("wordllama")
    return Path(spec.submodule_search_locations[0]) / "weights"


def open_model2vec(folder: str) -> Encode:
    """Return the encoder of a folder that model2vec has written.

    Raises:
        ImportError: the package is missing.
        ModelError: the folder has no model.
    """
    library = load_module("model2vec")
    try:
        model = library.StaticModel.from_pretrained(folder, force_download=False)
    except Exception as error:  # the library raises many kinds of errors
        msg = f"{folder}: the model can't be loaded ({error})"
        raise ModelError(msg) from error
    return lambda texts: np.asarray(
        model.encode(list(texts), use_multiprocessing=False, max_length=None)
    )


class OnnxEncoder:
    """A sentence transformer: the mean of its vectors of tokens, or its only vector of a text.

    Args:
        path: ONNX file with the inputs `input_ids`, `attention_mask`, and, if it wants them,
            `token_type_ids`.
        tokenizer: path of the model's `tokenizer.json`.
        most: maximum number of tokens of a text; longer texts are cut.

    Raises:
        ModelError: the model has other inputs, or can't be loaded.
    """

    def __init__(self, path: Path, tokenizer: str, most: int, params: SessionParams) -> None:
        self._session = open_session(path, str(path), params)
        inputs = self._session.get_inputs()
        self._names = [each.name for each in inputs]
        if (
            not {"input_ids", "attention_mask"}
            <= set(self._names)
            <= {
                "input_ids",
                "attention_mask",
                "token_type_ids",
            }
        ):
            msg = f"{path}: the model must take tokens and takes {describe_tensors(inputs)}"
            raise ModelError(msg)
        self._tokenizer = import_module("tokenizers").Tokenizer.from_file(tokenizer)
        self._tokenizer.enable_truncation(most)
        self._tokenizer.enable_padding()

    def __call__(self, texts: Sequence[str]) -> Array:
        """Return a vector for each text."""
        tokens = self._tokenizer.encode_batch_fast(list(texts))
        mask = np.array([each.attention_mask for each in tokens], np.int64)
        ids = np.array([each.ids for each in tokens], np.int64)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        output = self._session.run(None, {name: given[name] for name in self._names})[0]
        if output.ndim < _TOKENS:
            return np.asarray(output)
        weights = mask[:, :, None]
        return np.asarray((output * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1))
