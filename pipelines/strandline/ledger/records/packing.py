"""Converts entries of a ledger to bytes, and back.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgpack

from strandline.ledger.records.entries import (
    FailureRecord,
    ListedSource,
    Mark,
    QuarantinedSource,
    SourceRecord,
)
from strandline.plan.receipt import Effort, Output, Piece, PieceLocation, RowChange, SharedPart
from strandline.plan.token import derive_root

_EFFORT_FIELDS = 5  # number of fields that older releases read
# Create named tuples with `tuple.__new__`: calling their class takes twice as long.
_new_tuple = tuple.__new__


def create_packer() -> Callable[[Any], bytes]:
    """Return a reusable function that packs entries.

    Reuse the function, because creating it costs as much as packing an entry. The function is not
    thread-safe.
    """
    return msgpack.Packer().pack  # type: ignore[no-any-return]


def pack_record(
    source: bytes,
    version: bytes,
    record: SourceRecord,
    pack: Callable[[Any], bytes] = msgpack.packb,
) -> bytes:
    """Return a record as bytes.

    The root's token is omitted because source and version determine it.

    Args:
        pack: see `create_packer`.
    """
    key, outputs, pieces, efforts, changes = record
    content: list[Any] = [key, _pack_outputs(source, version, outputs)]
    if pieces or efforts or changes:
        content.append([(stage, token, *location) for stage, token, location in pieces])
    if efforts or changes:
        content.append([effort[:_EFFORT_FIELDS] for effort in efforts])
    if changes:  # older releases ignore this field
        content.append([change if change.reasons else change[:2] for change in changes])
    return pack(content)


def _pack_outputs(
    source: bytes, version: bytes, outputs: tuple[Output, ...]
) -> Sequence[tuple[Any, ...]]:
    if not outputs:
        return ()
    root = derive_root(source, version)
    return [
        # Omit `part` for a file with one source: releases without shared files can't read the
        # field.
        (b"" if output.token == root else output.token, *output[1 : 6 if output.part else 5])
        for output in outputs
    ]


def unpack_record(source: bytes, version: bytes, packed: bytes) -> SourceRecord:
    """Return a record from its bytes; the inverse of `pack_record`."""
    key, outputs, *more = msgpack.unpackb(packed)
    root = derive_root(source, version)
    return SourceRecord(
        key,
        tuple(_unpack_output(token or root, rest) for token, *rest in outputs),
        _unpack_pieces(more),
        *_unpack_work(*more[1:]),
    )


def _unpack_work(
    efforts: Iterable[Sequence[Any]] = (), changes: Iterable[Sequence[Any]] = ()
) -> tuple[tuple[Effort, ...], tuple[RowChange, ...]]:
    return (
        tuple(Effort(*effort) for effort in efforts),
        tuple(_unpack_change(*change) for change in changes),
    )


def _unpack_change(stage: str, rows: int, reasons: Sequence[Sequence[Any]] = ()) -> RowChange:
    return RowChange(stage, rows, tuple((reason, number) for reason, number in reasons))


def _unpack_output(token: bytes, packed: list[Any]) -> Output:
    output = Output(token, *packed)
    return output if output.part is None else output._replace(part=SharedPart(*output.part))


def read_parts(packed: bytes) -> dict[bytes, int]:
    """Return the number of rows in each shared file that a packed record names."""
    _, outputs, *_ = msgpack.unpackb(packed)
    parts: dict[bytes, int] = {}
    for _, _, _, _, rows, *part in outputs:
        if part:
            file = part[0][0]
            parts[file] = parts.get(file, 0) + rows
    return parts


def read_pieces(packed: bytes) -> tuple[Piece, ...]:
    """Return the pieces of a packed record."""
    _, _, *more = msgpack.unpackb(packed)
    return _unpack_pieces(more)


def _unpack_pieces(more: list[Any]) -> tuple[Piece, ...]:
    packed = more[0] if more else ()
    return tuple(
        Piece(stage, token, PieceLocation(*location)) for stage, token, *location in packed
    )


def pack_listed(batch: Iterable[ListedSource]) -> bytes:
    """Return listed sources as bytes, for transfer to a ledger in another process.

    The transport's own serialization inspects every source and is many times slower.
    """
    return msgpack.packb(list(batch))  # type: ignore[no-any-return]


def unpack_listed(packed: bytes) -> list[ListedSource]:
    """Return listed sources from their bytes; the inverse of `pack_listed`."""
    return [_new_tuple(ListedSource, listed) for listed in msgpack.unpackb(packed, use_list=False)]


def pack(entry: Mark | FailureRecord | QuarantinedSource) -> bytes:
    """Return a mark, a failure, or a quarantined source as bytes."""
    return msgpack.packb(tuple(entry))  # type: ignore[no-any-return]


def unpack_mark(packed: bytes) -> Mark:
    """Return a mark from its bytes."""
    return Mark(*msgpack.unpackb(packed))


def unpack_failure(packed: bytes) -> FailureRecord:
    """Return a failure from its bytes."""
    return FailureRecord(*msgpack.unpackb(packed))


def unpack_quarantined(packed: bytes) -> QuarantinedSource:
    """Return a quarantined source from its bytes."""
    return QuarantinedSource(*msgpack.unpackb(packed))
