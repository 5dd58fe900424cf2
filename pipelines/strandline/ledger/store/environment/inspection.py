"""Checks whether a ledger's data file can be mapped, from its first bytes and its size.

If used pages are missing in the file, access through the map would kill the process, so check
first. A file may legally be shorter than its header indicates: pages at the end that were allocated
and freed in the same transaction are counted, but never written. LMDB lists such pages as free.

In spite of the check, a damaged page can make LMDB read beyond the file or abort. The process can't
survive the signal, so a signal handler names the ledger and exits with the code for damage.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from msgpack.exceptions import UnpackException

from strandline.ledger.errors import LedgerError
from strandline.storage.errors import VolumeError

_MAGIC = 0xBEEFC0DE
_DATA_VERSION = 1
_PAGE = 4096
_PAGE_HEADER = 16
_META = struct.Struct("<IIQQ")  # magic, version, address, map size
_DB = struct.Struct("<IHHQQQQQ")  # pad (page size in the first database), flags, depth, ..., root
_TAIL = struct.Struct("<QQ")  # last page, transaction
_HEAD = struct.Struct("<QHHHH")  # number, pad, flags, end of node offsets, start of nodes
_NODE = struct.Struct("<HHHH")  # low and high half of a size or number, flags, key size
_NUMBER = struct.Struct("<Q")
_BRANCH, _LEAF, _APART = 1, 2, 1  # two page flags and a node flag
_NO_PAGE = 2**64 - 1
_NOWHERE = 2**62
_LOOKS = 5  # a writer may reuse pages during a check, so repeat it
_PAGE_SIZES = frozenset(2**power for power in range(9, 17))  # allowed by LMDB
# Exceptions that decoders raise for damaged bytes.
UNREADABLE = (ValueError, TypeError, LookupError, OverflowError, struct.error, UnpackException)
_ADVICE = "restore the file from a copy, or move it away to start over"
_STDERR = 2
_READERS: dict[int, Path | None] = {}  # ledger that each thread uses
_HANDLERS: dict[int, int | None] = {}  # previous handlers, by signal
META_BYTES = _PAGE_HEADER + _META.size + 2 * _DB.size + _TAIL.size

Read = Callable[[int, int], bytes]  # offset, size


class _Meta(NamedTuple):
    page_size: int
    free_root: int
    last_page: int
    transaction: int


class _LackingError(Exception):
    """Raised if a required page is missing in the file or invalid."""


def explain_damage(read: Read, size: int) -> str | None:
    """Explain why the file can't be a complete ledger. Return None if no damage is found.

    Args:
        read: returns bytes at an offset, or fewer at the end of the file.
        size: size of the file in bytes, read after the last commit was read.
    """
    meta = _find_newest(read)
    if meta is None:
        return "it is damaged: it does not start with the header of an LMDB file"
    pages = size // meta.page_size
    lacking = range(pages, meta.last_page + 1)
    if not lacking:
        return None
    # The end of the file may lack free pages, which were never written. If it lacks a used page,
    # the file was truncated.
    try:
        free = set(_list_free(read, meta))
    except _LackingError:
        free = set()
    if free.issuperset(lacking):
        return None
    return f"it is truncated: {(meta.last_page + 1) * meta.page_size - size} bytes are missing"


def describe_damage(error: BaseException) -> str:
    """Describe damaged bytes, as the end of a sentence."""
    return f"it is damaged ({type(error).__name__}: {' '.join(str(error).split())}); {_ADVICE}"


def check_image(data: Path) -> None:
    """Check that a data file can be mapped. A missing or empty file passes.

    Raises:
        LedgerError: if the file is damaged.
        VolumeError: if the file can't be read.
    """
    try:
        damage = _inspect(data)
    except FileNotFoundError:
        return
    except OSError as error:
        msg = f"{data}: {error.strerror}"
        raise VolumeError(msg) from error
    if damage:
        msg = f"{data}: the ledger can't be read: {damage}; {_ADVICE}"
        raise LedgerError(msg)


def _inspect(data: Path) -> str | None:
    with data.open("rb") as file:

        def read(offset: int, size: int) -> bytes:
            return os.pread(file.fileno(), size, offset)

        for _ in range(_LOOKS):
            before = _find_newest(read)
            # Read the size after the header that contains the number of pages, because the file may
            # grow in between.
            size = os.fstat(file.fileno()).st_size
            damage = explain_damage(read, size) if size else None
            if damage is None or _find_newest(read) == before:
                break
    return damage


def _find_newest(read: Read) -> _Meta | None:
    metas = [meta for at in (0, _PAGE) if (meta := _read_meta(read(at, META_BYTES)))]
    return max(metas, key=lambda meta: meta.transaction, default=None)


def _read_meta(page: bytes) -> _Meta | None:
    if len(page) < META_BYTES:
        return None
    magic, version, _, _ = _META.unpack_from(page, _PAGE_HEADER)
    if magic != _MAGIC or version != _DATA_VERSION:
        return None
    at = _PAGE_HEADER + _META.size
    page_size, *_, free_root = _DB.unpack_from(page, at)
    if page_size not in _PAGE_SIZES:
        return None
    return _Meta(page_size, free_root, *_TAIL.unpack_from(page, at + 2 * _DB.size))


def _list_free(read: Read, meta: _Meta) -> Iterator[int]:
    """Yield all free pages: they are the values in LMDB's tree of free pages."""
    waiting = [] if meta.free_root == _NO_PAGE else [meta.free_root]
    seen = set()
    while waiting:
        number = waiting.pop()
        if number in seen:
            raise _LackingError  # a cycle, so the tree is damaged
        seen.add(number)
        page = _read_whole(read, number * meta.page_size, meta.page_size)
        flags = _HEAD.unpack_from(page)[2]
        for low, high, more, content in _list_nodes(page):
            if flags & _BRANCH:
                waiting.append(low | high << 16 | more << 32)
            elif more & _APART:
                at = _NUMBER.unpack_from(content)[0] * meta.page_size + _PAGE_HEADER
                yield from _unpack(_read_whole(read, at, low | high << 16))
            else:
                yield from _unpack(content[: low | high << 16])


def _list_nodes(page: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    _, _, flags, end, _ = _HEAD.unpack_from(page)
    if not flags & (_BRANCH | _LEAF) or end > len(page):
        raise _LackingError
    for at in range(_PAGE_HEADER, end, 2):
        offset = int.from_bytes(page[at : at + 2], "little")
        if offset + _NODE.size > len(page):
            raise _LackingError
        low, high, more, key = _NODE.unpack_from(page, offset)
        yield low, high, more, page[offset + _NODE.size + key :]


def _unpack(numbers: bytes) -> tuple[int, ...]:
    count = len(numbers) // _NUMBER.size
    return struct.unpack_from(f"<{count}Q", numbers)[1:]


def _read_whole(read: Read, offset: int, size: int) -> bytes:
    # A damaged page number may point beyond the end of any file.
    content = read(offset, size) if 0 <= offset < _NOWHERE else b""
    if len(content) < size:
        raise _LackingError
    return content


@contextmanager
def watching_pages(path: Path) -> Iterator[None]:
    """Exit with a message if a damaged ledger causes a fatal signal in the block.

    Args:
        path: path of the ledger, for the message.
    """
    if not _HANDLERS:
        # LMDB itself calls `abort` if it detects damage.
        for number in (signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT):
            _HANDLERS[number] = _set_handler(number, ctypes.cast(_ON_FAULT, ctypes.c_void_p))
    thread = threading.get_ident()
    before, _READERS[thread] = _READERS.get(thread), path
    try:
        yield
    finally:
        _READERS[thread] = before


def _take_fault(number: int) -> None:
    path = _READERS.get(threading.get_ident())
    if path is None:  # not an access to a ledger: run the previous handler
        _set_handler(number, _HANDLERS[number])
        signal.raise_signal(number)
        return
    try:
        what = f"it is damaged ({signal.Signals(number).name} in LMDB); {_ADVICE}"
        line = f"strandline: error: {path}: the ledger can't be read: {what}\n"
        os.write(_STDERR, line.encode(errors="backslashreplace"))
    finally:
        os._exit(int(LedgerError.exit_code))


_ON_FAULT = ctypes.CFUNCTYPE(None, ctypes.c_int)(_take_fault)
# Python runs its own signal handlers only after the faulting access succeeds, which never happens.
_set_handler = ctypes.CDLL(None).signal
_set_handler.argtypes, _set_handler.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
