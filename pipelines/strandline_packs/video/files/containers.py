"""Opens video files through PyAV by path or URL, and writes small files into memory.

PyAV contains ffmpeg's libraries and is imported when the first file is opened. The module must not
depend on stages.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from itertools import accumulate
from operator import itemgetter
from typing import Any, Protocol

from strandline.data.files.opening import UnreadableFileError, explain_error, open_binary
from strandline.plan.packages import load_module

# Omit the time, the writer, and the random identifier from written files, so that bytes are stable.
EXACT = {"fflags": "+bitexact"}
CLIP_FORMAT = "matroska"  # can store nearly every codec's packets unchanged

_READ_AHEAD = 1 << 20


def load_av() -> Any:
    """Return PyAV.

    Raises:
        ImportError: PyAV is not installed; the message names the package to install.
    """
    return load_module("av")


@contextmanager
def open_video(path: str) -> Iterator[Any]:
    """Open the container at a path or URL. For a URL, only the required ranges are read.

    Raises:
        UnreadableFileError: the file can't be read, or is not a video. Later reads may also raise
            this error.
    """
    av = load_av()
    with (
        explaining(path),
        open_binary(path) as file,
        # Titles in an unknown encoding must not fail a video.
        av.open(file, "r", buffer_size=_READ_AHEAD, metadata_errors="replace") as container,
    ):
        yield container


@contextmanager
def open_content(content: bytes, name: str) -> Iterator[Any]:
    """Open a container in memory. Error messages use the given name.

    Raises:
        UnreadableFileError: the content is not a video. Later reads may also raise this error.
    """
    av = load_av()
    with (
        explaining(name),
        av.open(io.BytesIO(content), "r", metadata_errors="replace") as container,
    ):
        yield container


@contextmanager
def explaining(path: str) -> Iterator[None]:
    """Turn errors of PyAV and of the store into one sentence that names the file."""
    try:
        yield
    except load_av().FFmpegError as error:
        msg = f"{path}: not a readable video ({error.strerror or error})"
        raise UnreadableFileError(msg) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # the container refers to a position outside of the file
            msg = f"{path}: not a readable video (it is empty or damaged)"
            raise UnreadableFileError(msg) from error
        raise explain_error(path, error) from error


def find_pictures(container: Any, name: str) -> Any:
    """Return the video stream that ffmpeg would choose, ignoring cover pictures.

    Raises:
        UnreadableFileError: no video stream exists, or no decoder supports it.
    """
    moving = [each for each in container.streams.video if not _is_still(each)]
    if not moving:
        what = "only a cover picture" if container.streams.video else "no stream of pictures"
        msg = f"{name}: not a video: it has {what}"
        raise UnreadableFileError(msg)
    best = container.streams.best("video")
    stream = next((each for each in moving if best and each.index == best.index), moving[0])
    if stream.codec_context is None:
        msg = f"{name}: not a readable video: no decoder for its pictures is installed"
        raise UnreadableFileError(msg)
    # Use one thread: the engine runs a worker per core, and results must not depend on timing.
    stream.thread_type, stream.codec_context.thread_count = "NONE", 1
    return stream


def _is_still(stream: Any) -> bool:
    """Return whether a stream is an attached picture, such as an album cover."""
    still = load_av().stream.Disposition
    return bool(stream.disposition & (still.attached_pic | still.timed_thumbnails))


def find_sound(container: Any) -> Any | None:
    """Return the first audio stream with a decoder, if any."""
    sounds = container.streams.audio
    return sounds[0] if sounds and sounds[0].codec_context is not None else None


class FrameScaler:
    """Scales decoded frames by averaging areas. Use one scaler for all frames of a video.

    Creating a scaler costs more than scaling a frame.
    """

    def __init__(self) -> None:
        reformatter = import_module("av.video.reformatter")
        self._reformatter = reformatter.VideoReformatter()
        self._interpolation = reformatter.Interpolation.AREA

    def scale(self, frame: Any, size: tuple[int, int]) -> Any:
        """Return a frame as an array: height × width × 3 levels of red, green and blue."""
        small = self._reformatter.reformat(
            frame, *size, format="rgb24", interpolation=self._interpolation, threads=1
        )
        return small.to_ndarray()


@dataclass(frozen=True, slots=True)
class PacketCopy:
    """Copy of a packet: its bytes, and its times in seconds.

    Attributes:
        time: display time.
        order: decoding time, before which no later packet is displayed; None if the container has
            no decoding times.
        is_hidden: whether an edit list hides the picture, which is still needed for decoding.
    """

    data: bytes
    time: Fraction
    order: Fraction | None
    duration: Fraction
    is_key: bool
    is_hidden: bool = False


def copy_packet(packet: Any, path: str) -> PacketCopy:
    """Return a copy of a packet.

    Raises:
        UnreadableFileError: the packet has no time.
    """
    time = packet.pts if packet.pts is not None else packet.dts
    if time is None:
        msg = f"{path}: the packets have no timestamps; convert the file to a container such as MP4"
        raise UnreadableFileError(msg)
    base = packet.time_base
    order = None if packet.dts is None else packet.dts * base
    return PacketCopy(
        bytes(packet),
        time * base,
        order,
        (packet.duration or 0) * base,
        packet.is_keyframe,
        packet.is_discard,
    )


class Track(Protocol):
    """The stream of packets."""

    @property
    def time_base(self) -> Fraction:
        """Unit of the packets' times."""

    def add_to(self, container: Any) -> Any:
        """Add a stream for the packets to a container, and return the stream."""


def pack_pieces(
    pictures: Sequence[PacketCopy],
    sounds: Sequence[PacketCopy],
    templates: Sequence[Track | None],
    begin: Fraction,
) -> bytes:
    """Write packets unchanged into a container in memory. Equal packets give equal bytes.

    Args:
        pictures, sounds: packets in decoding order.
        templates: tracks that define the streams; None for a missing stream.
        begin: earliest time of all packets in seconds, which becomes 0.
    """
    av = load_av()
    target = io.BytesIO()
    with av.open(target, "w", format=CLIP_FORMAT, options=EXACT) as container:
        streams = [each and each.add_to(container) for each in templates]
        tracks = [(*each, 0) for each in _order(pictures)] + [(*each, 1) for each in _order(sounds)]
        # The sort is stable, so packets of a track keep their order.
        for order, piece, track in sorted(tracks, key=itemgetter(0)):
            packet = av.Packet(piece.data)
            template = templates[track]
            assert template is not None  # a track without a template has no packets
            packet.stream, packet.time_base = streams[track], template.time_base
            packet.pts, packet.dts, packet.duration = (
                round(time / packet.time_base)
                for time in (piece.time - begin, order - begin, piece.duration)
            )
            packet.is_keyframe = piece.is_key
            container.mux(packet)
    return target.getvalue()


def _order(pieces: Sequence[PacketCopy]) -> list[tuple[Fraction, PacketCopy]]:
    """Return packets with decoding times that ascend and never exceed the display times.

    The container's decoding times are not used: some containers have none, or only from the third
    packet on.
    """
    earliest = list(accumulate((piece.time for piece in reversed(pieces)), min))
    return list(zip(reversed(earliest), pieces, strict=True))
