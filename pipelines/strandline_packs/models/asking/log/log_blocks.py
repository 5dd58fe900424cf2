"""Encodes and decodes blocks of the request log, and skips damaged bytes.

A block starts with a directory of digests, so a reader can index a log without reading the answers.
Each answer has its own checksum. Blocks of the previous layout store the digests inside compressed
content. This module does no I/O itself: functions that read bytes are arguments.
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Any, NamedTuple

import orjson

from strandline_packs.models.asking.answers import ModelAnswer

Reader = Callable[[int, int], bytes]
_MAGIC, _OLD_MAGIC, _MAGIC_BYTES = b"SRQ2", b"SRQ1", 4
_MAGICS = (_MAGIC, _OLD_MAGIC)
_CHECK_BYTES = 8
_NO_CHECK = bytes(_CHECK_BYTES)
_HEAD = Struct(">4sII8s")  # magic, number of answers, size of all answers, checksum
_ROW = Struct(">16sI8s")  # digest of the request, then length and checksum of the answer
_CHECKED_BYTES = _HEAD.size - _CHECK_BYTES  # bytes of the head before its checksum
_FRONT_BYTES = _HEAD.size + _ROW.size  # head and directory of a block with one answer
_OLD_HEAD = Struct(">4sI8s")  # magic, then length and checksum of the content
_STRIDE = 1 << 16  # bytes per read in the search for a magic
_LEVEL = 1  # low compression level, because answers are short and compressed separately
PACKED_TOGETHER = 64  # answers of a block that pruning rewrites


class LogEntry(NamedTuple):
    """An answered request.

    Attributes:
        digest: digest of the request.
        time: when the answer was logged, in seconds since the epoch.
        answer: answer of the model.
        keys: keys of the rows that needed the answer when it was logged.
    """

    digest: bytes
    time: float
    answer: ModelAnswer
    keys: tuple[str, ...] = ()


class PackedEntry(NamedTuple):
    """The digest of a request with the encoded answer."""

    digest: bytes
    content: bytes


class LogBlock(NamedTuple):
    """A complete block of a request log.

    Attributes:
        start, end: byte range of the block in the log.
        digests: digests of the requests.
    """

    start: int
    end: int
    digests: Sequence[bytes]


class _Directory(NamedTuple):
    """The rows of a block's directory, and where the block ends."""

    rows: bytes
    end: int


class ReadWindow:
    """Buffers reads: reads ahead, because callers usually visit neighboring blocks in order.

    Args:
        reader: reads bytes; takes a position and a maximum size.
        ahead: minimum number of bytes to read.
    """

    def __init__(self, reader: Reader, ahead: int) -> None:
        self._read, self._ahead = reader, ahead
        self._start, self._bytes = 0, b""

    def __call__(self, start: int, size: int) -> bytes:
        """Return `size` bytes from a position, or fewer at the end of the log."""
        at = start - self._start
        if at < 0 or at + size > len(self._bytes):
            self._start, self._bytes = start, self._read(start, max(size, self._ahead))
            at = 0
        return self._bytes[at : at + size]


def pack(entry: LogEntry) -> PackedEntry:
    """Return an entry with its answer encoded."""
    fields = (each.tolist() if isinstance(each, array) else each for each in entry.answer)
    content = _compress([entry.time, *fields])
    # Earlier versions read the first stream only, so they ignore the keys.
    return PackedEntry(entry.digest, content + (_compress(entry.keys) if entry.keys else b""))


def unpack(packed: PackedEntry) -> LogEntry:
    """Decode a packed entry."""
    stream = zlib.decompressobj()
    time, *answer = _read_json(stream.decompress(packed.content))
    rest = stream.unused_data
    keys = tuple(_read_json(zlib.decompress(rest))) if rest else ()
    return LogEntry(packed.digest, time, _build_answer(answer), keys)


def _compress(value: object) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), _LEVEL)


def build_block(entries: Sequence[PackedEntry]) -> bytes:
    """Return the bytes of a block."""
    rows = [_ROW.pack(digest, len(content), _check(content)) for digest, content in entries]
    contents = b"".join(entry.content for entry in entries)
    directory = b"".join(rows)
    # The checksum covers the head, with zeros in place of the checksum.
    head = _HEAD.pack(_MAGIC, len(rows), len(contents), _NO_CHECK)
    check = _check(head + directory)
    return head[:-_CHECK_BYTES] + check + directory + contents


def build_blocks(entries: Sequence[PackedEntry]) -> Iterator[bytes]:
    """Yield blocks of at most `PACKED_TOGETHER` entries."""
    for first in range(0, len(entries), PACKED_TOGETHER):
        yield build_block(entries[first : first + PACKED_TOGETHER])


def find_blocks(reader: Reader, start: int, size: int) -> Iterator[LogBlock]:
    """Yield the complete blocks of a log, and skip damaged bytes between blocks.

    Args:
        start: start of a block or of damaged bytes.
        size: size of the log in bytes.
    """
    at: int | None = start
    while at is not None and at < size:
        block = _open_block(reader, at, size)
        if block is None:
            # A damaged head hides the length of the block, so search for the next magic.
            at = _find_magic(reader, at + 1, size)
        else:
            yield block
            at = block.end


def read_entries(
    reader: Reader, start: int, size: int, wanted: Collection[bytes] | None = None
) -> Iterator[LogEntry]:
    """Yield the entries of a block, without damaged entries.

    Args:
        start: recorded start of the block. If the log has changed and no block starts there,
            nothing is yielded.
        size: size of the log in bytes.
        wanted: digests of the entries to read; None for all.
    """
    directory = _read_directory(reader, start, size)
    if directory is None:
        found = _read_old_entries(reader, start, size)
        yield from (entry for entry in found if wanted is None or entry.digest in wanted)
        return
    at = start + _HEAD.size + len(directory.rows)
    for digest, length, check in _ROW.iter_unpack(directory.rows):
        if wanted is None or digest in wanted:
            content = reader(at, length)
            if len(content) == length and _check(content) == check:
                yield unpack(PackedEntry(digest, content))
        at += length


def read_all(
    reader: Reader, start: int, size: int
) -> Iterator[tuple[LogBlock, Iterable[LogEntry]]]:
    """Yield the complete blocks of a log with their entries."""
    for block in find_blocks(reader, start, size):
        yield block, read_entries(reader, block.start, size)


def _open_block(reader: Reader, start: int, size: int) -> LogBlock | None:
    """Return the block at a position, or None if there is no complete block."""
    directory = _read_directory(reader, start, size)
    if directory is not None:
        rows = list(_ROW.iter_unpack(directory.rows))
        return LogBlock(start, directory.end, [digest for digest, _, _ in rows])
    content = _read_old_content(reader, start, size)
    if content is None:
        return None
    digests = [entry.digest for entry in _unpack_old(content)]
    return LogBlock(start, start + _OLD_HEAD.size + len(content), digests)


def _read_directory(reader: Reader, start: int, size: int) -> _Directory | None:
    """Return a block's directory, or None if the block is incomplete or has another layout."""
    data = reader(start, _FRONT_BYTES)  # the whole directory, if the block has one answer
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        return None
    _, count, length, check = _HEAD.unpack_from(data)
    front = _HEAD.size + count * _ROW.size
    end = start + front + length
    # The block is torn, or still being written.
    if end > size:
        return None
    rows = (
        data[_HEAD.size :]
        if front == _FRONT_BYTES
        else reader(start + _HEAD.size, front - _HEAD.size)
    )
    is_whole = _check(data[:_CHECKED_BYTES] + _NO_CHECK + rows) == check
    return _Directory(rows, end) if is_whole else None


def _read_old_content(reader: Reader, start: int, size: int) -> bytes | None:
    head = reader(start, _OLD_HEAD.size)
    if len(head) < _OLD_HEAD.size or not head.startswith(_OLD_MAGIC):
        return None
    _, length, check = _OLD_HEAD.unpack(head)
    if start + _OLD_HEAD.size + length > size:
        return None
    content = reader(start + _OLD_HEAD.size, length)
    return content if _check(content) == check else None


def _read_old_entries(reader: Reader, start: int, size: int) -> Iterable[LogEntry]:
    content = _read_old_content(reader, start, size)
    return () if content is None else _unpack_old(content)


def _unpack_old(content: bytes) -> Iterator[LogEntry]:
    rows: list[list[Any]] = json.loads(zlib.decompress(content))
    for digest, time, *answer in rows:
        yield LogEntry(bytes.fromhex(digest), time, _build_answer(answer))


def _build_answer(fields: Sequence[Any]) -> ModelAnswer:
    text, vector, *rest = fields
    return ModelAnswer(text, None if vector is None else array("d", vector), *rest)


def _read_json(content: bytes) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:  # an unpaired surrogate, NaN or infinity, which orjson rejects
        return json.loads(content)


def _find_magic(reader: Reader, start: int, size: int) -> int | None:
    """Return the next possible start of a block, if any."""
    for at in range(start, size, _STRIDE):
        # Portions overlap, so that a magic across a border is found.
        data = reader(at, _STRIDE + _MAGIC_BYTES - 1)
        found = [where for magic in _MAGICS if (where := data.find(magic)) >= 0]
        if found:
            return at + min(found)
    return None


def _check(content: bytes) -> bytes:
    return blake2b(content, digest_size=_CHECK_BYTES).digest()
