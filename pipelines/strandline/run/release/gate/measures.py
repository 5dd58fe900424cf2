"""Measures a complete run for its requirements: ledger, files, and gathered statistics.

The module only reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.data.files.opening import open_binary
from strandline.ledger.checks.counts import count_data, count_dead_letters
from strandline.ledger.checks.verification import verify
from strandline.ledger.gather.verification import verify_pieces
from strandline.ledger.output_root import list_out
from strandline.ledger.store.recipes import count_older
from strandline.ledger.store.store import Store
from strandline.run.release.gate.requirements import (
    FIELDS,
    LANGUAGES,
    TOKENS,
    Rows,
    RunMeasures,
    SchemaGroup,
)
from strandline.run.release.gatherer import ARTIFACTS
from strandline.storage.outputs.remote import open_outputs
from strandline_api.spec.publishing import ColumnKind, Expectation, Requirements

_SUFFIX = ".parquet"
_KINDS: tuple[tuple[ColumnKind, Callable[[pa.DataType], bool]], ...] = (
    (ColumnKind.BOOLEAN, pa.types.is_boolean),
    (ColumnKind.INTEGER, pa.types.is_integer),
    (ColumnKind.NUMBER, pa.types.is_integer),
    (ColumnKind.NUMBER, pa.types.is_floating),
    (ColumnKind.NUMBER, pa.types.is_decimal),
    (ColumnKind.STRING, pa.types.is_string),
    (ColumnKind.STRING, pa.types.is_large_string),
    (ColumnKind.STRING, pa.types.is_string_view),
    (ColumnKind.BINARY, pa.types.is_binary),
    (ColumnKind.BINARY, pa.types.is_large_binary),
    (ColumnKind.BINARY, pa.types.is_fixed_size_binary),
    (ColumnKind.TIME, pa.types.is_temporal),
    (ColumnKind.LIST, pa.types.is_list),
    (ColumnKind.LIST, pa.types.is_large_list),
    (ColumnKind.LIST, pa.types.is_fixed_size_list),
    (ColumnKind.STRUCT, pa.types.is_struct),
)


def measure_run(
    require: Requirements,
    store: Store,
    location: str,
    shards: Path,
    artifacts: Mapping[str, Path],
) -> RunMeasures:
    """Measure a complete run, but only what the requirements need. The caller adds source counts.

    Args:
        location: folder or URL of the outputs.
        shards: folder of the gathered statistics.
        artifacts: artifacts of the statistics, by published name.

    Raises:
        LedgerError, VolumeError: if a file can't be read.
    """
    problems: list[str] = []
    if require.verified:
        problems += verify(store, open_outputs(location)).problems
        problems += verify_pieces(store, shards).problems
    is_counted = require.dead_letters is not None
    return RunMeasures(
        problems=problems,
        older=count_older(store) if require.one_recipe else 0,
        rows=count_data(store).rows,
        dead=count_dead_letters(store).total if is_counted else 0,
        schemas=_read_schemas(location, [each.name for each in list_out(store)])
        if require.columns
        else None,
        statistics=_read_statistics(require.expectations, artifacts),
    )


def find_kinds(kind: pa.DataType) -> frozenset[ColumnKind]:
    """Return the column kinds that include an Arrow type: an integer is also a number."""
    if pa.types.is_dictionary(kind):
        return find_kinds(kind.value_type)
    return frozenset(family for family, belongs in _KINDS if belongs(kind))


def _read_schemas(location: str, names: list[str]) -> list[SchemaGroup] | None:
    found: dict[pa.Schema, SchemaGroup] = {}
    for name in names:
        if not name.endswith(_SUFFIX):
            continue
        with open_binary(f"{location.rstrip('/')}/{name}") as file:
            # Remove metadata, which may differ between files with equal columns.
            schema = pq.read_schema(file).remove_metadata()
        if schema not in found:
            kinds = {column.name: find_kinds(column.type) for column in schema}
            found[schema] = SchemaGroup(name, kinds)
    return list(found.values()) if found or not names else None


def _read_statistics(
    expectations: tuple[Expectation, ...], artifacts: Mapping[str, Path]
) -> dict[tuple[str, str], Rows]:
    found: dict[tuple[str, str], Rows] = {}
    for stage in {expectation.stage for expectation in expectations}:
        for table in (FIELDS, LANGUAGES, TOKENS):
            path = artifacts.get(f"{ARTIFACTS}/{stage}.{table}.json")
            if path is not None:
                found[stage, table] = json.loads(path.read_bytes())["rows"]
    return found
