"""Runs silero-vad on a growing sound: a probability of speech for each window of 32 ms.

The module handles arrays. The module must not depend on the rules for segments.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from strandline_packs.audio.sounds.tracks import start_resampler
from strandline_packs.models.model_files import ModelError
from strandline_packs.models.onnx_sessions import describe_tensors

RATE = 16_000
WINDOW = 512  # samples
WINDOW_SECONDS = WINDOW / RATE
_CONTEXT = 64  # samples of the previous window that the model sees again
_STATE = (2, 1, 128)
_INPUTS = {"input", "state", "sr"}


def check_detector(session: Any, name: str) -> None:
    """Check that a session holds silero-vad.

    Raises:
        ModelError: the model has other inputs.
    """
    if {each.name for each in session.get_inputs()} != _INPUTS:
        msg = (
            f"{name}: not a model of silero-vad 5 or newer: its inputs are "
            f"{describe_tensors(session.get_inputs())}"
        )
        raise ModelError(msg)


class SpeechDetector:
    """Returns probabilities of speech for one sound.

    Args:
        session: session with silero-vad.
        rate: sample rate of the blocks.
    """

    def __init__(self, session: Any, rate: int) -> None:
        np = import_module("numpy")
        self._np, self._session = np, session
        self._resampler = None if rate == RATE else start_resampler(rate, RATE, 1)
        self._rate, self._state = np.array(RATE, "int64"), np.zeros(_STATE, "float32")
        self._seen = np.zeros(_CONTEXT, "float32")  # context, and samples of the next window

    def feed(self, block: Any) -> list[float]:
        """Return the probabilities of the windows that a block completes."""
        mono = block if block.shape[1] == 1 else block.mean(1, keepdims=True)
        return self._run(mono, is_last=False)

    def finish(self) -> list[float]:
        """Return the probability of the last windows, after adding silence."""
        np = self._np
        found = self._run(np.zeros((0, 1), "float32"), is_last=True)
        self._resampler = None
        rest = (_CONTEXT - len(self._seen)) % WINDOW
        return [*found, *self._run(np.zeros((rest, 1), "float32"), is_last=True)]

    def _run(self, block: Any, *, is_last: bool) -> list[float]:
        if self._resampler is not None:
            block = self._resampler.resample_chunk(block, last=is_last)
        seen, state, run = (
            self._np.concatenate([self._seen, block[:, 0]]),
            self._state,
            self._session.run,
        )
        found, begin, size = list[float](), 0, _CONTEXT + WINDOW
        while len(seen) - begin >= size:
            inputs = {"input": seen[None, begin : begin + size], "state": state, "sr": self._rate}
            answer, state = run(None, inputs)
            found.append(float(answer[0, 0]))
            begin += WINDOW
        self._seen, self._state = seen[begin:], state
        return found


class HeldSound:
    """The samples of a sound between the next segment's start and the reading position."""

    def __init__(self) -> None:
        self._blocks: list[Any] = []
        self._begin = 0  # position of the first sample

    def add(self, block: Any) -> None:
        """Append a block: samples × channels."""
        self._blocks.append(block)

    def take(self, begin: int, end: int) -> Any:
        """Return the samples from position `begin` to before `end`, or to the last one."""
        joined = import_module("numpy").concatenate(self._blocks)
        self._blocks = [joined]
        return joined[max(0, begin - self._begin) : max(0, end - self._begin)]

    def forget(self, before: int) -> None:
        """Drop blocks that end before a position."""
        while self._blocks and self._begin + len(self._blocks[0]) <= before:
            self._begin += len(self._blocks.pop(0))
