"""The stage `identify-spoken-language`: adds the language that a classifier hears in each clip.

The user provides the classifier, which is an ONNX file that takes samples, and its labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from strandline_packs.audio.clip_stages import PACKAGES, ClipParams, ClipStage
from strandline_packs.audio.sounds.clips import Sound, resample
from strandline_packs.models.model_files import ModelError, ModelFileParams, find_model
from strandline_packs.models.onnx_sessions import SessionParams, describe_tensors, open_session

_RATE = 16_000
_AXES = 2


class IdentifySpokenLanguage(ClipStage):
    """Adds `language` and `language_probability`, computed by a classifier of sounds."""

    class Params(ClipParams, SessionParams, ModelFileParams):
        """Configures the classifier, and the part of a clip that it hears."""

        model: str = Field(
            min_length=1,
            description="ONNX file at a path or URL. Its only input is 1 × samples of 32-bit "
            "floats at 16 kHz; its first output is 1 × labels. Its content is part of the "
            "fingerprint.",
        )
        labels: str = Field(
            min_length=1,
            description="File or URL with the labels in the order of the output, one per line.",
        )
        is_logits: bool = Field(
            default=True,
            description="True if outputs are logits, of which the softmax is the probability; "
            "false if they are probabilities.",
        )
        max_seconds: float = Field(
            default=30, gt=0, description="Maximum length of sound that is used, from the start."
        )

        def list_places(self) -> Iterable[tuple[str, str]]:
            """Return the locations of both files."""
            return [("model", self.model), ("labels", self.labels)]

    params: Params
    packages: ClassVar[tuple[str, ...]] = (*PACKAGES, "onnxruntime")
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset({"device", "threads"})

    def digest_inputs(self) -> dict[str, str]:
        """Return the digests of the model and the labels."""
        return self.params.digests

    def list_kinds(self) -> Mapping[str, pa.DataType]:
        return {"language": pa.string(), "language_probability": pa.float64()}

    def setup_on_node(self) -> None:
        """Copy files at URLs to the node's disk."""
        self._find_files()

    def setup(self) -> None:
        """Load the classifier, and run it on a second of silence.

        Raises:
            ModelError: the model is missing, or has other inputs or outputs.
        """
        super().setup()
        model, labels = self._find_files()
        self._labels = labels.read_text("utf-8").split("\n")
        self._labels = [line.strip() for line in self._labels if line.strip()]
        self._session = open_session(model, self.params.model, self.params)
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != _AXES or inputs[0].type != "tensor(float)":
            given = describe_tensors(inputs)
            msg = f"{self.params.model}: the model must take 1 × samples, but it takes {given}"
            raise ModelError(msg)
        self._input = inputs[0].name
        self._run(import_module("numpy").zeros(_RATE, "float32"))

    def work(self, sound: Sound, name: str) -> Sequence[Any]:  # noqa: ARG002 - for messages
        """Return the most probable language of a clip, and its probability."""
        mono = resample(Sound(sound.samples.mean(1, keepdims=True), sound.rate), _RATE)
        outputs = self._run(mono.samples[: round(self.params.max_seconds * _RATE), 0])
        np = import_module("numpy")
        if self.params.is_logits:
            raised = np.exp(outputs - outputs.max())
            outputs = raised / raised.sum()
        best = int(outputs.argmax())
        return self._labels[best], float(outputs[best])

    def _run(self, samples: Any) -> Any:
        answer = self._session.run(None, {self._input: samples[None]})[0]
        if answer.shape != (1, len(self._labels)):
            msg = (
                f"{self.params.model}: the model returns {answer.shape}, but {self.params.labels} "
                f"has {len(self._labels)} labels"
            )
            raise ModelError(msg)
        return answer[0].astype("float64")

    def _find_files(self) -> tuple[Path, Path]:
        digests = self.params.digests
        return (
            find_model(self.params.model, digests["model"], ".onnx"),
            find_model(self.params.labels, digests["labels"], ".txt"),
        )
