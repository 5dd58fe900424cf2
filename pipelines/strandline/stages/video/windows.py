"""The packets of a video that its next clips may need, and no others.

It is fed in the order of the file, and gives up what lies behind. It knows times and packets, not
why a video is cut where it is.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from strandline.stages.sources.opening import UnreadableFileError
from strandline.stages.video.containers import PacketCopy, pack_pieces

_APART = 10  # seconds that sound may come later than its pictures, as ffmpeg's own writers allow


class PacketWindow:
    """Packets from the key frame that the next clip needs to where the file was read.

    Args:
        templates: the streams of pictures and of sound.
        path: for messages.
        max_bytes: that it may hold.

    Attributes:
        end: where the last picture so far has been shown, in seconds.
        first, read: the first and the last time that any picture told.
        order: before it nothing is shown that is still to come.
    """

    def __init__(self, templates: tuple[Any, Any | None], path: str, max_bytes: int) -> None:
        self.path = path
        self.end = self.first = self.read = self.order = Fraction(0)
        self._templates = templates
        self._max_bytes = max_bytes
        self._pictures: list[PacketCopy] = []
        self._sounds: list[PacketCopy] = []
        self._size = 0
        self._is_begun = False
        self._sound_end = Fraction(0)
        self._frame = 1 / Fraction(templates[0].average_rate or 25)

    def add_picture(self, piece: PacketCopy) -> None:
        """Take a packet of pictures.

        Raises:
            UnreadableFileError: the window has become too large.
        """
        end = piece.time + (piece.duration or self._frame)
        if not self._is_begun:
            self.first = self.end = self.order = piece.time
            self._is_begun = True
        if piece.order is not None:
            self.order = piece.order
        self.end = max(self.end, end)
        self.read = max(self.read, end)
        self._pictures.append(piece)
        self._hold(piece)

    def add_sound(self, piece: PacketCopy) -> None:
        """Take a packet of sound.

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
        """Return whether no packet that is shown before `end` is still to come."""
        if self.order < end:
            return False
        is_late = self.order >= end + _APART
        return self._templates[1] is None or self._sound_end >= end or is_late

    def cut(self, begin: Fraction, end: Fraction) -> dict[str, Any] | None:
        """Return what is shown from `begin` to before `end`, and forget what no later clip needs.

        Returns:
            Columns of a clip: when its first frame is shown, its end, its number of frames, its
            content and the content's lead. None where no frame is shown in it.
        """
        shown = [at for at, piece in enumerate(self._pictures) if begin <= piece.time < end]
        answer = None
        if shown:
            first, last = min(self._find_key(begin), shown[0]), shown[-1]
            pieces = self._pictures[first : last + 1]
            sounds = [piece for piece in self._sounds if begin <= piece.time < end]
            origin = min(piece.time for piece in (*pieces, *sounds))
            start = min(self._pictures[at].time for at in shown)
            answer = {
                "start": float(start),
                "end": float(end),
                "frame_count": len(shown),
                "lead": float(start - origin),
                "content": pack_pieces(pieces, sounds, self._templates, origin),
            }
        self._forget(end)
        return answer

    def _find_key(self, begin: Fraction) -> int:
        """Return where the key frame stands that a picture shown at `begin` needs."""
        keys = [at for at, each in enumerate(self._pictures) if each.is_key and each.time <= begin]
        return keys[-1] if keys else 0

    def _forget(self, end: Fraction) -> None:
        self._pictures = self._pictures[self._find_key(end) :]
        self._sounds = [piece for piece in self._sounds if piece.time >= end]
        self._size = sum(len(piece.data) for piece in (*self._pictures, *self._sounds))
