"""Shards, pictures, and videos as written by cameras, phones, and other programs."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image

from material import Case, Json, Sight, complete, fails, put
from odd_videos import FRAMES, edit, turn, write_album, write_odd_video


def _draw(kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 10, 10)).save(file, kind)
    return file.getvalue()


def _pack(members: Sequence[tuple[str, bytes]]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return file.getvalue()


SAMPLES = [
    (f"{number}.{kind}", content)
    for number in range(10)
    for kind, content in (("txt", b"text %d" % number), ("json", b'{"a": 1}'))
]


def _flip(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _shard(words: str, content: bytes, expected: Sight) -> Case:
    source: Json = {"use": "files", "with": {"paths": ["FOLDER/*"]}}
    stages: list[Json] = [{"use": "read-webdataset"}]
    return Case("shards", words, put("a.tar", content), source, stages, expected)


def _picture(words: str, content: bytes, expected: Sight) -> Case:
    source: Json = {"use": "files", "with": {"paths": ["FOLDER/*"]}}
    stages: list[Json] = [{"use": "read-files"}, {"use": "decode-images"}]
    return Case("pictures", words, put("a", content), source, stages, expected)


def _video(words: str, write: Callable[[Path], object], expected: Sight) -> Case:
    source: Json = {"use": "files", "with": {"paths": ["FOLDER/*"]}}
    cut: Json = {"use": "split-video", "with": {"by": "length", "maxSeconds": 0.8, "minSeconds": 0}}
    stages = [cut, {"use": "decode-frames"}, {"use": "transcode-clip"}]
    return Case("videos", words, write, source, stages, expected)


TAR = _pack(SAMPLES)
CASES = [
    _shard("ten samples", TAR, complete(10)),
    _shard("a bit of a head has flipped", _flip(TAR, 1024 + 3), fails("a.tar")),
    _shard("cut in the middle", TAR[: len(TAR) // 2], fails("a.tar")),
    _shard(
        "twins of a Mac",
        _pack([each for name, body in SAMPLES for each in ((f"._{name}", b"x"), (name, body))]),
        Sight("COMPLETE", 10, {"dropped: attributes of macOS": 20}),
    ),
    _picture("a picture", _draw(), complete(1)),
    _picture("WebP", _draw("WEBP"), complete(1)),
    _picture("a JPEG without its last bytes", _draw("JPEG")[:-2], complete(1, repaired=1)),
    _picture(
        "a page instead of a picture",
        b"<html>404</html>",
        Sight("COMPLETE", 0, {"dropped: not an image": 1}),
    ),
    _video(
        "a phone held upright",
        lambda folder: turn(write_odd_video(folder / "a.mp4", lies="clockwise"), "clockwise"),
        complete(3),
    ),
    _video(
        "a camera's PCM, big-endian",
        lambda folder: write_odd_video(folder / "a.mov", sound="pcm_s16be"),
        complete(3),
    ),
    _video(
        "sound longer than the pictures",
        lambda folder: write_odd_video(folder / "a.mkv", sound="aac", sound_frames=3 * FRAMES),
        complete(3),
    ),
    _video(
        "an edit list",
        lambda folder: edit(write_odd_video(folder / "a.mp4"), (1.2, 0.4)),
        complete(2),
    ),
    _video(
        "a cover before the video",
        lambda folder: write_odd_video(folder / "a.mkv", cover=True),
        complete(3, **{"left out: a stream of video": 1}),
    ),
    _video("music with a cover", lambda folder: write_album(folder / "a.mp4"), fails("cover")),
]
