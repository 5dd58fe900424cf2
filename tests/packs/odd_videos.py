"""Videos as phones, cameras, and editors make them: builders, each with one peculiarity.

A builder's name states its peculiarity. All builders draw frames that show their number, so tests
can identify frames.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

RATE, FRAMES = 25, 50
SIZE = (96, 64)
SOUND = 48_000
# The rotation of images, in the form of a track's box: x and y of a step to the right, then of a
# step down. Then the stored orientation of the pixels.
TURNS = {
    "clockwise": ((0, 1), (-1, 0)),
    "half": ((-1, 0), (0, -1)),
    "counterclockwise": ((0, -1), (1, 0)),
    "mirrored": ((-1, 0), (0, 1)),
    "upside down": ((1, 0), (0, -1)),
    "transposed": ((0, 1), (1, 0)),
    "transverse": ((0, -1), (-1, 0)),
}
_LYING: dict[str, Callable[[Any], Any]] = {
    "": lambda pixels: pixels,
    "clockwise": lambda pixels: np.rot90(pixels, 1),
    "half": lambda pixels: np.rot90(pixels, 2),
    "counterclockwise": lambda pixels: np.rot90(pixels, 3),
    "mirrored": np.fliplr,
    "upside down": np.flipud,
    "transposed": lambda pixels: np.swapaxes(pixels, 0, 1),
    "transverse": lambda pixels: np.swapaxes(np.rot90(pixels, 2), 0, 1),
}


def lay(pixels: Any, turn: str) -> Any:
    """Return the pixels as a camera stores them with this rotation."""
    return np.ascontiguousarray(_LYING[turn](pixels))


def draw_frame(number: int, size: tuple[int, int] = SIZE) -> Any:
    """Return a gray frame with a red upper left quarter; the gray level encodes numbers to 75."""
    width, height = size
    pixels = np.full((height, width, 3), 20 + number % 75 * 3, np.uint8)
    pixels[: height // 2, : width // 2] = (250, 20, 20)
    return pixels


def read_number(pixels: Any) -> int:
    """Return the number of an upright frame."""
    height, width, _ = pixels.shape
    grey = pixels[height * 5 // 8 :, width * 5 // 8 :].astype(float).mean()
    number: int = round((grey - 20) / 3)
    return number


def is_upright(pixels: Any) -> bool:
    """Return True if the red quarter is the upper left quarter."""
    height, width, _ = pixels.shape
    red = pixels[..., 0].astype(int) - pixels[..., 1]
    quarters = {
        (up, left): red[
            slice(0, height // 2) if up else slice(height // 2, None),
            slice(0, width // 2) if left else slice(width // 2, None),
        ].mean()
        for up in (True, False)
        for left in (True, False)
    }
    return max(quarters, key=lambda key: quarters[key]) == (True, True)


def write_odd_video(
    path: Path,
    *,
    frames: int = FRAMES,
    sound: str = "",
    sound_frames: int | None = None,
    begin: Fraction = Fraction(0),
    codec: str = "libx264",
    key_every: int = 12,
    lies: str = "",
    cover: bool = False,
) -> Path:
    """Write a video whose frames show their numbers.

    Args:
        sound: codec of a tone; empty for silence.
        sound_frames: duration of the sound, in video frames.
        begin: time of the first frame in seconds.
        lies: rotation applied to the upright images before writing.
        cover: whether to attach an image before the video stream.
    """
    with av.open(str(path), "w", options={"fflags": "+bitexact"}) as file:
        art = _add_cover(file) if cover else None
        pictures: Any = file.add_stream(codec, rate=RATE)
        drawn = [lay(draw_frame(number), lies) for number in range(frames)]
        pictures.height, pictures.width, _ = drawn[0].shape
        pictures.pix_fmt = "yuv420p"
        pictures.codec_context.gop_size = key_every
        pictures.codec_context.thread_count = 1
        if codec == "libx264":
            pictures.options = {"crf": "10", "preset": "veryfast", "sc_threshold": "0"}
        track: Any = file.add_stream(sound, rate=SOUND, layout="mono") if sound else None
        if art is not None:
            file.mux(art)
        for number, pixels in enumerate(drawn):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = number + round(begin * RATE)
            frame.time_base = Fraction(1, RATE)
            file.mux(pictures.encode(frame))
        file.mux(pictures.encode(None))
        if track is not None:
            for chunk in _make_tone(sound_frames or frames, begin):
                file.mux(track.encode(chunk))
            file.mux(track.encode(None))
    return path


def write_album(path: Path) -> Path:
    """Write a sound file that has a cover image and no video."""
    with av.open(str(path), "w") as file:
        art = _add_cover(file)
        track: Any = file.add_stream("aac", rate=SOUND, layout="mono")
        file.mux(art)
        for chunk in _make_tone(FRAMES, Fraction(0)):
            file.mux(track.encode(chunk))
        file.mux(track.encode(None))
    return path


def _add_cover(file: Any) -> Any:
    """Add a cover image as a stream, as music programs do; return its packet."""
    encoder: Any = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt = 32, 32, "yuvj420p"
    encoder.time_base = Fraction(1, RATE)
    frame: Any = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 200, np.uint8), format="rgb24")
    encoded = [*encoder.encode(frame.reformat(format="yuvj420p")), *encoder.encode(None)][0]
    stream: Any = file.add_stream("mjpeg", rate=RATE)
    stream.width, stream.height, stream.pix_fmt = 32, 32, "yuvj420p"
    stream.disposition = av.stream.Disposition.attached_pic
    packet = av.Packet(bytes(encoded))
    packet.stream, packet.time_base = stream, Fraction(1, RATE)
    packet.pts = packet.dts = 0
    packet.is_keyframe = True
    return packet


def _make_tone(frames: int, begin: Fraction) -> Iterator[Any]:
    count, offset = frames * SOUND // RATE, round(begin * SOUND)
    for start in range(0, count, 1024):
        at = np.arange(start, min(start + 1024, count))
        wave = (np.sin(2 * np.pi * 440 * at / SOUND) * 8000).astype(np.int16)
        chunk = av.AudioFrame.from_ndarray(wave[None], format="s16", layout="mono")
        chunk.sample_rate, chunk.pts = SOUND, start + offset
        chunk.time_base = Fraction(1, SOUND)
        yield chunk


def turn(path: Path, how: str) -> Path:
    """Set the display rotation of an MP4's images, as a phone does."""
    content = bytearray(path.read_bytes())
    at = content.index(b"tkhd") + 4
    at += 40 if content[at] == 0 else 52  # depends on the box's version
    (a, b), (c, d) = TURNS[how]
    matrix = (a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30)
    content[at : at + 36] = struct.pack(">9i", *matrix)
    path.write_bytes(content)
    return path


def edit(path: Path, *edits: tuple[float, float]) -> Path:
    """Give an MP4's first track an edit list: shown seconds, and their start in the media.

    A start of -1 shows nothing for that time.
    """
    content = path.read_bytes()
    media, movie = (_read_scale(content, name) for name in (b"mdhd", b"mvhd"))
    entries = b"".join(
        struct.pack(">IiI", round(length * movie), -1 if at < 0 else round(at * media), 1 << 16)
        for length, at in edits
    )
    listed = struct.pack(">I4sII", 16 + len(entries), b"elst", 0, len(edits)) + entries
    box = struct.pack(">I4s", 8 + len(listed), b"edts") + listed
    track, head = content.index(b"trak") - 4, content.index(b"moov") - 4
    assert head > content.index(b"mdat")  # so offsets into the data stay valid
    begin = content.index(b"edts", track) - 4  # our encoder delays frames, so an edit list exists
    end = begin + _read_size(content, begin)
    edited = bytearray(content[:begin] + box + content[end:])
    for at in (head, track):
        size = _read_size(content, at) + len(edited) - len(content)
        struct.pack_into(">I", edited, at, size)
    path.write_bytes(edited)
    return path


def _read_scale(content: bytes, box: bytes) -> int:
    (scale,) = struct.unpack_from(">I", content, content.index(box) + 16)
    return int(scale)


def _read_size(content: bytes, at: int) -> int:
    (size,) = struct.unpack_from(">I", content, at)
    return int(size)
