"""How small tables cross between processes: as bytes, in Arrow's own stream format.

Ray spells a table buffer by buffer in Python, which for a small one takes ten times as long as all
of it takes Arrow. A large one goes Ray's way: that needs no copy where it is read. Pure; whose a
table is stays unknown here.
"""

from __future__ import annotations

import pyarrow as pa

SMALL_BYTES = 1 << 17


def pack_table(table: pa.Table) -> bytes | None:
    """A table as bytes; None where it is large, or might not come back as it was.

    Its chunks would be cut anew, and types of the user's own come back as what they are made of.
    """
    if not table.num_columns or not table.num_rows or table.nbytes > SMALL_BYTES:
        return None
    if not all(column.num_chunks == 1 and _is_plain(column.type) for column in table.columns):
        return None
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, table.schema) as stream:
        stream.write_table(table)
    packed: bytes = target.getvalue().to_pybytes()
    return packed


def unpack_table(packed: bytes) -> pa.Table:
    """The inverse of `pack_table`."""
    with pa.ipc.open_stream(packed) as stream:
        return stream.read_all()


def _is_plain(kind: pa.DataType) -> bool:
    is_own = isinstance(kind, pa.BaseExtensionType)
    return not (is_own or pa.types.is_nested(kind) or pa.types.is_dictionary(kind))
