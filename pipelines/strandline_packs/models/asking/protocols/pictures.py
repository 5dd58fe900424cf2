"""Encodes pictures for requests: detects their format, and converts them to base64.

This module does no I/O.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

from strandline_packs.models.asking.answers import PromptError

# First bytes of picture formats, with their media types.
_SIGNATURES = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
)
_WEBP = (b"RIFF", b"WEBP")


class EncodedPicture(NamedTuple):
    """A picture in a request: media type, and content in base64."""

    kind: str
    data: str


def encode_picture(picture: bytes) -> EncodedPicture:
    """Return a picture in the form used in requests.

    Raises:
        PromptError: servers do not support the format of the picture.
    """
    kind = next((kind for start, kind in _SIGNATURES if picture.startswith(start)), None)
    # WebP is a RIFF container; bytes 4 to 7 contain the size.
    if picture.startswith(_WEBP[0]) and picture[8:12] == _WEBP[1]:
        kind = "image/webp"
    if kind is None:
        raise PromptError("a picture is neither PNG, JPEG, GIF, BMP nor WebP")
    return EncodedPicture(kind, base64.b64encode(picture).decode())


def list_pictures(value: object) -> list[bytes]:
    """Return the pictures in a column's value: bytes, a struct with a field `bytes`, or a list.

    Raises:
        PromptError: the value has another type.
    """
    if value is None:
        return []
    if isinstance(value, list):
        return [picture for each in value for picture in list_pictures(each)]
    if isinstance(value, dict):
        return list_pictures(value.get("bytes"))
    if not isinstance(value, bytes):
        msg = f"a picture must be bytes, and it is {type(value).__name__}"
        raise PromptError(msg)
    return [value]
