"""Digests of rows for a Bloom filter: eight bytes per row, from the columns that decide equality.

The module must not depend on the use of the digests.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from strandline.data.tables.columns import list_comparable
from strandline_packs.dedup.drop_duplicates import Normalisation, digest_values
from strandline_packs.dedup.seen.bloom_filter import Digests
from strandline_packs.dedup.seen.digest_files import DTYPE


def digest_rows(
    table: pa.Table, columns: tuple[str, ...], normalise: Normalisation
) -> tuple[Digests, list[bool]]:
    """Return the digests of the non-empty rows, and whether each row has any text.

    Raises:
        MissingColumnError: a column is missing.
        TypeError: a column has lists or structs.
    """
    texts = [list_comparable(table, name) for name in columns]
    rows = list(zip(*texts, strict=True))
    is_filled = [any(map(str.strip, row)) for row in rows]
    raw = [
        # Half of a digest suffices: 64-bit collisions are rarer than false positives of the filter.
        digest_values(row, normalise)[: DTYPE.itemsize]
        for row, is_some in zip(rows, is_filled, strict=True)
        if is_some
    ]
    return np.frombuffer(b"".join(raw), DTYPE), is_filled
