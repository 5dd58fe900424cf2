"""Turns pictures upright: cameras store them rotated, with a matrix for the rotation.

Quarter turns and mirrored pictures are supported; other matrices are effects of a player and are
ignored. The module must not depend on clips.
"""

from __future__ import annotations

import struct
from enum import Enum
from importlib import import_module
from typing import Any

_MATRIX = struct.Struct("=9i")
_CLEARLY = 8  # minimum ratio between both coordinates of a step along an axis


class Orientation(Enum):
    """How to turn pictures upright: ffmpeg filters, and whether width and height are swapped."""

    UPRIGHT = ((), False)
    HALF = (("hflip", "vflip"), False)
    MIRRORED = (("hflip",), False)
    UPSIDE_DOWN = (("vflip",), False)
    CLOCKWISE = (("transpose=clock",), True)
    COUNTERCLOCKWISE = (("transpose=cclock",), True)
    TRANSPOSED = (("transpose=cclock_flip",), True)
    TRANSVERSE = (("transpose=clock_flip",), True)

    @property
    def filters(self) -> tuple[str, ...]:
        """Filters of ffmpeg, in the order of application."""
        names: tuple[str, ...] = self.value[0]
        return names

    def turn_size(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height of the upright picture."""
        return (height, width) if self.value[1] else (width, height)


# Keys: the directions (x, y) to which the matrix maps a step to the right and a step down.
_BY_SIGNS = {
    ((1, 0), (0, 1)): Orientation.UPRIGHT,
    ((-1, 0), (0, -1)): Orientation.HALF,
    ((-1, 0), (0, 1)): Orientation.MIRRORED,
    ((1, 0), (0, -1)): Orientation.UPSIDE_DOWN,
    ((0, 1), (-1, 0)): Orientation.CLOCKWISE,
    ((0, -1), (1, 0)): Orientation.COUNTERCLOCKWISE,
    ((0, 1), (1, 0)): Orientation.TRANSPOSED,
    ((0, -1), (-1, 0)): Orientation.TRANSVERSE,
}


def read_orientation(frame: Any) -> Orientation:
    """Return how a decoded frame is turned."""
    for each in frame.side_data:
        if each.type.name == "DISPLAYMATRIX" and len(bytes(each)) == _MATRIX.size:
            right_x, right_y, _, down_x, down_y, *_ = _MATRIX.unpack(bytes(each))
            signs = (_find_direction(right_x, right_y), _find_direction(down_x, down_y))
            return _BY_SIGNS.get(signs, Orientation.UPRIGHT)
    return Orientation.UPRIGHT


def _find_direction(x: int, y: int) -> tuple[int, int]:
    """Return the axis of a step, or (0, 0) if the step is between two axes."""
    if abs(x) > _CLEARLY * abs(y):
        return (1 if x > 0 else -1, 0)
    if abs(y) > _CLEARLY * abs(x):
        return (0, 1 if y > 0 else -1)
    return (0, 0)


class FrameTurner:
    """Turns frames upright. Use one object for all frames of a video."""

    def __init__(self) -> None:
        self._kind: tuple[Any, ...] = ()
        self._graph: Any = None

    def turn(self, frame: Any) -> Any:
        """Return the upright frame with its time."""
        orientation = read_orientation(frame)
        if orientation is Orientation.UPRIGHT:
            return frame
        kind = (orientation, frame.width, frame.height, frame.format.name)
        # Pictures of another size may follow.
        if kind != self._kind:
            self._kind, self._graph = kind, _build(frame, orientation)
        time = frame.pts
        self._graph.vpush(frame)
        turned = self._graph.vpull()
        turned.pts, turned.time_base = time, frame.time_base
        return turned


def _build(frame: Any, orientation: Orientation) -> Any:
    graph = import_module("av.filter").Graph()
    last = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format.name, time_base=frame.time_base
    )
    for step in orientation.filters:
        name, _, options = step.partition("=")
        following = graph.add(name, options) if options else graph.add(name)
        last.link_to(following)
        last = following
    last.link_to(graph.add("buffersink"))
    graph.configure()
    return graph
