"""The stage `transcode-audio`: encodes each clip as a FLAC, Opus, MP3, AAC, or WAV file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pydantic import Field

from strandline_packs.audio.clip_stages import ClipParams, ClipStage
from strandline_packs.audio.sounds.clips import Sound, resample
from strandline_packs.audio.sounds.encoding import AudioCodec, choose_rate, encode_sound


class TranscodeAudio(ClipStage):
    """Encodes each clip of `audio` in another format."""

    class Params(ClipParams):
        """Configures the codec, and its bit rate."""

        codec: AudioCodec = Field(
            default=AudioCodec.FLAC,
            description="Codec of the files. `flac` and `wav` keep every 16-bit sample; `opus` is "
            "in Ogg, `aac` in M4A. Rates that a codec lacks are raised to its next one.",
        )
        kilobits: int = Field(
            default=64, ge=8, le=512, description="Bit rate of lossy codecs, in kbit/s."
        )
        rate: int | None = Field(
            default=None,
            ge=4_000,
            le=192_000,
            description="Sample rate in hertz; null keeps the rate of each clip.",
        )

    params: Params

    def list_kinds(self) -> Mapping[str, pa.DataType]:
        audio = self.params.column.partition(".")[0]
        return {audio: pa.binary(), "codec": pa.string(), "sample_rate": pa.int32()}

    def work(self, sound: Sound, name: str) -> Sequence[Any]:
        """Encode a clip.

        Raises:
            UnreadableFileError: the codec does not support the clip.
        """
        codec = self.params.codec
        rate = choose_rate(codec, self.params.rate or sound.rate)
        content = encode_sound(resample(sound, rate), codec, self.params.kilobits, name)
        return content, codec.value, rate
