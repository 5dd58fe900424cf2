"""Copies the audio of clips: original packets, or PCM if the container lacks the codec.

Cameras and old programs write audio codecs that Matroska does not support. Decoding them to PCM
loses nothing. The module must not depend on the rules for cuts.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from typing import Any

from strandline.data.files.opening import UnreadableFileError
from strandline_packs.video.files.containers import CLIP_FORMAT, PacketCopy, copy_packet, load_av

# Keys are sample formats of decoders; values are the PCM codec and its sample format.
_PLAIN = {
    "u8": ("pcm_u8", "u8"),
    "s16": ("pcm_s16le", "s16"),
    "s32": ("pcm_s32le", "s32"),
    "flt": ("pcm_f32le", "flt"),
    "dbl": ("pcm_f64le", "dbl"),
}


class SoundTrack:
    """The audio stream, packet by packet.

    Args:
        stream: stream of the open container.
        path: path for messages.

    Raises:
        UnreadableFileError: a clip can contain neither the packets nor the samples.
    """

    def __init__(self, stream: Any, path: str) -> None:
        self.stream = stream
        self._path = path
        self._encoder: Any = None
        self._resampler: Any = None
        if not _can_hold(stream):
            self._encoder, self._resampler = self._decode_to_plain()

    def add_to(self, container: Any) -> Any:
        """Add a stream to a clip's container."""
        if self._encoder is None:
            return container.add_stream_from_template(self.stream)
        return container.add_stream(
            self._encoder.codec.name, rate=self._encoder.rate, layout=self._encoder.layout.name
        )

    @property
    def time_base(self) -> Fraction:
        """The unit of the packets' times."""
        base: Fraction = self.stream.time_base if self._encoder is None else self._encoder.time_base
        return base

    def copy(self, packet: Any) -> Iterator[PacketCopy]:
        """Yield the copies of a packet for a clip."""
        if self._encoder is None:
            yield copy_packet(packet, self._path)
            return
        try:
            frames = packet.decode()
        except (load_av().error.InvalidDataError, load_av().error.EOFError):
            return  # omit damaged packets, as for pictures
        for frame in frames:
            for samples in self._resampler.resample(frame):
                for each in self._encoder.encode(samples):
                    yield copy_packet(each, self._path)

    def _decode_to_plain(self) -> tuple[Any, Any]:
        context = self.stream.codec_context
        name, kind = _PLAIN.get(context.format.packed.name, _PLAIN["flt"])
        layout = find_layout(context)
        encoder = import_module("av").CodecContext.create(name, "w")
        encoder.rate, encoder.format, encoder.layout = context.rate, kind, layout
        encoder.time_base = Fraction(1, context.rate)
        encoder.open()
        return encoder, load_av().AudioResampler(format=kind, layout=layout, rate=context.rate)


def find_layout(context: Any) -> str:
    """Return the name of a channel layout with the stream's number of channels.

    Some containers state only the number.

    Raises:
        UnreadableFileError: no layout has this number of channels.
    """
    count = len(context.layout.channels)
    names = {1: "mono", 2: "stereo", 3: "2.1", 4: "4.0", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}
    known: str = context.layout.name
    # ffmpeg names a layout without a known order `3 channels`.
    if not known or known.endswith("channels"):
        if count not in names:
            msg = f"no channel layout is known for the {count} channels of the sound"
            raise UnreadableFileError(msg)
        return names[count]
    return known


def _can_hold(stream: Any) -> bool:
    """Return whether the container of clips supports the stream's codec."""
    with load_av().open(io.BytesIO(), "w", format=CLIP_FORMAT) as container:
        try:
            container.add_stream_from_template(stream)
        except ValueError:
            return False
    return True
