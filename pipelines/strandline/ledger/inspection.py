"""Whether a ledger's data file can be mapped at all, read off its first bytes and its size.

A file that is shorter than it says would kill the process that maps it, so this is asked first.
"""

from __future__ import annotations

import struct

_MAGIC = 0xBEEFC0DE
_DATA_VERSION = 1
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
