"""Computes display times of pictures in containers that store only decoding times.

AVI has no field for display times, so ffmpeg uses the decoding order of H.264 and similar codecs
for both. A decoder knows the correct order. The module must not depend on clips.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from typing import Any

from strandline_packs.video.files.clips import decode_packet
from strandline_packs.video.files.containers import PacketCopy

_GUESSED = frozenset({"h264", "hevc"})  # for all other codecs, ffmpeg finds the display order
_MOST = 64  # packets to wait for a packet's picture before giving up

Pair = tuple[Any, PacketCopy]


def needs_order(container: Any, stream: Any) -> bool:
    """Return whether the container's display times are really decoding times."""
    context = stream.codec_context
    is_guessed: bool = context.name in _GUESSED and context.has_b_frames
    return container.format.name == "avi" and is_guessed


def needs_count(container: Any) -> bool:
    """Return whether the container's length is an estimate while its frame count is exact."""
    return bool(container.format.name == "avi")


class DisplayOrder:
    """Assigns display times to packets: the times of the file, rearranged."""

    def __init__(self, stream: Any) -> None:
        context = stream.codec_context
        self._decoder = import_module("av").CodecContext.create(context.codec.name, "r")
        self._decoder.extradata = context.extradata
        self._decoder.thread_count = 1
        self._slots: list[Fraction] = []  # the file's times, ascending; pictures take them in order
        self._shown = 0  # number of assigned times
        self._held: deque[tuple[int, Pair]] = deque()
        self._times: dict[int, Fraction] = {}  # display times by packet timestamp

    def arrange(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yield packets in their original order, as soon as their display times are known."""
        for packet, piece in pairs:
            self._slots.append(piece.time)
            self._held.append((packet.pts, (packet, piece)))
            self._take(decode_packet(packet, self._decoder))
            yield from self._release(_MOST)
        self._take(self._decoder.decode(None))
        yield from self._release(0)

    def _take(self, frames: Iterable[Any]) -> None:
        for frame in frames:
            if frame.pts is not None and self._shown < len(self._slots):
                self._times[frame.pts] = self._slots[self._shown]
                self._shown += 1

    def _release(self, most: int) -> Iterator[Pair]:
        while self._held and (self._held[0][0] in self._times or len(self._held) > most):
            name, (packet, piece) = self._held.popleft()
            time = self._times.pop(name, None)
            if time is None:  # damaged packet: it yields no picture, so hide it
                yield packet, replace(piece, is_hidden=True)
                continue
            packet.pts = round(time / packet.time_base)  # frames take their time from the packet
            later = [self._times[each] for each, _ in self._held if each in self._times]
            coming = self._slots[min(self._shown, len(self._slots) - 1)]
            yield packet, replace(piece, time=time, order=min(time, coming, *later))
