"""Whether a ledger's data file can be mapped at all, read off its first bytes and its size.

A file that is shorter than it says would kill the process that maps it, so this is asked first.
"""

from __future__ import annotations

import struct
from pathlib import Path

from strandline.ledger.errors import LedgerError
from strandline.storage.errors import VolumeError

_MAGIC = 0xBEEFC0DE
_DATA_VERSION = 1
_PAGE = 4096
_PAGE_HEADER = 16
_META = struct.Struct("<IIQQ")  # magic, version, address, map size
_DB = struct.Struct("<IHHQQQQQ")
_TAIL = struct.Struct("<QQ")  # last page, transaction
META_BYTES = _PAGE_HEADER + _META.size + 2 * _DB.size + _TAIL.size


def explain_damage(first: bytes, second: bytes, size: int) -> str | None:
    """Why the file can't be a whole ledger, in a few words; None where nothing speaks against it.

    Args:
        first, second: at least `META_BYTES` bytes of each of the file's two meta pages.
        size: the file's size in bytes.
    """
    metas = [meta for meta in map(_read_meta, (first, second)) if meta]
    if not metas:
        return "it is damaged: it does not begin as an LMDB file does"
    page_size, last_page, _ = max(metas, key=lambda meta: meta[2])
    missing = (last_page + 1) * page_size - size
    return f"it is cut short: {missing} bytes are missing" if missing > 0 else None


def check_image(data: Path) -> None:
    """See that a data file can be mapped; one that is missing or empty can.

    Raises:
        LedgerError: it is damaged.
        VolumeError: it can't be read.
    """
    try:
        size = data.stat().st_size
        with data.open("rb") as file:
            first = file.read(META_BYTES)
            file.seek(_PAGE)
            second = file.read(META_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        msg = f"{data}: {error.strerror}"
        raise VolumeError(msg) from error
    damage = explain_damage(first, second, size) if size else None
    if damage:
        advice = "restore the file from a copy, or move it away to start over"
        msg = f"{data}: the ledger can't be read: {damage}; {advice}"
        raise LedgerError(msg)


def _read_meta(page: bytes) -> tuple[int, int, int] | None:
    if len(page) < META_BYTES:
        return None
    magic, version, _, _ = _META.unpack_from(page, _PAGE_HEADER)
    if magic != _MAGIC or version != _DATA_VERSION:
        return None
    at = _PAGE_HEADER + _META.size
    page_size = _DB.unpack_from(page, at)[0]
    last_page, transaction = _TAIL.unpack_from(page, at + 2 * _DB.size)
    return page_size, last_page, transaction
