"""Determines the file extension of content from its first bytes.

Unknown content gets the extension `bin`. The module must not depend on the destination of files.
"""

from __future__ import annotations

import re

UNKNOWN = "bin"

_MARKS = (
    (0, b"\xff\xd8\xff", "jpg"),
    (0, b"\x89PNG", "png"),
    (0, b"GIF87a", "gif"),
    (0, b"GIF89a", "gif"),
    (0, b"II*\0", "tiff"),
    (0, b"MM\0*", "tiff"),
    (0, b"II+\0", "tiff"),
    (0, b"MM\0+", "tiff"),
    (0, b"\0\0\0\x0cjP  \r\n\x87\n", "jp2"),
    (0, b"\xff\x4f\xff\x51", "j2k"),
    (0, b"\0\0\0\x0cJXL \r\n\x87\n", "jxl"),
    (0, b"\xff\x0a", "jxl"),
    (0, b"8BPS", "psd"),
    (0, b"\0\0\x01\0", "ico"),
    (0, b"v/1\x01", "exr"),
    (0, b"qoif", "qoi"),
    (0, b"DDS ", "dds"),
    (0, b"fLaC", "flac"),
    (0, b"OggS", "ogg"),
    (0, b"ID3", "mp3"),
    (0, b"MThd", "mid"),
    (0, b"#!AMR", "amr"),
    (0, b"caff", "caf"),
    (0, b".snd", "au"),
    (0, b"wvpk", "wv"),
    (0, b"FLV\x01", "flv"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "wmv"),
    (0, b"\0\0\x01\xba", "mpg"),
    (0, b"\0\0\x01\xb3", "mpg"),
    (0, b"%PDF-", "pdf"),
    (0, b"\x93NUMPY", "npy"),
    (0, b"PK\x03\x04", "zip"),
    (0, b"\x1f\x8b\x08", "gz"),
    (0, b"\x28\xb5\x2f\xfd", "zst"),
    (0, b"PAR1", "parquet"),
    (0, b"\x89HDF\r\n\x1a\n", "h5"),
)
_RIFF = {b"WEBP": "webp", b"WAVE": "wav", b"AVI ": "avi"}
_AIFF = {b"AIFF": "aiff", b"AIFC": "aiff"}
_BOXES = (b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot")  # QuickTime before `ftyp`
# Brands of the ISO base media file format. The first known brand in a file decides.
_BRANDS = {
    b"avif": "avif",
    b"avis": "avif",
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm"), "heic"),
    b"qt  ": "mov",
    **dict.fromkeys((b"M4A ", b"M4B ", b"M4P "), "m4a"),
    **dict.fromkeys((b"3gp4", b"3gp5", b"3gp6", b"3gp7", b"3gr6", b"3gs7"), "3gp"),
    **dict.fromkeys((b"3g2a", b"3g2b", b"3g2c"), "3g2"),
    b"crx ": "cr3",
}
_IMAGES = (b"mif1", b"msf1", b"miaf")  # generic picture brands; the other brands name the format
_PACKET = 188  # bytes of MPEG's transport stream
_EBML_HEAD = 4096
_SVG = re.compile(
    rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*(<!DOCTYPE svg[^>]*>\s*)?<svg\b", re.DOTALL
)


def find_extension(data: bytes) -> str:
    """Return the extension for a file with this content, in lower case and without a dot."""
    if kind := _find_box(data):  # first, because the size of a box may look like a signature
        return kind
    for at, mark, kind in _MARKS:
        if data.startswith(mark, at):
            return kind
    for find in (_find_riff, _find_matroska, _find_stream, _find_picture):
        if kind := find(data):
            return kind
    return UNKNOWN


def _find_riff(data: bytes) -> str:
    if data.startswith((b"RIFF", b"RF64", b"RIFX")):
        return _RIFF.get(data[8:12], "")
    return _AIFF.get(data[8:12], "") if data.startswith(b"FORM") else ""


def _find_box(data: bytes) -> str:
    if data[4:8] in _BOXES:
        return "mov"
    if data[4:8] != b"ftyp":
        return ""
    size = int.from_bytes(data[:4])
    # Bytes 12 to 15 are a version; compatible brands follow. The bound protects from a false size.
    brands = [data[8:12], *(data[at : at + 4] for at in range(16, min(size, 512), 4))]
    if brands[0] in _BRANDS:
        return _BRANDS[brands[0]]
    if brands[0] in _IMAGES:  # other pictures in this container are HEIF
        return next((_BRANDS[each] for each in brands if each in _BRANDS), "heif")
    return "mp4"


def _find_matroska(data: bytes) -> str:
    if not data.startswith(b"\x1aE\xdf\xa3"):
        return ""
    at = data.find(b"\x42\x82", 0, _EBML_HEAD)  # the element that names the type of document
    # After the ID (2 bytes) and the size (1 byte) comes `webm` or `matroska`.
    return "webm" if at >= 0 and data[at + 3 : at + 7] == b"webm" else "mkv"


def _find_stream(data: bytes) -> str:
    """Return the extension of media that start with a packet or frame, not with a signature."""
    # Every packet of a transport stream begins with `G`.
    if data[:1] == data[_PACKET : _PACKET + 1] == data[2 * _PACKET : 2 * _PACKET + 1] == b"G":
        return "ts"
    # A frame of MPEG audio begins with 11 set bits.
    if len(data) < 4 or data[0] != 0xFF or data[1] & 0xE0 != 0xE0:  # noqa: PLR2004 - a frame's head
        return ""
    layer, rate, frequency = data[1] >> 1 & 3, data[2] >> 4, data[2] >> 2 & 3
    if not layer:
        # ADTS (AAC) has 12 set bits and layer 0, which MPEG audio does not use.
        return "aac" if data[1] & 0xF0 == 0xF0 else ""  # noqa: PLR2004 - ADTS
    # Layer value 1 means Layer III. Rate 15, frequency 3, and version 1 are invalid.
    is_sound = layer == 1 and 0 < rate < 15 and frequency < 3  # noqa: PLR2004 - values of MPEG's
    return "mp3" if is_sound and data[1] >> 3 & 3 != 1 else ""


def _find_picture(data: bytes) -> str:
    # Two letters are weak evidence, so check reserved zeros and the size of the header too.
    if data.startswith(b"BM") and data[6:10] == bytes(4) and data[14:18] in _BITMAP_HEADS:
        return "bmp"
    return "svg" if _SVG.match(data[:_EBML_HEAD]) else ""


_BITMAP_HEADS = {size.to_bytes(4, "little") for size in (12, 40, 52, 56, 64, 108, 124)}
