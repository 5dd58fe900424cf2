"""Finds the sources that may have a row, from their keys and payloads.

This module has no side effects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from strandline.plan.pipeline import StagePlan
from strandline.plan.stages.ends import Source

_LONGEST = 200  # characters of a value that is shown


def list_paths(source: Source) -> frozenset[str]:
    """Return the files that a source's payload names, if any."""
    if not isinstance(source.data, pa.Table) or "path" not in source.data.column_names:
        return frozenset()
    return frozenset(filter(None, source.data["path"].to_pylist()))


def show_payload(source: Source) -> Mapping[str, Any]:
    """Return the payload of a source as plain values: a single row, or the number of rows."""
    if not isinstance(source.data, pa.Table):
        return {}
    if source.data.num_rows != 1:
        return {"rows": source.data.num_rows}
    row = source.data.to_pylist()[0]
    return {
        name: value
        for name, value in row.items()
        if isinstance(value, str | int) and len(str(value)) <= _LONGEST and name != "key"
    }


def find_likely(sources: Iterable[Source], keys: Collection[str]) -> list[Source]:
    """Return the sources whose file the keys of the row begin with."""
    return [
        source
        for source in sources
        if any(key.startswith(source.key.rpartition("#")[0] or source.key) for key in keys)
    ]


def find_last_keying(stages: Sequence[StagePlan], column: str) -> int:
    """Return the number of stages until no later stage can give rows other keys."""
    positions = (
        at
        for at, each in enumerate(stages, 1)
        if each.stage.keeps_columns is not True or column in each.stage.list_added()
    )
    return max(positions, default=0)
