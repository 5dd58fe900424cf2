"""When pictures are shown, where a container only tells when they are decoded.

AVI has no field for it; of H.264 and its like ffmpeg then takes the order of decoding for that of
display. A decoder knows better. It knows packets and their times, nothing of clips.
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

_GUESSED = frozenset({"h264", "hevc"})  # ffmpeg finds the order of all other codecs
_MOST = 64  # packets after which one that gave no picture gives none

Pair = tuple[Any, PacketCopy]


def needs_order(container: Any, stream: Any) -> bool:
    """Return whether what a container tells of pictures' times is only when they are decoded."""
    context = stream.codec_context
    is_guessed: bool = context.name in _GUESSED and context.has_b_frames
    return container.format.name == "avi" and is_guessed


def needs_count(container: Any) -> bool:
    """Return whether a container's length is an estimate, and its number of frames is not."""
    return bool(container.format.name == "avi")


class DisplayOrder:
    """Gives packets the times at which their pictures are shown: those of the file, rearranged."""

    def __init__(self, stream: Any) -> None:
        context = stream.codec_context
        self._decoder = import_module("av").CodecContext.create(context.codec.name, "r")
        self._decoder.extradata = context.extradata
        self._decoder.thread_count = 1
        self._slots: list[Fraction] = []  # times, rising, of which each picture takes one
        self._shown = 0  # how many are taken
        self._held: deque[tuple[int, Pair]] = deque()
        self._times: dict[int, Fraction] = {}  # by what the packet calls its time

    def arrange(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yield packets in their order, each once it is known when it is shown."""
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
            if time is None:  # no picture came of it: it is damaged, and shown never
                yield packet, replace(piece, is_hidden=True)
                continue
            packet.pts = round(time / packet.time_base)  # the time of the pictures that are decoded
            later = [self._times[each] for each, _ in self._held if each in self._times]
            coming = self._slots[min(self._shown, len(self._slots) - 1)]
            yield packet, replace(piece, time=time, order=min(time, coming, *later))
