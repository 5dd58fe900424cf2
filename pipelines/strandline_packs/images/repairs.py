"""Repairs of image files that Pillow rejects although all pixels, or all but the last rows, exist.

Bytes in, bytes out. The module must not know how pictures are used.
"""

from __future__ import annotations

import io
from typing import Any

from strandline_packs.images.pictures import load_pillow

_PNG = b"\x89PNG\r\n\x1a\n"
# Chunks with texts and profiles, which contain no pixels. Pillow accepts up to a megabyte of them.
_NOTES = (b"tEXt", b"zTXt", b"iTXt", b"iCCP")
_CHUNK_FRAME = 12  # bytes of a chunk's length, name and checksum
_JPEG, _JPEG_END, _SCAN = b"\xff\xd8\xff", b"\xff\xd9", b"\xff\xda"
# Arbitrary bits without the byte 0xFF, which would begin a marker.
_FILL = b"\x55\xa9\x33\xc6" * 1024
_MOST_ROWS = 32  # rows of a JPEG that may be missing: one or two rows of blocks
_MOST_SHARE = 8  # the missing part is at most an eighth
_LAST_FREQUENCY = 63  # index of the last of 64 coefficients of a block


def repair_file(content: bytes) -> bytes | None:
    """Return a file that can be decoded, or None if the damage is too large."""
    if content.startswith(_PNG):
        return _drop_notes(content)
    if content.startswith(_JPEG) and content[-2:] != _JPEG_END:
        return _append_end(content)
    return None


def _drop_notes(content: bytes) -> bytes | None:
    """Return a PNG without texts and profile, or None if it has none."""
    pieces, at = [content[: len(_PNG)]], len(_PNG)
    while at < len(content):
        size = int.from_bytes(content[at : at + 4]) + _CHUNK_FRAME
        if content[at + 4 : at + 8] not in _NOTES:
            pieces.append(content[at : at + size])
        at += size
    shorter = b"".join(pieces)
    return shorter if len(shorter) < len(content) else None


def _append_end(content: bytes) -> bytes | None:
    """Return a JPEG with an end marker, or None if more than the last rows is missing.

    The decoder fills missing rows silently. To locate them, decode the file twice with different
    bits appended: pixels that differ between both pictures are missing.
    """
    content = content.rstrip(b"\xff\0")  # half of a mark, or a hole
    with_end = content + _JPEG_END
    image, other = _decode(with_end), _decode(content + _FILL + _JPEG_END)
    # A progressive file that ends in an earlier scan has all rows, but lacks detail.
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
    # Scan header: length (2 bytes), count, 2 bytes per component, first and last frequency, bits.
    head = content[content.rfind(_SCAN) + len(_SCAN) :]
    components = head[2] if len(head) > 2 else 0  # noqa: PLR2004 - the count follows the length
    end = head[3 + 2 * components : 6 + 2 * components]
    return components == 1 and len(end) == 3 and end[1] == _LAST_FREQUENCY and not end[2] & 0xF  # noqa: PLR2004 - three bytes
