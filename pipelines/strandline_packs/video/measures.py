"""Measures a clip's frames.

This module takes arrays of pixels, returns numbers, and does no I/O. numpy is imported with the
first frames. Levels range from 0 to 1; gray follows ITU-R BT.601.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from strandline_packs.images.pictures import Picture

BANDS = 16  # words per hash; a word is four bits, written as a hex digit

_WHITE = 255
_BLACK_LEVEL, _BLACK_PIXELS = 0.1, 0.98  # the defaults of ffmpeg's blackdetect
_FROZEN_STEP = 0.0005  # equal pictures differ by less after encoding
_CELL = 8  # side of a cell, in pixels
_MOVED = 0.04  # minimum mean change of a moving cell
_STROKE = 0.25  # minimum change of level at the edge of a letter
_STAYS = 0.8  # minimum share of frames in which an edge of a letter stays
_DENSE = 0.15  # minimal share of edge pixels in a cell with text
_SIDE = 8
_FLAT = 2  # in levels of 255; encoders change flat areas by less


class Look(NamedTuple):
    """Measures that `measure-video` adds to a clip."""

    brightness: float
    sharpness: float
    black_share: float
    frozen_share: float
    text_share: float


class Motion(NamedTuple):
    """Measures that `measure-motion` adds to a clip."""

    motion: float
    moving_share: float


def to_grey(pictures: Sequence[Picture]) -> Any:
    """Return an array (frames × height × width) of gray levels from 0 to 255.

    All pictures must have the same size.
    """
    np = import_module("numpy")
    size = (pictures[0]["height"], pictures[0]["width"], 3)
    weights = np.array([0.299, 0.587, 0.114], "float32")
    return np.stack(
        [np.frombuffer(each["rgb"], "uint8").reshape(size) @ weights for each in pictures]
    )


def measure_look(grey: Any) -> Look:
    """Measure the appearance of frames with gray levels.

    Returns:
        brightness: the mean level.
        sharpness: the mean variance of the Laplacian, of levels from 0 to 255: near 0 for a blurred
            picture, hundreds for crisp edges.
        black_share: the share of frames in which 98 of 100 pixels are black.
        frozen_share: the share of equal successive frames.
        text_share: the share of cells of 8 × 8 pixels with many vertical edges at fixed positions:
            letters, but also detailed still pictures.
    """
    black = (grey < _BLACK_LEVEL * _WHITE).mean((1, 2)) >= _BLACK_PIXELS
    steps = _average_steps(_list_changes(grey))
    frozen = (steps < _FROZEN_STEP).mean() if len(steps) else 0.0
    return Look(
        *(
            round(float(value), 6)
            for value in (
                grey.mean() / _WHITE,
                _measure_sharpness(grey),
                black.mean(),
                frozen,
                _measure_text(grey),
            )
        )
    )


def measure_motion(grey: Any) -> Motion:
    """Measure steps from frame to frame: the mean change, and the share of cells that change."""
    if len(grey) < 2:  # noqa: PLR2004 - one frame has no motion
        return Motion(0.0, 0.0)
    changes = _list_changes(grey)
    moved = _average_cells(changes / _WHITE) > _MOVED
    return Motion(round(float(_average_steps(changes).mean()), 6), round(float(moved.mean()), 6))


def hash_frames(grey: Any, frames: int) -> str:
    """Return words that describe a clip's appearance for MinHash, sixteen per sampled frame.

    A word encodes the frame's index, the position of four adjacent pixel steps to the right, and
    which of the steps become brighter. A re-encoded clip shares most words with the original; two
    different clips share about one in sixteen.
    """
    count = len(grey)
    # Take the middle frames of `frames` equal parts of the clip.
    chosen = [grey[(2 * at + 1) * count // (2 * frames)] for at in range(frames)]
    return " ".join(
        f"{at:x}{band:x}{digit}"
        for at, levels in enumerate(chosen)
        for band, digit in enumerate(_hash_levels(levels))
    )


def _hash_levels(levels: Any) -> str:
    """Return a difference hash as sixteen digits. Tiny changes count as flat."""
    np = import_module("numpy")
    # Nine columns give eight steps.
    small = _average(_average(levels, _SIDE, 0), _SIDE + 1, 1)
    bits = (np.diff(small, axis=1) > _FLAT).ravel()
    return f"{int(''.join('01'[int(bit)] for bit in bits), 2):0{BANDS}x}"


def _average(levels: Any, parts: int, axis: int) -> Any:
    """Average an axis over parts that are as equal as the pixels allow."""
    np = import_module("numpy")
    length = levels.shape[axis]
    begins = np.arange(parts) * length // parts
    ends = np.maximum((np.arange(parts) + 1) * length // parts, begins + 1)
    return np.stack(
        [
            levels.take(range(begin, end), axis).mean(axis)
            for begin, end in zip(begins, ends, strict=True)
        ],
        axis,
    )


def _list_changes(grey: Any) -> Any:
    """Return the absolute change of each pixel between successive frames, in levels."""
    np = import_module("numpy")
    return np.abs(np.diff(grey, axis=0))


def _average_steps(changes: Any) -> Any:
    return changes.mean((1, 2)) / _WHITE


def _measure_sharpness(grey: Any) -> float:
    middle = grey[:, 1:-1, 1:-1]
    if not middle.size:  # the picture has no interior
        return 0.0
    around = grey[:, :-2, 1:-1] + grey[:, 2:, 1:-1] + grey[:, 1:-1, :-2] + grey[:, 1:-1, 2:]
    return float((around - 4 * middle).var((1, 2)).mean())


def _measure_text(grey: Any) -> float:
    np = import_module("numpy")
    edges = np.abs(np.diff(grey, axis=2)) > _STROKE * _WHITE
    cells = _average_cells((edges.mean(0) >= _STAYS)[None].astype("float32"))
    return float((cells >= _DENSE).mean()) if cells.size else 0.0


def _average_cells(levels: Any) -> Any:
    """Return the means of cells. Incomplete cells at the right and bottom are ignored."""
    count, height, width = levels.shape
    rows, columns = height // _CELL, width // _CELL
    whole = levels[:, : rows * _CELL, : columns * _CELL]
    return whole.reshape(count, rows, _CELL, columns, _CELL).mean((2, 4))
