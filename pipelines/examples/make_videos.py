"""Generates the videos of `video.yaml`: moving shapes, cuts, black and still scenes, and noise.

python pipelines/examples/make_videos.py FOLDER [--minutes 5]

The program needs strandline[video]. The same arguments give the same pictures. Some files are
broken on purpose.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

WIDTH, HEIGHT, RATE = 160, 120, 25
SIDE, SPEED = 24, 2  # side of the square in pixels; pixels per frame
UNEVEN = (40, 80, 20, 40, 20)  # milliseconds between two frames, repeated
SOUND = 48_000  # samples per second


@dataclass(frozen=True)
class Scene:
    """A scene between two cuts: `shapes`, `black`, `still`, `noise`, or `titled`."""

    kind: str
    frames: int
    seed: int = 0


@dataclass(frozen=True)
class Video:
    """A video to generate.

    Attributes:
        kept: the share of its bytes to keep. The rest is cut off.
    """

    name: str
    scenes: tuple[Scene, ...]
    has_sound: bool = False
    is_uneven: bool = False
    kept: float = 1.0
    size: tuple[int, int] = (WIDTH, HEIGHT)
    codec: str = "libx264"
    key_every: int = RATE

    @property
    def cuts(self) -> list[int]:
        """The first frame of each scene but the first."""
        ends = np.cumsum([scene.frames for scene in self.scenes])
        return [int(end) for end in ends[:-1]]


SCENES = (
    Scene("shapes", 50, 1),
    Scene("still", 40, 2),
    Scene("black", 30),
    Scene("noise", 35, 3),
    Scene("titled", 45, 4),
)
VIDEOS = (
    Video("silent.mp4", SCENES),
    Video("audible.mp4", (Scene("shapes", 60, 5), Scene("titled", 40, 6)), has_sound=True),
    Video("again.mkv", (Scene("shapes", 50, 1), Scene("shapes", 50, 7))),
    Video("uneven.mkv", (Scene("shapes", 40, 8), Scene("still", 40, 9)), is_uneven=True),
    Video("truncated.mp4", SCENES, kept=0.6),
)


def draw_scene(scene: Scene, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Iterator[Pixels]:
    """Yield the scene's frames: height × width × 3 bytes of red, green and blue."""
    width, height = size
    dice = np.random.default_rng(scene.seed)
    if scene.kind == "noise":
        for _ in range(scene.frames):
            yield dice.integers(0, 256, (height, width, 3), np.uint8)
        return
    ground = np.zeros((height, width, 3), np.uint8)
    if scene.kind != "black":
        ground[:] = _draw_ground(dice, width, height)
    if scene.kind == "titled":
        _draw_title(ground, dice)
    colour = dice.integers(0, 256, 3, np.uint8)
    for frame in range(scene.frames):
        pixels = ground.copy()
        if scene.kind in {"shapes", "titled"}:
            left = SPEED * frame % (width - SIDE)
            pixels[height // 3 : height // 3 + SIDE, left : left + SIDE] = colour
        yield pixels


def _draw_ground(dice: np.random.Generator, width: int, height: int) -> Pixels:
    """Draw broad blocks of colors, which differ between scenes as much as colors can differ."""
    blocks = dice.integers(30, 226, (3, 4, 3), np.uint8)
    rows, columns = np.arange(height) * 3 // height, np.arange(width) * 4 // width
    ground: Pixels = blocks[np.ix_(rows, columns)]
    return ground


def _draw_title(ground: Pixels, dice: np.random.Generator) -> None:
    """Draw a line of white strokes on black near the lower edge, like a subtitle."""
    height, width, _ = ground.shape
    strokes = np.repeat(dice.integers(0, 2, (1, width // 2), np.uint8) * 255, 2, axis=1)
    line = np.repeat(strokes, height // 8, axis=0)[:, :, None]
    ground[height * 3 // 4 : height * 3 // 4 + height // 8, : line.shape[1]] = line


def draw_video(video: Video) -> Iterator[Pixels]:
    """Yield the frames of all scenes."""
    for scene in video.scenes:
        yield from draw_scene(scene, video.size)


def list_times(video: Video) -> list[float]:
    """Return when each frame is shown, in seconds."""
    count = sum(scene.frames for scene in video.scenes)
    if not video.is_uneven:
        return [frame / RATE for frame in range(count)]
    steps = [UNEVEN[frame % len(UNEVEN)] for frame in range(count)]
    return [sum(steps[:frame]) / 1000 for frame in range(count)]


def write_video(video: Video, folder: Path) -> Path:
    """Draw, encode, and write a video. Return its path."""
    path = folder / video.name
    moved = {"movflags": "+faststart"} if path.suffix == ".mp4" else {}
    with av.open(str(path), "w", options={"fflags": "+bitexact", **moved}) as file:
        pictures: Any = file.add_stream(video.codec, rate=RATE)
        pictures.width, pictures.height = video.size
        pictures.pix_fmt = "yuv420p"
        pictures.time_base = Fraction(1, 1000)
        pictures.codec_context.time_base = Fraction(1, 1000)
        pictures.codec_context.gop_size = video.key_every
        pictures.codec_context.thread_count = 1
        pictures.options = {"crf": "14", "preset": "veryfast", "sc_threshold": "0"}
        sound: Any = file.add_stream("aac", rate=SOUND, layout="mono") if video.has_sound else None
        times = list_times(video)
        for time, pixels in zip(times, draw_video(video), strict=True):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = round(time * 1000), Fraction(1, 1000)
            file.mux(pictures.encode(frame))
        file.mux(pictures.encode(None))
        if sound is not None:
            for chunk in _make_sound(times[-1] + 1 / RATE):
                file.mux(sound.encode(chunk))
            file.mux(sound.encode(None))
    if video.kept < 1:
        whole = path.read_bytes()
        path.write_bytes(whole[: int(len(whole) * video.kept)])
    return path


def _make_sound(seconds: float) -> Iterator[av.AudioFrame]:
    """Yield a tone of 440 Hz."""
    count = int(seconds * SOUND)
    for begin in range(0, count, 1024):
        at = np.arange(begin, min(begin + 1024, count))
        wave = (np.sin(2 * np.pi * 440 * at / SOUND) * 8000).astype(np.int16)
        chunk = av.AudioFrame.from_ndarray(wave[None], format="s16", layout="mono")
        chunk.sample_rate, chunk.pts, chunk.time_base = SOUND, begin, Fraction(1, SOUND)
        yield chunk


def write_all(folder: Path, minutes: float = 0) -> list[Path]:
    """Write the videos of the example, a file that is not a video, and a long video."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [write_video(video, folder) for video in VIDEOS]
    broken = folder / "broken.mp4"
    broken.write_bytes(np.random.default_rng(0).bytes(5000))
    paths.append(broken)
    rounds = round(minutes * 60 * RATE / sum(scene.frames for scene in SCENES))
    if rounds:
        laps = [
            replace(each, seed=each.seed + 10 * lap) for lap in range(rounds) for each in SCENES
        ]
        paths.append(write_video(Video("long.mp4", tuple(laps)), folder))
    return paths


def main(words: Sequence[str] | None = None) -> None:
    """Parse the command line and write the files."""
    parser = argparse.ArgumentParser(
        description="Draws the videos of pipelines/examples/video.yaml."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=0, help="of a further, long video")
    options = parser.parse_args(words)
    write_all(options.folder, options.minutes)


if __name__ == "__main__":
    main()
