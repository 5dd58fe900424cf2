"""Reads a video to its end: yields packets in file order, and finds the orientation.

The module must not depend on the rules for cuts.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from strandline.data.files.opening import UnreadableFileError
from strandline_packs.video.files.containers import (
    CLIP_FORMAT,
    PacketCopy,
    copy_packet,
    load_av,
)
from strandline_packs.video.files.display_order import (
    DisplayOrder,
    Pair,
    needs_count,
    needs_order,
)
from strandline_packs.video.files.looks import copy_shape
from strandline_packs.video.files.orientation import Orientation, read_orientation
from strandline_packs.video.files.sounds import SoundTrack
from strandline_packs.video.files.windows import PacketWindow

_MISSING = Fraction(2, 100)  # tolerated missing share of the stated length, for rounding
_SHORTER = 1  # tolerated missing seconds
_STATED = "DURATION"  # tag of Matroska streams, which have no field for their length


class PictureTrack:
    """The video stream with unchanged packets, for clips."""

    def __init__(self, stream: Any, path: str) -> None:
        self._stream = stream
        self._path = path

    @property
    def time_base(self) -> Fraction:
        """The unit of the packets' times."""
        base: Fraction = self._stream.time_base
        return base

    def add_to(self, container: Any) -> Any:
        """Add a stream to the container of a clip.

        Raises:
            UnreadableFileError: the container does not support the codec.
        """
        try:
            stream = container.add_stream_from_template(self._stream)
        except ValueError as error:
            codec = self._stream.codec_context.codec.canonical_name
            msg = f"{self._path}: {CLIP_FORMAT} does not support the codec of the pictures, {codec}"
            raise UnreadableFileError(msg) from error
        copy_shape(self._stream, stream)
        return stream


class VideoReading:
    """Reads a container to its end.

    Args:
        pictures: video stream to cut.
        sound: accompanying audio stream, or None.

    Attributes:
        orientation: orientation of the pictures, or None before the first decoded picture.
    """

    def __init__(
        self, container: Any, pictures: Any, sound: SoundTrack | None, window: PacketWindow
    ) -> None:
        self.pictures = pictures
        self.window = window
        self.orientation: Orientation | None = None
        self._container = container
        self._sound = sound
        self._end = Fraction(0)  # end of the longest stream, in seconds
        self._is_edited = False

    def read(self) -> Iterator[Pair]:
        """Yield video packets with their copies; audio packets go into the window.

        Raises:
            UnreadableFileError: the window has become too large, or a packet has no time.
        """
        pairs = self._read()
        if needs_order(self._container, self.pictures):
            pairs = DisplayOrder(self.pictures).arrange(pairs)
        for packet, piece in pairs:
            self.window.add_picture(piece)
            self._is_edited |= piece.is_hidden
            yield packet, piece

    def _read(self) -> Iterator[Pair]:
        # Read all streams, because the stated length may refer to any of them.
        for packet in self._container.demux():
            if packet.size == 0:  # an empty packet only marks a stream's end
                continue
            self._note_end(packet)
            if packet.stream is self.pictures:
                yield packet, copy_packet(packet, self.window.path)
            elif self._sound is not None and packet.stream is self._sound.stream:
                for piece in self._sound.copy(packet):
                    self.window.add_sound(piece)

    def _note_end(self, packet: Any) -> None:
        if packet.pts is not None and packet.time_base and not packet.is_discard:
            self._end = max(self._end, (packet.pts + (packet.duration or 0)) * packet.time_base)

    def look_at(self, frames: list[Any]) -> None:
        """Read the orientation from the first decoded frames."""
        if self.orientation is None and frames:
            self.orientation = read_orientation(frames[0])

    def find_begin(self, piece: PacketCopy) -> Fraction:
        """Return the display time of the first picture, given the first displayed packet.

        If an edit list hides pictures, a later packet may be displayed first.
        """
        stream = self.pictures
        if not self._is_edited or stream.start_time is None:
            return piece.time
        stated: Fraction = stream.start_time * stream.time_base
        return min(piece.time, stated)

    def describe(self) -> dict[str, Any]:
        """Return a clip's columns that are the same for all clips of the video."""
        context = self.pictures.codec_context
        orientation = self.orientation or Orientation.UPRIGHT
        width, height = orientation.turn_size(context.width, context.height)
        return {
            "width": width,
            "height": height,
            "rate": float(self.pictures.average_rate or 0),
            "codec": context.codec.canonical_name,
            "has_audio": self._sound is not None,
        }

    def check_end(self) -> None:
        """Compare the read length with the stated length of the file.

        Raises:
            UnreadableFileError: the file is much shorter than stated.
        """
        window, stated = self.window, self._find_stated_end()
        read = window.read
        if stated is None:  # only the length of the longest stream is stated
            stated = Fraction(self._container.duration or 0, load_av().time_base)
            # Some containers count the length from the first packet, others from 0.
            read = max(self._end, self._end - window.first)
        if stated - read > max(Fraction(_SHORTER), stated * _MISSING):
            begun = min(window.first, read)
            msg = (
                f"{window.path}: the video ends after {float(read - begun):.1f} of "
                f"{float(stated - begun):.1f} seconds; the file may be incomplete"
            )
            raise UnreadableFileError(msg)

    def _find_stated_end(self) -> Fraction | None:
        """Return the stated end of the video stream in seconds, or None if no end is stated."""
        stream = self.pictures
        length: Fraction = (stream.duration or 0) * stream.time_base
        if needs_count(self._container) and stream.average_rate:
            length = max(length, stream.frames / stream.average_rate)
        if length:
            begin: Fraction = (stream.start_time or 0) * stream.time_base
            return begin + length
        return _parse_length(stream.metadata.get(_STATED, ""))


def _parse_length(text: str) -> Fraction | None:
    """Return the seconds of `00:00:12.000000000`, or None for other text."""
    # Missing parts become empty, and `int` rejects empty text.
    hours, minutes, seconds = (*text.split(":"), "", "")[:3]
    try:
        return int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds)
    except (ValueError, ZeroDivisionError):
        return None
