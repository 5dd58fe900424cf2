"""Files of pictures that Pillow refuses, though every pixel is there, or all but the last rows.

Bytes in, bytes out: it must not know what becomes of a picture.
"""

from __future__ import annotations

import io
from typing import Any

from strandline_packs.images.pictures import load_pillow

_PNG = b"\x89PNG\r\n\x1a\n"
# Texts and profiles, of which Pillow takes a megabyte; no pixel is in them.
_NOTES = (b"tEXt", b"zTXt", b"iTXt", b"iCCP")
_CHUNK_FRAME = 12  # bytes of a chunk's length, name and checksum
_JPEG, _JPEG_END, _SCAN = b"\xff\xd8\xff", b"\xff\xd9", b"\xff\xda"
_FILL = b"\x55\xa9\x33\xc6" * 1024
_MOST_ROWS = 32  # most rows of a JPEG that may be missing: one or two rows of its blocks
_MOST_SHARE = 8  # the missing part is no more than an eighth
_LAST_FREQUENCY = 63


def repair_file(content: bytes) -> bytes | None:
    """Return a file that can be decoded in place of one that can't; None where it is too broken."""
    if content.startswith(_PNG):
        return _drop_notes(content)
    if content.startswith(_JPEG) and content[-2:] != _JPEG_END:
        return _append_end(content)
    return None


def _drop_notes(content: bytes) -> bytes | None:
    """Return a PNG without its texts and its profile; None where it has none."""
    pieces, at = [content[: len(_PNG)]], len(_PNG)
    while at < len(content):
        size = int.from_bytes(content[at : at + 4]) + _CHUNK_FRAME
        if content[at + 4 : at + 8] not in _NOTES:
            pieces.append(content[at : at + size])
        at += size
    shorter = b"".join(pieces)
    return shorter if len(shorter) < len(content) else None


def _append_end(content: bytes) -> bytes | None:
    """Return a JPEG with an end; None where more is missing than its last rows.

    The decoder fills what is missing without saying where. So other bits are appended once: where
    the two pictures differ, pixels are missing.
    """
    content = content.rstrip(b"\xff\0")  # half of a mark, or a hole
    with_end = content + _JPEG_END
    image, other = _decode(with_end), _decode(content + _FILL + _JPEG_END)
    if image.info.get("progressive") and not _is_last_scan(content):
        return None
    differing = load_pillow("ImageChops").difference(image.convert("RGB"), other.convert("RGB"))
    box = differing.getbbox()
    missing = image.height - box[1] if box else 0
    is_whole = missing <= min(_MOST_ROWS, image.height // _MOST_SHARE)
    return with_end if is_whole else None


def _decode(content: bytes) -> Any:  # noqa: ANN401 - Pillow's image
    image = load_pillow("Image").open(io.BytesIO(content))
    image.load()
    return image


def _is_last_scan(content: bytes) -> bool:
    """Return whether the last scan that began is the one that completes brightness."""
    head = content[content.rfind(_SCAN) + len(_SCAN) :]
    components = head[2] if len(head) > 2 else 0  # noqa: PLR2004 - after its length
    end = head[3 + 2 * components : 6 + 2 * components]
    return components == 1 and len(end) == 3 and end[1] == _LAST_FREQUENCY and not end[2] & 0xF  # noqa: PLR2004 - of three bytes
