"""Runs text classifiers in ONNX files, as exported from scikit-learn pipelines by skl2onnx.

The module relies only on their input (strings) and output (probabilities by label).
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from strandline_packs.models.model_files import ModelError
from strandline_packs.models.onnx_sessions import describe_tensors, start_session

_TEXTS = "tensor(string)"
# Input is a column of texts, or a row of features that contains only the text.
_SHAPES = (1, 2)
_PROBABILITIES = frozenset(f"seq(map({kind},tensor(float)))" for kind in ("string", "int64"))


class OnnxClassifier:
    """A loaded classifier that labels texts on the CPU.

    Raises:
        ImportError: ONNX Runtime is not installed.
        ModelError: the file is not a classifier, or has another input or output.
    """

    def __init__(self, path: Path) -> None:
        self._session = start_session(path, path.name, "CPUExecutionProvider", threads=1)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if [each.type for each in inputs] != [_TEXTS] or len(inputs[0].shape) not in _SHAPES:
            given = describe_tensors(inputs)
            msg = (
                f"{path.name}: the model must take a tensor of strings, but it takes {given}; if "
                "it takes tokens, set `tokenizer`"
            )
            raise ModelError(msg)
        found = [each.name for each in outputs if each.type in _PROBABILITIES]
        if len(found) != 1:
            given = ", ".join(f"{each.name} {each.type}" for each in outputs)
            msg = (
                f"{path.name}: the model must return probabilities by label, as with skl2onnx's "
                f"option zipmap, but it returns {given}"
            )
            raise ModelError(msg)
        self._input, self._output = inputs[0].name, found[0]
        self._shape = (1,) * len(inputs[0].shape)

    def list_probabilities(self, text: str) -> dict[str, float]:
        """Return the probability of every label; numbers that are labels become text."""
        given = import_module("numpy").full(self._shape, text, dtype=object)
        ((probabilities,),) = self._session.run([self._output], {self._input: given})
        return {str(label): float(share) for label, share in probabilities.items()}
