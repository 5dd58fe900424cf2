"""The stage `measure-audio`: measures loudness, noise, clipping, silence, and bandwidth."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pydantic import Field

from strandline_packs.audio.clip_stages import ClipParams, ClipStage
from strandline_packs.audio.sounds.clips import Sound
from strandline_packs.audio.sounds.levels import SoundMeasures, measure_sound


class MeasureAudio(ClipStage):
    """Adds `loudness` (EBU R128), `peak`, `snr`, shares of clipping and silence, `bandwidth`."""

    class Params(ClipParams):
        """Configures the column with clips, and the level of silence."""

        silence: float = Field(
            default=-50,
            ge=-120,
            le=0,
            description="Level in decibels below full scale; quieter frames of 20 ms are silent.",
        )

    params: Params

    def list_kinds(self) -> Mapping[str, pa.DataType]:
        return dict.fromkeys(SoundMeasures._fields, pa.float64())

    def work(self, sound: Sound, name: str) -> SoundMeasures:  # noqa: ARG002 - for messages
        """Measure a clip."""
        return measure_sound(sound, self.params.silence)
