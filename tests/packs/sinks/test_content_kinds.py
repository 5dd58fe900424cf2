"""File extensions by content."""

from __future__ import annotations

import gzip
import io
import wave
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from strandline_packs.sinks.content_kinds import UNKNOWN, find_extension


def encode(kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (16, 16), "red").save(file, kind, **options)
    return file.getvalue()


def brand(major: bytes, *others: bytes) -> bytes:
    body = b"ftyp" + major + bytes(4) + b"".join(others)
    return (len(body) + 4).to_bytes(4) + body + b"\0\0\0\x08mdat"


def write_sound() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(64))
    return file.getvalue()


def write_zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", b"1")
    return file.getvalue()


def write_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


def write_parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"n": [1]}), file)
    return file.getvalue()


def ebml(kind: bytes) -> bytes:
    return b"\x1aE\xdf\xa3\x93\x42\x82" + bytes([0x80 | len(kind)]) + kind + bytes(20)


PICTURES = {
    "PNG": "png",
    "JPEG": "jpg",
    "GIF": "gif",
    "WEBP": "webp",
    "BMP": "bmp",
    "TIFF": "tiff",
    "ICO": "ico",
    "AVIF": "avif",
    "JPEG2000": "jp2",
    "PDF": "pdf",
}
FILES = [
    (brand(b"avif", b"avif", b"mif1"), "avif"),
    (brand(b"avis", b"avis", b"msf1"), "avif"),
    (brand(b"mif1", b"mif1", b"avif"), "avif"),
    (brand(b"heic", b"mif1", b"heic"), "heic"),
    (brand(b"mif1", b"mif1", b"heic"), "heic"),
    (brand(b"msf1", b"hevc"), "heic"),
    (brand(b"mif1", b"mif1"), "heif"),
    (brand(b"qt  ", b"qt  "), "mov"),
    (b"\0\0\0\x08wide\0\0\1\0mdat", "mov"),
    (b"\0\0\1\0moov", "mov"),
    (brand(b"M4A ", b"M4A ", b"mp42", b"isom"), "m4a"),
    (brand(b"M4B ", b"mp42"), "m4a"),
    (brand(b"isom", b"isom", b"avc1", b"mp41"), "mp4"),
    (brand(b"mp42", b"mp42"), "mp4"),
    (brand(b"3gp5", b"3gp5"), "3gp"),
    (ebml(b"webm"), "webm"),
    (ebml(b"matroska"), "mkv"),
    (write_sound(), "wav"),
    (b"RIFF\0\0\0\0AVI LIST", "avi"),
    (b"FORM\0\0\0\0AIFFCOMM", "aiff"),
    (b"fLaC\0\0\0\x22", "flac"),
    (b"OggS\0\2", "ogg"),
    (b"ID3\4\0", "mp3"),
    (b"\xff\xfb\x90\x64" + bytes(400), "mp3"),
    (b"\xff\xf1\x50\x80" + bytes(400), "aac"),
    (b"\xff\x0a\xfa\x7f", "jxl"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "jxl"),
    ((b"G\x40\0\x10" + bytes(184)) * 3, "ts"),
    (b"FLV\1\5", "flv"),
    (b"<svg xmlns='x'/>", "svg"),
    (b'<?xml version="1.0"?>\n<!-- x -->\n<svg/>', "svg"),
    (gzip.compress(b"x"), "gz"),
    (write_zip(), "zip"),
    (write_array(), "npy"),
    (write_parquet(), "parquet"),
    (b"", UNKNOWN),
    (b"plain text, nothing else", UNKNOWN),
    (b"BMW is no picture", UNKNOWN),
    (b"GGG" * 40, UNKNOWN),
    (b"\xff\xfe\0\0", UNKNOWN),
    (b"<html><svg></svg></html>", UNKNOWN),
]


@pytest.mark.parametrize("kind", PICTURES)
def test_images_are_named_by_their_format(kind: str) -> None:
    assert find_extension(encode(kind)) == PICTURES[kind]


@pytest.mark.parametrize(("content", "expected"), FILES, ids=range(len(FILES)))
def test_files_are_named_by_their_first_bytes(content: bytes, expected: str) -> None:
    assert find_extension(content) == expected


@given(content=st.binary(max_size=600))
def test_every_content_has_a_name_that_begins_no_other_extension(content: bytes) -> None:
    assert find_extension(content).isalnum()
    assert find_extension(content) != "json"  # the other file of a sample
