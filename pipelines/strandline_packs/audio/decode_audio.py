"""The stage `decode-audio`: decodes audio and video files as WAV clips of one rate."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from pydantic import Field

from strandline_packs.audio.clip_stages import ClipPart, ClipReader, ReaderParams
from strandline_packs.audio.sounds.clips import Sound
from strandline_packs.audio.sounds.tracks import SoundReading


class DecodeAudio(ClipReader):
    """Decodes the sound of each file as a 16-bit WAV in `audio`; long files become several rows."""

    class Params(ReaderParams):
        """Configures the form of clips, and their maximum length."""

        max_seconds: float = Field(
            default=600,
            gt=0,
            description="Maximum length of a clip. Longer files are cut, which is counted; "
            "`split-speech` cuts between words instead.",
        )

    params: Params

    def cut(self, reading: SoundReading) -> Iterator[ClipPart]:
        """Yield parts of `maxSeconds`, and the rest of the file."""
        held: list[Any] = []
        begin = length = 0
        for piece in reading.read():
            most, block = max(1, round(self.params.max_seconds * reading.rate)), piece
            while length + len(block) > most:
                held.append(block[: most - length])
                yield _join(held, begin, reading.rate)
                self.count("cut: longer than maxSeconds")
                block, held = block[most - length :], []
                begin, length = begin + most, 0
            held.append(block)
            length += len(block)
        if length:
            yield _join(held, begin, reading.rate)


def _join(blocks: list[Any], begin: int, rate: int) -> ClipPart:
    return ClipPart(begin / rate, Sound(import_module("numpy").concatenate(blocks), rate))
