"""Repairs image files that Pillow rejects although all pixels, or nearly all rows, exist.

This module takes bytes, returns bytes, and does no I/O. The module must not depend on how pictures
are used.
"""

from __future__ import annotations

import io
from typing import Any

from strandline_packs.images.pictures import load_pillow

_PNG = b"\x89PNG\r\n\x1a\n"
# Chunks with texts and color profiles, which contain no pixels. Pillow rejects files with more than
# a megabyte of them.
_NOTES = (b"tEXt", b"zTXt", b"iTXt", b"iCCP")
_CHUNK_FRAME = 12  # size of a chunk's length, name, and checksum, in bytes
_JPEG, _JPEG_END, _SCAN = b"\xff\xd8\xff", b"\xff\xd9", b"\xff\xda"
# Arbitrary bits without the byte 0xFF, which would start a JPEG marker.
_FILL = b"\x55\xa9\x33\xc6" * 1024
_MOST_ROWS = 32  # maximum number of missing JPEG rows: one or two rows of blocks
_MOST_SHARE = 8  # at most an eighth of the rows may be missing
_LAST_FREQUENCY = 63  # index of the last of a block's 64 coefficients


def repair_file(content: bytes) -> bytes | None:
    """Return a repaired file that can be decoded, or None if no repair applies."""
    if content.startswith(_PNG):
        return _drop_notes(content)
    if content.startswith(_JPEG) and content[-2:] != _JPEG_END:
        return _append_end(content)
    return None


def _drop_notes(content: bytes) -> bytes | None:
    """Return a PNG without texts and color profile, or None if the file has neither."""
    pieces, at = [content[: len(_PNG)]], len(_PNG)
    while at < len(content):
        size = int.from_bytes(content[at : at + 4]) + _CHUNK_FRAME
        if content[at + 4 : at + 8] not in _NOTES:
            pieces.append(content[at : at + size])
        at += size
    shorter = b"".join(pieces)
    return shorter if len(shorter) < len(content) else None


def _append_end(content: bytes) -> bytes | None:
    """Return a JPEG with an end marker, or None if too many rows are missing.

    The decoder fills missing rows silently. To locate them, decode the file twice with different
    bits appended: pixels that differ between the two pictures are missing.
    """
    content = content.rstrip(b"\xff\0")  # drop half of an end marker, or zero bytes
    with_end = content + _JPEG_END
    image, other = _decode(with_end), _decode(content + _FILL + _JPEG_END)
    # A progressive file that ends before the last scan has all rows, but lacks detail.
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
    """Return whether the file reached the scan that completes the brightness component."""
    # Scan header: length (2 bytes), count, 2 bytes per component, first and last frequency, bits.
    head = content[content.rfind(_SCAN) + len(_SCAN) :]
    components = head[2] if len(head) > 2 else 0  # noqa: PLR2004 - the count follows the length
    end = head[3 + 2 * components : 6 + 2 * components]
    return components == 1 and len(end) == 3 and end[1] == _LAST_FREQUENCY and not end[2] & 0xF  # noqa: PLR2004 - three bytes
