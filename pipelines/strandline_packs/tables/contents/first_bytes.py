"""Detects the kind of a file by its first bytes, for messages about files of the wrong kind.

The module must not depend on readers.
"""

from __future__ import annotations

import json
import re

from strandline.data.files.opening import (
    PART_AHEAD,
    READ_ERRORS,
    UnreadableFileError,
    explain_error,
    open_binary,
    open_decompressed,
)
from strandline.data.tables.file_references import FileReference

_MOST_BYTES = 4096
_NAMED_SO = "if that is intended, give the file a name that ends in {}"
_CONVERT_TEXT = "convert it to UTF-8"
_LEAVE_OUT = "convert it, or leave it out of the paths"
# Position of the signature, the signature, the kind of file, and the remedy.
_MARKS = (
    (0, b"\x1f\x8b", "gzip", _NAMED_SO.format(".gz")),
    (0, b"\x28\xb5\x2f\xfd", "zstd", _NAMED_SO.format(".zst")),
    (0, b"BZh", "bzip2", _NAMED_SO.format(".bz2")),
    (0, b"\x04\x22\x4d\x18", "lz4", _NAMED_SO.format(".lz4")),
    (0, b"\xfd7zXZ\0", "xz", "decompress it, or pack it as .gz or .zst"),
    (0, b"PK\x03\x04", "zip", "unpack it"),
    (0, b"7z\xbc\xaf\x27\x1c", "7-Zip", "unpack it"),
    (0, b"\xff\x06\0\0sNaPpY", "Snappy", "decompress it, or pack it as .gz or .zst"),
    (0, b"PAR1", "Parquet", "list it with parquet-row-groups"),
    (0, b"PARE", "Parquet that is encrypted", "decrypt it"),
    (0, b"ARROW1", "an Arrow file", "convert it to Parquet"),
    (0, b"\xff\xff\xff\xff", "an Arrow stream", "convert it to Parquet"),
    (0, b"ORC", "ORC", "convert it to Parquet"),
    (0, b"Obj\x01", "Avro", "convert it to Parquet"),
    (0, b"SQLite format 3", "SQLite", "export its tables"),
    (0, b"\x89HDF", "HDF5", "convert it"),
    (0, b"%PDF", "PDF", "extract its text first"),
    (0, b"\x89PNG", "a PNG picture", "list it with files"),
    (0, b"\xff\xd8\xff", "a JPEG picture", "list it with files"),
    (0, b"WARC/", "WARC", "list it with warc-files"),
    (257, b"ustar", "tar", "read it with read-webdataset"),
    (0, b"version https:", "a pointer of Git LFS", "fetch the file itself (git lfs pull)"),
    (0, b"\xff\xfe", "UTF-16", _CONVERT_TEXT),
    (0, b"\xfe\xff", "UTF-16", _CONVERT_TEXT),
)
_PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2", ".lz4": "lz4"}
_FETCH_AGAIN = "fetch the file again"
_HTML = re.compile(
    rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_LOGIN = re.compile(rb"type=[\"']?password|log ?in|sign ?in", re.IGNORECASE)


def describe_contents(path: str) -> str:
    """Describe the kind of a file and the remedy, as the end of a sentence."""
    try:
        with open_decompressed(path) as file:
            first = file.read(_MOST_BYTES)
    except READ_ERRORS:
        # If a file is not compressed as its name implies, describe its own bytes.
        first = _read_first(path)
    return _describe(first)


def describe_misnamed(path: str) -> str | None:
    """Describe the mistake if a file is not compressed as its name implies, or return None.

    Raises:
        OSError: the file can't be read.
    """
    packing = _PACKED.get(path[path.rfind(".") :].lower())
    if packing is None:
        return None
    first = _read_first(path)
    return None if find_kind(first)[0] == packing else _describe(first)


def explain_misread(file: FileReference, error: BaseException) -> UnreadableFileError:
    """Describe a read error. Name the file's real kind if the file name is misleading."""
    explained = explain_error(file.key, error)
    try:
        misnamed = describe_misnamed(file.path)
    except OSError:  # the error already states that the file is missing or unreadable
        return explained
    return UnreadableFileError(f"{explained}; {misnamed}") if misnamed else explained


def _read_first(path: str) -> bytes:
    with open_binary(path, ahead=PART_AHEAD) as file:
        return file.read(_MOST_BYTES)


def _describe(first: bytes) -> str:
    kind, advice = find_kind(first)
    return f"its first bytes are those of {kind}: {advice}"


def find_kind(first: bytes) -> tuple[str, str]:
    """Return the kind of a file that starts with these bytes, and the remedy."""
    for at, mark, kind, advice in _MARKS:
        if first.startswith(mark, at):
            return kind, advice
    if not first:
        return "nothing", f"the file is empty; {_FETCH_AGAIN}"
    if not first.strip(b"\0"):
        return "a hole (zeros)", _FETCH_AGAIN
    return _find_text(first)


def _find_text(first: bytes) -> tuple[str, str]:
    text = first.removeprefix(b"\xef\xbb\xbf").lstrip()
    if b"\0" in first and (not any(first[:64:2]) or not any(first[1:64:2])):
        return "UTF-16", _CONVERT_TEXT  # every second byte of ASCII text is zero in UTF-16
    if not _is_text(first):
        return "an unknown kind", _LEAVE_OUT
    found = _find_markup(text) or _find_json(text)
    return found or (f"text, {_quote(text)}", _LEAVE_OUT)


def _find_markup(text: bytes) -> tuple[str, str] | None:
    if _HTML.match(text):
        is_login = _LOGIN.search(text) is not None
        return ("a login page" if is_login else "HTML"), "fetch the file itself, with credentials"
    return ("XML", "convert it") if text.startswith(b"<") else None


def _find_json(text: bytes) -> tuple[str, str] | None:
    if text.startswith(b"["):
        return "one JSON array", "write its items as lines (jq -c '.[]')"
    if not text.startswith(b"{"):
        return None
    if b"\r" in text and b"\n" not in text:
        return "lines that end in CR alone", "convert the line ends to LF"
    line = text.partition(b"\n")[0].rstrip()
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        # A line of a pretty-printed object ends where a value begins.
        if line.endswith((b"{", b"[", b",")):
            return "one JSON object over several lines", "write each object as a line (jq -c .)"
        return "JSON whose first line is damaged", _FETCH_AGAIN
    return "JSON Lines", "read it with read-jsonl"


def _is_text(first: bytes) -> bool:
    # Control characters other than white space and escape, which text rarely has.
    return not re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", first)


def _quote(text: bytes) -> str:
    return repr(text.partition(b"\n")[0][:40].decode("utf-8", "replace"))
