"""One version of a table, whatever its format: which data files it has, and what is in each.

It loads a library only where a table of its format is opened. It must not know tasks or stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

import pyarrow as pa

from strandline.plan.packages import load_module
from strandline.storage.outputs.remote import resolve_location

DELTA, ICEBERG, LANCE = "delta", "iceberg", "lance"
_CLASSES = {
    DELTA: ("deltalake", "delta", "DeltaSnapshot"),
    ICEBERG: ("pyiceberg", "iceberg", "IcebergSnapshot"),
    LANCE: ("lance", "lance", "LanceSnapshot"),
}
FORMS = "delta:TABLE, iceberg:CATALOG/NAMESPACE.TABLE or lance:TABLE"
_VERSION_BYTES = 16


class TableError(OSError):
    """A table that can't be read as it is; the message says why."""


class DataFile(NamedTuple):
    """A data file of a table.

    Attributes:
        name: below the table, the same in each version that has the file.
        version: changes where its rows do: by deletions, or by columns that are written.
    """

    name: str
    version: str


class TableSnapshot(Protocol):
    """One version of a table; what it has never changes.

    Attributes:
        number: of the version; None: the table has none yet.
        schema: of all its rows.
    """

    number: int | None
    schema: pa.Schema

    def list_files(self) -> Iterator[DataFile]:
        """Yield its data files."""

    def read(self, name: str, columns: Sequence[str] | None, most_rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a data file that are not deleted.

        Args:
            columns: to read, which it has; None: all.
            most_rows: of each table.

        Raises:
            KeyError: it has no such file.
        """


def find_kind(table: str) -> str | None:
    """Return the format that a table's name begins with; None: it is none that is known."""
    kind, _, rest = table.partition(":")
    return kind if kind in _CLASSES and rest else None


def resolve_table(table: str) -> str:
    """Return a table's name as it means the same from every working directory."""
    kind, _, rest = table.partition(":")
    return table if kind == ICEBERG else f"{kind}:{resolve_location(rest)}"


def open_snapshot(table: str, number: int | None = None) -> TableSnapshot:
    """Open a table at a version.

    Args:
        table: as `FORMS` has it.
        number: of the version or snapshot; None: the current one.

    Raises:
        TableError: there is no such table or version, or it has what can't be read.
    """
    kind, _, rest = table.partition(":")
    package, module, name = _CLASSES[kind]
    try:
        load_module(package)
    except ImportError as error:
        raise TableError(f"{table}: {error}") from error
    opened = load_module(f"strandline_packs.sources.snapshots.{module}")
    found: TableSnapshot = getattr(opened, name)(rest, number)
    return found


def digest_parts(parts: Iterable[str]) -> str:
    """Return a version that changes where one of the parts does."""
    return blake2b("\n".join(parts).encode(), digest_size=_VERSION_BYTES).hexdigest()
