"""Holds the packets of a video that its next clips may need.

Packets are added in file order and dropped as soon as no clip needs them. The module must not
depend on the rules for cuts.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from strandline.data.files.opening import UnreadableFileError
from strandline_packs.video.files.containers import PacketCopy, Track, pack_pieces

# maximum seconds by which audio may follow the pictures in the file, as ffmpeg's writers allow
_APART = 10


class PacketWindow:
    """Packets from the key frame of the next clip to the read position.

    Args:
        tracks: the video and the audio track.
        rate: pictures per second, for packets without a duration.
        path: path for messages.
        max_bytes: size limit of the window.

    Attributes:
        end: end of the last displayed picture so far, in seconds.
        first, read: earliest and latest display time so far.
        order: all later packets are displayed at or after this time.
        zero: origin of the clips' times; set by the cutter.
    """

    def __init__(
        self,
        tracks: tuple[Track, Track | None],
        rate: Fraction,
        path: str,
        max_bytes: int,
    ) -> None:
        self.path = path
        self.end = self.first = self.read = self.order = self.zero = Fraction(0)
        self._tracks = tracks
        self._max_bytes = max_bytes
        self._pictures: list[PacketCopy] = []
        self._sounds: list[PacketCopy] = []
        self._size = 0
        self._is_begun = False
        self._sound_end = Fraction(0)
        self._frame = 1 / rate

    def add_picture(self, piece: PacketCopy) -> None:
        """Add a video packet.

        Raises:
            UnreadableFileError: the window has become too large.
        """
        self._pictures.append(piece)
        self._hold(piece)
        if piece.is_hidden:  # the time of a hidden picture belongs to another picture
            return
        end = piece.time + (piece.duration or self._frame)
        if not self._is_begun:
            self.first = self.end = self.order = piece.time
            self._is_begun = True
        if piece.order is not None:
            self.order = piece.order
        self.end = max(self.end, end)
        self.read = max(self.read, end)

    def add_sound(self, piece: PacketCopy) -> None:
        """Add an audio packet.

        Raises:
            UnreadableFileError: the window has become too large.
        """
        self._sound_end = max(self._sound_end, piece.time)
        self._sounds.append(piece)
        self._hold(piece)

    def _hold(self, piece: PacketCopy) -> None:
        self._size += len(piece.data)
        if self._size > self._max_bytes:
            msg = (
                f"{self.path}: a clip needs more than {self._max_bytes:,} bytes at "
                f"{float(piece.time):.1f} s, from the key frame before it; raise maxClipBytes, or "
                "encode the video with more key frames"
            )
            raise UnreadableFileError(msg)

    def has_all(self, end: Fraction) -> bool:
        """Return whether all packets that are displayed before `end` have been read."""
        if self.order < end:
            return False
        is_late = self.order >= end + _APART
        return self._tracks[1] is None or self._sound_end >= end or is_late

    def cut(self, begin: Fraction, end: Fraction) -> dict[str, Any] | None:
        """Return the clip from `begin` to before `end`, and drop packets that no later clip needs.

        Returns:
            Columns of a clip: display time of its first frame, its end, its number of frames, its
                content, and the content's lead. None if no frame is displayed in this range.
        """
        shown = [
            at
            for at, piece in enumerate(self._pictures)
            if begin <= piece.time < end and not piece.is_hidden
        ]
        answer = None
        if shown:
            start = min(self._pictures[at].time for at in shown)
            first, last = self._find_key(shown[0], begin), shown[-1]
            pieces = _hide(self._pictures[first : last + 1], start - self._frame)
            sounds = [piece for piece in self._sounds if begin <= piece.time < end]
            origin = min(piece.time for piece in (*pieces, *sounds))
            answer = {
                "start": float(start - self.zero),
                "end": float(end - self.zero),
                "frame_count": len(shown),
                "lead": float(start - origin),
                "content": pack_pieces(pieces, sounds, self._tracks, origin),
            }
        self._forget(end)
        return answer

    def _find_key(self, at: int, begin: Fraction) -> int:
        """Return the index of the key frame needed by the picture at `at`, displayed at `begin`."""
        keys = [
            each
            for each, piece in enumerate(self._pictures[: at + 1])
            if piece.is_key and piece.time <= begin
        ]
        return keys[-1] if keys else 0

    def _forget(self, end: Fraction) -> None:
        later = (
            at
            for at, piece in enumerate(self._pictures)
            if piece.time >= end and not piece.is_hidden
        )
        at = next(later, len(self._pictures) - 1)
        self._pictures = self._pictures[self._find_key(at, end) :]
        self._sounds = [piece for piece in self._sounds if piece.time >= end]
        self._size = sum(len(piece.data) for piece in (*self._pictures, *self._sounds))


def _hide(pieces: list[PacketCopy], before: Fraction) -> list[PacketCopy]:
    """Move the times of hidden pictures before the start of the clip.

    The container cannot mark hidden pictures, but players skip pictures before the start.
    """
    return [
        replace(piece, time=min(piece.time, before)) if piece.is_hidden else piece
        for piece in pieces
    ]
