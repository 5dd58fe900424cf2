"""Video files by way of PyAV: opened from any place, and small ones written into memory.

It knows containers and packets, nothing of stages. PyAV is loaded when the first file is opened;
it brings ffmpeg's libraries.
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

# A file that this writes does not tell when, by what or under which random name it was made.
EXACT = {"fflags": "+bitexact"}
CLIP_FORMAT = "matroska"  # Matroska takes nearly every codec as it is

_READ_AHEAD = 1 << 20


def load_av() -> Any:
    """Return PyAV.

    Raises:
        ImportError: it is not installed; the message says what to install.
    """
    return load_module("av")


@contextmanager
def open_video(path: str) -> Iterator[Any]:
    """Open the container at a path or URL; of a URL the ranges are read that are asked for.

    Raises:
        UnreadableFileError: it can't be read, or is none; also of what is read of it later.
    """
    av = load_av()
    with (
        explaining(path),
        open_binary(path) as file,
        av.open(file, "r", buffer_size=_READ_AHEAD, metadata_errors="replace") as container,
    ):
        yield container


@contextmanager
def open_content(content: bytes, name: str) -> Iterator[Any]:
    """Open a container that is in memory; errors name it.

    Raises:
        UnreadableFileError: it is none; also of what is read of it later.
    """
    av = load_av()
    with (
        explaining(name),
        av.open(io.BytesIO(content), "r", metadata_errors="replace") as container,
    ):
        yield container


@contextmanager
def explaining(path: str) -> Iterator[None]:
    """Turn what PyAV and the place of a file raise into one sentence that names the file."""
    try:
        yield
    except load_av().FFmpegError as error:
        msg = f"{path}: no video that can be read ({error.strerror or error})"
        raise UnreadableFileError(msg) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # the container sends its reader to where nothing can be
            msg = f"{path}: no video that can be read (it is empty or damaged)"
            raise UnreadableFileError(msg) from error
        raise explain_error(path, error) from error


def find_pictures(container: Any, name: str) -> Any:
    """Return the stream of pictures: of several the one that ffmpeg would show, never a cover.

    Raises:
        UnreadableFileError: there is none, or nothing here decodes it.
    """
    moving = [each for each in container.streams.video if not _is_still(each)]
    if not moving:
        what = "only a cover" if container.streams.video else "no stream of pictures"
        msg = f"{name}: no video, since there is {what} in it"
        raise UnreadableFileError(msg)
    best = container.streams.best("video")
    stream = next((each for each in moving if best and each.index == best.index), moving[0])
    if stream.codec_context is None:
        msg = f"{name}: no video that can be read, since nothing here decodes its pictures"
        raise UnreadableFileError(msg)
    # A single thread: the engine has a worker a core, and what is decoded must not depend on
    # timing.
    stream.thread_type, stream.codec_context.thread_count = "NONE", 1
    return stream


def _is_still(stream: Any) -> bool:
    """Return whether a stream is a picture that is attached, as an album's cover is."""
    still = load_av().stream.Disposition
    return bool(stream.disposition & (still.attached_pic | still.timed_thumbnails))


def find_sound(container: Any) -> Any | None:
    """Return the first stream of sound that can be decoded; None: the video is silent."""
    sounds = container.streams.audio
    return sounds[0] if sounds and sounds[0].codec_context is not None else None


class FrameScaler:
    """Scales decoded frames by means of areas; one of it for all frames of a video.

    What prepares the scaling costs more than the scaling of a frame does.
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
    """What is kept of a packet: its bytes, and its times in seconds.

    Attributes:
        time: when it is shown.
        order: when it is decoded, where the container tells: nothing after it is shown earlier.
        is_hidden: others need it, but it is never shown: an edit left it out.
    """

    data: bytes
    time: Fraction
    order: Fraction | None
    duration: Fraction
    is_key: bool
    is_hidden: bool = False


def copy_packet(packet: Any, path: str) -> PacketCopy:
    """Return what is kept of a packet.

    Raises:
        UnreadableFileError: it has no time at all.
    """
    time = packet.pts if packet.pts is not None else packet.dts
    if time is None:
        msg = f"{path}: its packets have no times; put it into a container such as MP4 first"
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
    """What packets are of."""

    @property
    def time_base(self) -> Fraction:
        """The unit of their times."""

    def add_to(self, container: Any) -> Any:
        """Add a stream for them to a container, and return it."""


def pack_pieces(
    pictures: Sequence[PacketCopy],
    sounds: Sequence[PacketCopy],
    templates: Sequence[Track | None],
    begin: Fraction,
) -> bytes:
    """Write packets as they are into a container in memory; the same packets give the same bytes.

    Args:
        pictures, sounds: in the order in which they are decoded.
        templates: add the streams that they are of; None: there is none.
        begin: the time, in seconds, that becomes 0; none is before it.
    """
    av = load_av()
    target = io.BytesIO()
    with av.open(target, "w", format=CLIP_FORMAT, options=EXACT) as container:
        streams = [each and each.add_to(container) for each in templates]
        tracks = [(*each, 0) for each in _order(pictures)] + [(*each, 1) for each in _order(sounds)]
        # Equal ones stay as they came.
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
    """Return packets with a time to decode each: rising, and never after any is shown.

    Not all containers tell it, and some only from the third packet on.
    """
    earliest = list(accumulate((piece.time for piece in reversed(pieces)), min))
    return list(zip(reversed(earliest), pieces, strict=True))
