"""Shared files in the ledger's databases: files with rows of several sources.

For each file, the ledger counts the rows that records of finished sources name. Other rows of the
file belong to changed or removed sources. If no record names a row of a file, the file is unused.
The functions run inside transactions of the store, and must not depend on the file format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgpack

from strandline.ledger.records.entries import Change, SharedFile, SourceRecord
from strandline.ledger.records.packing import read_parts
from strandline.ledger.store.environment.layout import Database, Transaction


def count_parts(
    txn: Transaction, shared: Database, change: Change, former: Iterable[bytes]
) -> None:
    """Update how many rows of each shared file are named by records.

    Args:
        former: packed records about to be deleted or replaced; not read if there are no shared
            files.
    """
    # Skip sources without outputs: a fast run finishes many of them.
    named = [record for _, _, record in (*change.finish, *change.rewrite) if record.outputs]
    files = {file: facts for record in named for file, facts in _find_files(record).items()}
    if not files and not txn.stat(shared)["entries"]:
        return
    rows = Counter[bytes]()
    for record in named:
        for output in record.outputs:
            if output.part is not None:
                rows[output.part.file] += output.rows
    for packed in former:
        rows.subtract(read_parts(packed))
    for file, number in rows.items():
        known = txn.get(file, db=shared)
        facts = files[file] if known is None else unpack_shared(known)
        if facts.live + number:
            txn.put(file, pack_shared(facts._replace(live=facts.live + number)), db=shared)
        else:
            txn.delete(file, db=shared)


def pack_shared(shared: SharedFile) -> bytes:
    """Return a shared file as bytes."""
    # Omit an empty list of companions, because older releases can't read the field.
    return msgpack.packb(shared if shared.companions else shared[:-1])  # type: ignore[no-any-return]


def unpack_shared(packed: bytes) -> SharedFile:
    """Return a shared file from its bytes."""
    facts = SharedFile(*msgpack.unpackb(packed))
    return facts._replace(companions=tuple((*each,) for each in facts.companions))


def _find_files(record: SourceRecord) -> dict[bytes, SharedFile]:
    files: dict[bytes, SharedFile] = {}
    beside: dict[bytes, dict[str, tuple[str, int, bytes]]] = {}
    for output in record.outputs:
        if output.part is None:
            continue
        file, _, size, rows = output.part
        if output.is_companion:
            companion = (output.suffix, size, output.digest)
            beside.setdefault(file, {})[output.suffix] = companion
        else:
            files[file] = SharedFile(output.suffix, size, output.digest, rows, 0)
    return {
        file: facts._replace(companions=tuple(beside.get(file, {}).values()))
        for file, facts in files.items()
    }
